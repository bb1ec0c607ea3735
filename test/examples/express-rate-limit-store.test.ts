import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { plainEnvironment } from "../docs/readme.ts";

const folder = new URL("../../examples/express-rate-limit-store/", import.meta.url);

test("two processes with express-rate-limit count together, and the example says so", async () => {
  const main = fileURLToPath(new URL("main.ts", folder));
  const { stdout } = await promisify(execFile)(process.execPath, [main], { env: plainEnvironment() });
  assert.equal(stdout, readFileSync(new URL("expected-output.txt", folder), "utf8"));
});
