import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { plainEnvironment } from "../docs/readme.ts";

const execute = promisify(execFile);

for (const name of ["express", "fastify", "hono", "fetch", "lambda", "nest"]) {
  test(`examples/${name} prints what its folder says, and ends by itself`, async () => {
    const folder = new URL(`../../examples/${name}/`, import.meta.url);
    const main = fileURLToPath(new URL("main.ts", folder));
    const { stdout } = await execute(process.execPath, [main], { env: plainEnvironment() });
    assert.equal(stdout, readFileSync(new URL("expected-output.txt", folder), "utf8"));
  });
}
