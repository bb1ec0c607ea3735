import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, globSync, readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { admission } from "../../bench/admission.ts";
import { documents } from "./doc-examples.ts";
import { importingFrom, plainEnvironment, README, readExamples, readLinks, readmeExamples } from "./readme.ts";
import { readmePicture } from "./readme-picture.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const run = promisify(execFile);
const readme = readFileSync(README, "utf8");
const { version, engines, ...manifest } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  readonly version: string;
  readonly engines: { readonly node: string };
};

test("the README's examples run as they stand, from source, in an empty folder, and once more", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "readme-"));
  t.after(() => rm(folder, { recursive: true }));
  for (const [i, text] of readExamples().entries()) {
    const example = importingFrom(text, (name) => new URL(`../../src/entry/${name}.ts`, import.meta.url).href);
    assert.doesNotMatch(example, /["']zae-limiter/);
    await writeFile(join(folder, `example-${i}.mts`), example);
    // Rejects when the example throws, exits with an error or does not end by itself; also after the first run.
    for (let j = 0; j < 2; j++) {
      await run(process.execPath, [`example-${i}.mts`], { cwd: folder, env: plainEnvironment() });
    }
  }
});

test("the README's picture is what a limiter says", async () => {
  const [, picture] = /^```text\n([\s\S]*?)\n```$/m.exec(readme) ?? [];
  assert.equal(picture, await readmePicture());
});

test("the README can be read in a few minutes: 500 to 900 words without its code", () => {
  const words = readme
    .replace(/^```[\s\S]*?^```$/gm, "")
    .split(/\s+/)
    .filter((word) => /[A-Za-z0-9]/.test(word));
  assert.ok(words.length >= 500 && words.length <= 900, `It has ${words.length} words.`);
});

test("the README says first which Node it needs, and has the version that npm pack makes", () => {
  const node = engines.node.replace(">=", "");
  assert.ok(readme.startsWith(`# zae-limiter\n\nNode ${node} or later`), `Node ${node} is not at the top`);
  assert.deepEqual(
    [...readme.matchAll(/zae-limiter-([\d.]+)\.tgz/g)].map(([, named]) => named),
    [version],
  );
});

test("the README's two commands are two, and enough on a fresh clone", () => {
  const commands = [...readme.matchAll(/^ {4}(npm .*)$/gm)].map(([, command]) => command);
  assert.deepEqual(commands, [
    `npm install ../zae-limiter/zae-limiter-${version}.tgz`,
    "npm ci && npm start",
    "npm ci && npm test",
  ]);
});

test("the README's links are found where relative links do not work, as on a registry's page", () => {
  // A picture that cannot be shown there is its words; the file is in the package.
  const images = [...readme.matchAll(/!\[([^\]]*)\]\(([^)]*)\)|<img\b/g)].map(([, words, path]) => ({ words, path }));
  assert.deepEqual(
    images.map(({ path }) => path),
    ["docs/guide/pictures/overview.png"],
  );
  for (const { words = "", path = "" } of images) {
    assert.ok(words.length > 60, `the picture ${path} says too little in words`);
    assert.ok(existsSync(new URL(`../../${path}`, import.meta.url)), path);
  }
  const links = readLinks();
  assert.equal(links.length, 5);
  // The text is the path: a reader who cannot follow the link finds the file in the package, where test/package/package.test.ts looks for it.
  for (const { text, target } of links) {
    assert.equal(text, target);
    assert.ok(existsSync(join(root, target)), `${target} is not there`);
  }
});

test("nothing claims an address of the repository, or a package on a registry: there is neither yet", () => {
  const claimed = Object.keys(manifest).filter((key) => ["repository", "bugs", "homepage"].includes(key));
  assert.deepEqual(claimed, []);
  const installed = documents.filter((document) =>
    /npm (?:install|i|add)(?: +[\w@/.-]+)* zae-limiter(?![\w./-])/.test(readFileSync(join(root, document), "utf8")),
  );
  assert.deepEqual(installed, []);
});

// Columns of the README's table that are measured.
const OURS = 1;
const FLEXIBLE = 2;
const EXPRESS = 3;

test("what the README says is admitted is what limiters admit", async () => {
  const { edges, minutes, refusals } = await admission(undefined);
  const row = cellsOf(readme, "never over-admits");
  assert.deepEqual(
    edges.map(({ grantedWithinOneSecond }) => String(grantedWithinOneSecond)),
    [row[OURS], row[FLEXIBLE]],
  );
  const minute = cellsOf(readme, "most granted in any minute");
  const [ours, strict, flexible] = minutes.map(({ grantedWithinOneMinute }) => grantedWithinOneMinute);
  assert.deepEqual([minute[OURS], minute[FLEXIBLE]], [`${ours}; with \`strictWindow\` 100`, String(flexible)]);
  assert.ok((strict as number) <= 100, `${strict}`);
  assert.deepEqual(
    refusals.map(({ granted, requestsTaken, restIsGranted }) => [granted, requestsTaken, restIsGranted]),
    [
      [3, 3, true],
      [3, 10, false],
    ],
  );
});

