import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { importingFrom, plainEnvironment } from "./readme.ts";

// The guide to limits promises what its examples print, its pictures what the limiter does, and the promise that it is checked.

const GUIDE = new URL("../docs/guide/limits.md", import.meta.url);
const PICTURES = fileURLToPath(new URL("../docs/guide/pictures", import.meta.url));
const DRAW = fileURLToPath(new URL("../scripts/draw-limits.ts", import.meta.url));
const entryOf = (subpath: string) => new URL(`../src/entry/${subpath}.ts`, import.meta.url).href;

const run = promisify(execFile);
// What is printed is compared, so it must not be coloured, wherever this runs.
const env = { ...plainEnvironment(), FORCE_COLOR: "0" };
const guide = readFileSync(GUIDE, "utf8");

let folder: string;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "limits-guide-"));
});

after(() => rm(folder, { recursive: true }));

// A few at a time: each is a process of its own.
describe("every example runs as it stands and prints what the guide says", { concurrency: 4 }, () => {
  for (const { line, heading, text, printed } of examplesOf(guide)) {
    test(`${heading} (line ${line})`, async () => {
      const file = join(folder, `example-${line}.mts`);
      await writeFile(file, importingFrom(text, entryOf));
      const { stdout } = await run(process.execPath, [file], { cwd: folder, env });
      assert.equal(stdout, printed);
    });
  }
});

test("every kind and every policy has an example", () => {
  const headings = new Set(examplesOf(guide).map(({ heading }) => heading));
  const missing = [...guide.matchAll(/^## (.*)$/gm)].flatMap(([, heading = ""]) =>
    headings.has(heading) ? [] : heading,
  );
  assert.deepEqual(missing, []);
  assert.ok(headings.size >= 15, `only ${headings.size} sections were found`);
});

test("the pictures of the guide are what the limiter does today, to the byte", async () => {
  const drawn = await mkdtemp(join(folder, "pictures-"));
  await run(process.execPath, [DRAW, drawn], { env });
  const names = readdirSync(drawn).sort();
  // The picture of the dashboard is a photograph, not drawn from the limiter.
  const shown = readdirSync(PICTURES).filter((name) => name.endsWith(".svg"));
  assert.deepEqual(names, shown.sort());
  for (const name of names) {
    const now = readFileSync(join(drawn, name), "utf8");
    const message = `${name} is not what the limiter does; draw it again: node scripts/draw-limits.ts`;
    assert.equal(readFileSync(join(PICTURES, name), "utf8"), now, message);
    assert.ok(guide.includes(`](pictures/${name})`), `${name} is not shown in the guide`);
  }
});

test("what the promise names as its checks is there", () => {
  const promise = readFileSync(new URL("../docs/promise.md", import.meta.url), "utf8");
  const named = [...promise.matchAll(/`(?:(src|test)\/([\w./-]+)|(contract-[\w-]+\.ts))`/g)].map(
    ([, top, path, contract]) => (contract === undefined ? `${top}/${path}` : `src/testing/${contract}`),
  );
  assert.ok(named.length > 20, `only ${named.length} checks were found`);
  const missing = named.filter((path) => !existsSync(new URL(`../${path}`, import.meta.url)));
  assert.deepEqual(missing, []);
});

interface Example {
  /** Where in the guide its block begins. */
  readonly line: number;
  /** Of the section it stands in. */
  readonly heading: string;
  readonly text: string;
  readonly printed: string;
}

/** Every TypeScript block, with the block after it: what it prints. */
function examplesOf(markdown: string): Example[] {
  const blocks = [...markdown.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)];
  return blocks.flatMap(({ 1: language, 2: text = "", index }, i) => {
    if (language !== "ts") return [];
    const before = markdown.slice(0, index);
    const line = before.split("\n").length;
    const heading = /^## (.*)$/m.exec(before.slice(before.lastIndexOf("\n## ")))?.[1] ?? "";
    assert.match(text, /^import [^;]*from "zae-limiter";/, `line ${line}: it does not import the package first`);
    const [, after, printed = ""] = blocks[i + 1] ?? [];
    assert.equal(after, "text", `line ${line}: it is not followed by what it prints`);
    return [{ line, heading, text, printed }];
  });
}
