import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { importingFrom, plainEnvironment, readExample, readmeExample } from "./readme.ts";

const run = promisify(execFile);

test("the README's example runs as it stands, from source, in an empty folder, and once more", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "readme-"));
  t.after(() => rm(folder, { recursive: true }));
  const example = importingFrom(readExample(), (name) => new URL(`../src/entry/${name}.ts`, import.meta.url).href);
  assert.doesNotMatch(example, /["']zae-limiter/);
  await writeFile(join(folder, "example.mts"), example);
  // Rejects when the example throws, exits with an error or does not end by itself; also on the file of the first run.
  for (let i = 0; i < 2; i++) {
    await run(process.execPath, ["example.mts"], { cwd: folder, env: plainEnvironment() });
  }
});

test("the example is the first TypeScript block that begins with an import of the package", () => {
  const markdown = [
    '```sh\nimport { a } from "zae-limiter";\n```',
    "```ts\nconst fragment = 1;\n```",
    '```ts\nimport {\n  RateLimiter,\n} from "zae-limiter";\nuse();\n```',
    '```ts\nimport { other } from "zae-limiter";\n```',
  ].join("\n\n");
  assert.equal(readmeExample(markdown), 'import {\n  RateLimiter,\n} from "zae-limiter";\nuse();\n');
});

test("a README without an example is an error, not an example of nothing", () => {
  assert.throws(() => readmeExample("# Title\n\n```ts\nconst x = 1;\n```\n"), /has no ```ts block/);
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
