import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { plainEnvironment } from "../docs/readme.ts";

const run = promisify(execFile);
const file = (path: string) => new URL(`../../${path}`, import.meta.url);
const read = (path: string) => readFileSync(file(path), "utf8");

// Each is shown whole in its guide, with what it prints.
for (const [example, guide] of [
  ["otel", "docs/guide/opentelemetry.md"],
  ["mcp", "docs/guide/mcp.md"],
] as const) {
  test(`examples/${example} prints what it is expected to`, async () => {
    const { stdout } = await run(process.execPath, [fileURLToPath(file(`examples/${example}/main.ts`))], {
      env: plainEnvironment(),
    });
    assert.equal(withoutWaits(stdout), withoutWaits(read(`examples/${example}/expected-output.txt`)));
  });

  test(`${guide} shows examples/${example} as it is`, () => {
    const shown = read(`examples/${example}/main.ts`)
      .replaceAll('"../../src/entry/index.ts"', '"zae-limiter"')
      .replaceAll(/"\.\.\/\.\.\/src\/entry\/(\w+)\.ts"/g, '"zae-limiter/$1"');
    const text = read(guide);
    assert.ok(text.includes(`\`\`\`ts\n${shown}\`\`\``), `${guide} does not have the program`);
    assert.ok(
      text.includes(`\`\`\`text\n${read(`examples/${example}/expected-output.txt`)}\`\`\``),
      `${guide} does not have what it prints`,
    );
  });
}

/** How long it is until the next token depends on how long the program took. */
function withoutWaits(text: string): string {
  return text.replaceAll(/in \d+ s/g, "in some s");
}
