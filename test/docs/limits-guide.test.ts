import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { plainEnvironment } from "./readme.ts";

// The guides to limits show what every example prints (test/docs/docs.test.ts runs them), the pictures what the limiter does, and the
// promise names its checks.

const GUIDE = new URL("../../docs/guide/limits.md", import.meta.url);
const PICTURES = fileURLToPath(new URL("../../docs/guide/pictures", import.meta.url));
const DRAW = fileURLToPath(new URL("../../scripts/draw-limits.ts", import.meta.url));
const guide = readFileSync(GUIDE, "utf8");

test("every kind of limit has an example, and every example is a program with what it prints", () => {
  const examples = examplesOf(guide);
  const headings = new Set(examples.map(({ heading }) => heading));
  const missing = [...guide.matchAll(/^## (.*)$/gm)].flatMap(([, heading = ""]) =>
    headings.has(heading) ? [] : heading,
  );
  assert.deepEqual(missing, []);
  assert.ok(headings.size >= 9, `only ${headings.size} sections were found`);
  for (const { line, text, after } of examples) {
    assert.match(text, /^import [^;]*from "zae-limiter";/, `line ${line}: it does not import the package first`);
    assert.equal(after, "text", `line ${line}: it is not followed by what it prints`);
  }
});

test("the pictures of the guide are what the limiter does today, to the byte", async (t) => {
  const drawn = await mkdtemp(join(tmpdir(), "pictures-"));
  t.after(() => rm(drawn, { recursive: true }));
  await promisify(execFile)(process.execPath, [DRAW, drawn], { env: plainEnvironment() });
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
  const promise = readFileSync(new URL("../../docs/promise.md", import.meta.url), "utf8");
  const named = [...promise.matchAll(/`(?:(src|test)\/([\w./-]+)|(contract-[\w-]+\.ts))`/g)].map(
    ([, top, path, contract]) => (contract === undefined ? `${top}/${path}` : `test/kit/${contract}`),
  );
  assert.ok(named.length > 20, `only ${named.length} checks were found`);
  const missing = named.filter((path) => !existsSync(new URL(`../../${path}`, import.meta.url)));
  assert.deepEqual(missing, []);
});

interface Example {
  /** Where in the guide its block begins. */
  readonly line: number;
  /** Of the section it stands in. */
  readonly heading: string;
  readonly text: string;
  /** The language of the next block. */
  readonly after: string | undefined;
}

/** Every TypeScript block. */
function examplesOf(markdown: string): Example[] {
  const blocks = [...markdown.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)];
  return blocks.flatMap(({ 1: language, 2: text = "", index }, i) => {
    if (language !== "ts") return [];
    const before = markdown.slice(0, index);
    const heading = /^## (.*)$/m.exec(before.slice(before.lastIndexOf("\n## ")))?.[1] ?? "";
    return [{ line: before.split("\n").length, heading, text, after: blocks[i + 1]?.[1] }];
  });
}
