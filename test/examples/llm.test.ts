import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const folder = new URL("../../examples/llm/", import.meta.url);

test("the example of budgets for language models runs, and prints what lies beside it", async () => {
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [fileURLToPath(new URL("main.ts", folder))]);
  assert.equal(stderr, "");
  assert.equal(stdout, readFileSync(new URL("expected-output.txt", folder), "utf8"));
});
