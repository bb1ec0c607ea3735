import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { plainEnvironment } from "../docs/readme.ts";
import { describePostgres } from "../postgres/postgres.ts";

const run = promisify(execFile);
const file = (path: string) => new URL(`../../${path}`, import.meta.url);
const read = (path: string) => readFileSync(file(path), "utf8");
const main = fileURLToPath(file("examples/machines/main.ts"));

await describePostgres("several processes on PostgreSQL", ({ url, newSchema }) => {
  test("examples/machines prints what it is expected to, and once more", async () => {
    const env = { ...plainEnvironment(), DATABASE_URL: `${url}?schema=${newSchema()}` };
    for (let i = 0; i < 2; i++) {
      const { stdout } = await run(process.execPath, [main], { env });
      assert.equal(stdout, read("examples/machines/expected-output.txt"));
    }
  });
});

test("docs/guide/postgres.md shows examples/machines as it is", () => {
  const shown = read("examples/machines/main.ts").replaceAll('"../../src/entry/index.ts"', '"zae-limiter"');
  const text = read("docs/guide/postgres.md");
  assert.ok(text.includes(`\`\`\`ts\n${shown}\`\`\``), "the guide does not have the program");
  const printed = read("examples/machines/expected-output.txt");
  assert.ok(text.includes(`\`\`\`text\n${printed}\`\`\``), "the guide does not have what it prints");
});