test("the README's figures are those of the newest results that have them", () => {
  const edge = "100 a minute: the most within one second, asked for as much as possible";
  assert.equal(
    cellsOf(readme, "never over-admits")[EXPRESS],
    String(result(edge, "express-rate-limit").grantedWithinOneSecond),
  );
  const memory = cellsOf(readme, "memory, an acquire");
  assert.deepEqual(
    [memory[OURS], memory[FLEXIBLE], memory[EXPRESS]],
    ["ours", "rate-limiter-flexible", "express-rate-limit"].map((name) => microseconds("memory, two limits", name)),
  );
  const sqlite = cellsOf(readme, "SQLite, an acquire");
  const alone = "SQLite, two limits, one caller";
  assert.deepEqual(
    [sqlite[OURS], sqlite[FLEXIBLE]],
    [microseconds(alone, "ours, one caller"), microseconds(alone, "rate-limiter-flexible, one caller")],
  );
  assert.deepEqual(
    [cellsOf(readme, '`"memory"`')[2], cellsOf(readme, '`"sqlite:')[2]],
    [
      memory[OURS],
      `${sqlite[OURS]}; ${microseconds("SQLite, two limits, 64 callers", "ours, 64 callers")} with 64 callers at a time`,
    ],
  );
  const one = ["rate-limiter-flexible", "ours"].map((name) => microseconds("memory, one limit", name));
  assert.ok(readme.includes(`rate-limiter-flexible is faster: ${one[0]}, and this package ${one[1]}.`));
  const dynamo = cellsOf(readme, "DynamoDB, a million acquires");
  const calls = result("DynamoDB: CPU of an acquire of two limits, a server in memory", "rate-limiter-flexible");
  assert.equal(dynamo[FLEXIBLE], `${(Number(calls["calls an acquire"]) * USD_PER_MILLION_WRITES).toFixed(2)} USD`);
  const production = readFileSync(join(root, "docs/guide/production.md"), "utf8");
  assert.equal(dynamo[OURS], `${cellsOf(production, "one level, busy buckets")[2]} USD`);
});

test("the comparison's figures are those of the newest results, too", () => {
  const page = readFileSync(join(root, "docs/comparison.md"), "utf8");
  for (const [title, names] of [
    ["memory, one limit", ["ours", "ours, tryAcquireSync", "rate-limiter-flexible", "express-rate-limit"]],
    ["memory, two limits", ["ours", "ours, tryAcquireSync", "rate-limiter-flexible", "express-rate-limit"]],
    [
      "SQLite, two limits, one caller",
      ["ours, one caller", "ours, tryAcquireSync", "rate-limiter-flexible, one caller"],
    ],
    ["SQLite, two limits, 64 callers", ["ours, 64 callers", "", "rate-limiter-flexible, 64 callers"]],
  ] as const) {
    const expected = names.map((name) => (name === "" ? "" : microseconds(title, name)));
    assert.deepEqual(cellsOf(page, title).slice(1, 1 + names.length), expected, title);
  }
});

test("the examples are the TypeScript blocks that begin with an import of the package", () => {
  const markdown = [
    '```sh\nimport { a } from "zae-limiter";\n```',
    "```ts\nconst fragment = 1;\n```",
    '```ts\nimport {\n  RateLimiter,\n} from "zae-limiter";\nuse();\n```',
    '```ts\nimport { other } from "zae-limiter";\n```',
  ].join("\n\n");
  assert.deepEqual(readmeExamples(markdown), [
    'import {\n  RateLimiter,\n} from "zae-limiter";\nuse();\n',
    'import { other } from "zae-limiter";\n',
  ]);
});

test("a README without an example is an error, not an example of nothing", () => {
  assert.throws(() => readmeExamples("# Title\n\n```ts\nconst x = 1;\n```\n"), /has no ```ts block/);
});

test("every import of the package is led to its source, and no other", () => {
  const example = [
    'import { a } from "zae-limiter";',
    "import { b } from 'zae-limiter/testing';",
    'const c = await import("zae-limiter/memory");',
    'import { d } from "zae-limiter-other";',
    'const e = "zae-limiter";',
  ];
  assert.deepEqual(importingFrom(example.join("\n"), (name) => `/src/${name}.ts`).split("\n"), [
    'import { a } from "/src/index.ts";',
    "import { b } from '/src/testing.ts';",
    'const c = await import("/src/memory.ts");',
    'import { d } from "zae-limiter-other";',
    'const e = "zae-limiter";',
  ]);
});

/** On demand, us-east-1; docs/guide/production.md names it. */
const USD_PER_MILLION_WRITES = 0.625;

/** The cells of the one table row that begins with these words, without emphasis. */
function cellsOf(markdown: string, beginning: string): string[] {
  const rows = markdown.split("\n").filter((line) => line.startsWith(`| ${beginning}`));
  assert.equal(rows.length, 1, `${rows.length} rows begin with "${beginning}"`);
  return (rows[0] as string)
    .slice(1, -1)
    .split("|")
    .map((cell) => cell.replaceAll("**", "").trim());
}

type Result = Readonly<Record<string, unknown>>;

function result(title: string, name: string): Result {
  const files = globSync("bench/results/*.jsonl", { cwd: root }).sort();
  const lines = files.flatMap((file) => readFileSync(join(root, file), "utf8").trim().split("\n"));
  const found = lines
    .map((line) => JSON.parse(line) as Result)
    .findLast((one) => one.title === title && one.name === name);
  assert.ok(found, `bench/results has no "${name}" in "${title}"`);
  return found;
}

/** CPU time; one digit after the point below ten, none above. */
function microseconds(title: string, name: string): string {
  const { cpuMicroseconds, microseconds } = result(title, name);
  const value = Number(cpuMicroseconds ?? microseconds);
  return `${value.toFixed(value < 10 ? 1 : 0)} µs`;
}
