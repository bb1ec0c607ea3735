import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

// docs/reference/defects.md says which tests look for which defect: each once, all of them, and none that is not there.

const root = fileURLToPath(new URL("../..", import.meta.url));
const read = (path: string) => readFileSync(`${root}/${path}`, "utf8");

const numbers = [
  ...Array.from({ length: 40 }, (_, i) => `W${i + 1}`),
  ...Array.from({ length: 25 }, (_, i) => `X${i + 1}`),
];

/** Files by defect, as the document names them. */
const rows = [...read("docs/reference/defects.md").matchAll(/^\| ([WXY]\d+) \| [^|]+ \| ([^|]+) \|$/gm)].map(
  ([, number, files]) => [number, [...(files ?? "").matchAll(/`([^`]+)`/g)].map(([, file]) => file)] as const,
);

/** Defects that the tests in a file are named for. */
function defectsIn(path: string): ReadonlySet<string> {
  const names = [...read(path).matchAll(/\btest\(\s*(["`])(.+?)\1/gs)].map(([, , name]) => name ?? "");
  return new Set(
    names.flatMap((name) => [...name.matchAll(/\b([WXY]\d+)[a-e]?\b/g)].map(([, number]) => number ?? "")),
  );
}

test("every defect has its row, once and in order", () => {
  const named = rows.map(([number = ""]) => number);
  assert.deepEqual(
    named.filter((number) => !number.startsWith("Y")),
    numbers,
  );
  // Not all of these are ours to have: some are of commands that we do not offer.
  const around = named.filter((number) => number.startsWith("Y")).map((number) => Number(number.slice(1)));
  assert.deepEqual(
    around,
    [...new Set(around)].toSorted((a, b) => a - b),
  );
});

test("every file of a row has a test that is named for the defect", () => {
  const empty = rows.flatMap(([number, files]) =>
    files.filter((file) => !defectsIn(file as string).has(number as string)).map((file) => `${number} in ${file}`),
  );
  assert.deepEqual(empty, []);
  assert.ok(rows.every(([, files]) => files.length > 0));
});

test("every test that is named for a defect stands in its row", () => {
  const files = globSync(["src/**/*.ts", "test/**/*.ts"], { cwd: root });
  const known = new Map(rows.map(([number, named]) => [number, named]));
  const missing = files.flatMap((file) =>
    [...defectsIn(file)].filter((number) => !known.get(number)?.includes(file)).map((n) => `${n}: ${file}`),
  );
  assert.deepEqual(missing, []);
});
