import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

const SUITE = `
  const { describeArchive } = await import(${JSON.stringify(new URL("moto.ts", import.meta.url).href)});
  await describeArchive("a suite", () => { throw new Error("there is an S3"); });`;

test("where no S3 server can be had a suite is skipped aloud, and fails where one is required", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "zael-moto-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  // A DynamoDB is given, which nobody asks anything; there is no Python to be found.
  const env = { PATH: folder, XDG_CACHE_HOME: folder, ZAEL_TEST_ENDPOINT: "http://127.0.0.1:1/" };
  const skipped = await ran(env);
  assert.equal(skipped.code, 0, skipped.said);
  assert.match(skipped.said, /SKIPPED\. No S3 for the suite "a suite": `python3` does not start .*install Python/);
  assert.match(skipped.said, /skipped 1/);
  const failed = await ran({ ...env, ZAEL_REQUIRE_S3: "1" });
  assert.equal(failed.code, 1, failed.said);
  assert.match(failed.said, /No S3 for the suite "a suite"/);
});

function ran(env: Readonly<Record<string, string>>): Promise<{ code: number | null; said: string }> {
  const {
    NODE_TEST_CONTEXT,
    ZAEL_TEST_ENDPOINT,
    ZAEL_TEST_S3_ENDPOINT,
    ZAEL_REQUIRE_S3,
    ZAEL_REQUIRE_DYNAMODB,
    ...own
  } = process.env;
  const child = spawn(process.execPath, ["--input-type=module", "-e", SUITE], { env: { ...own, ...env } });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (said += chunk));
  return new Promise((resolve) => child.once("close", (code) => resolve({ code, said })));
}
