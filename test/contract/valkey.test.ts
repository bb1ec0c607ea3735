import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { plainEnvironment } from "../docs/readme.ts";
import { describeOn } from "../engines/describe-on.ts";

// Redis and Valkey go separate ways since 7.2. Suites take one server a run, so those of Redis are run once more on the other one, as `npm test` has them.

const BINARY = process.env.ZAEL_TEST_VALKEY_BINARY || "valkey-server";
const SUITES = ["test/redis/", "test/contract/redis.test.ts"];
const root = fileURLToPath(new URL("../..", import.meta.url));

function found(): { readonly version: string } | string {
  try {
    return { version: execFileSync(BINARY, ["--version"], { encoding: "utf8", stdio: "pipe" }) };
  } catch {
    return `${BINARY} is not installed.`;
  }
}

describeOn("valkey", "the suites of Redis on Valkey", found(), ({ version }) => {
  test("the contract, takes, arithmetic, faults and records are the same on Valkey", async () => {
    assert.match(version, /^Valkey/);
    const env = { ...plainEnvironment(), ZAEL_TEST_REDIS_BINARY: BINARY, ZAEL_REQUIRE_REDIS: "1" };
    const { code, told } = await ran(["scripts/test.ts", ...SUITES], env);
    assert.equal(code, 0, told);
    // Those that are skipped are told on whole stores.
    const passed = Number(/^(\d+) passed, 0 failed/m.exec(told)?.[1]);
    assert.ok(passed > 500, told);
  });
});

function ran(args: readonly string[], env: NodeJS.ProcessEnv): Promise<{ code: number | null; told: string }> {
  return new Promise((resolve) => {
    const options = { cwd: root, env, maxBuffer: 100_000_000 };
    const child = execFile(process.execPath, args, options, (_, stdout, stderr) =>
      resolve({ code: child.exitCode, told: `${stdout}\n${stderr}`.slice(-10_000) }),
    );
  });
}
