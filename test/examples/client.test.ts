import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const folder = new URL("../../examples/client/", import.meta.url);

test("the example of the client prints what it says, and ends by itself", async () => {
  const main = fileURLToPath(new URL("main.ts", folder));
  const { stdout } = await promisify(execFile)(process.execPath, [main]);
  assert.equal(stdout, readFileSync(new URL("expected-output.txt", folder), "utf8"));
});
