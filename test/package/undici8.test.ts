import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

// The peer range admits undici 7 and 8. Everything else runs on 7; here the transport's own tests run once more on 8.

const root = fileURLToPath(new URL("../..", import.meta.url));

/** Answers `undici` with the package that is installed as `undici8`. */
const HOOK = `
  import { registerHooks } from "node:module";
  registerHooks({
    resolve: (name, context, next) => next(name === "undici" ? "undici8" : name, context),
  });
`;

async function versionOf(name: string): Promise<string> {
  const text = await readFile(join(root, "node_modules", name, "package.json"), "utf8");
  return (JSON.parse(text) as { readonly version: string }).version;
}

test("both majors of undici that the peer range admits are installed here", async () => {
  const { peerDependencies } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as {
    readonly peerDependencies: Readonly<Record<string, string>>;
  };
  assert.equal(peerDependencies.undici, "^7.0.0 || ^8.0.0");
  assert.match(await versionOf("undici"), /^7\./);
  assert.match(await versionOf("undici8"), /^8\./);
});

test("the transport does on undici 8 what it does on 7", async () => {
  const hook = `data:text/javascript,${encodeURIComponent(HOOK)}`;
  const node = (...args: string[]) =>
    promisify(execFile)(process.execPath, ["--import", hook, ...args], { cwd: root, timeout: 300_000 });
  // The hook holds for dynamic imports too, which is how the transport loads it.
  const { stdout } = await node("--input-type=module", "-e", 'console.log(import.meta.resolve("undici"))');
  assert.match(stdout, /\/undici8\//);
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const files = ["transport.test.ts", "transport-time.test.ts"].map((name) => `src/adapters/dynamodb/${name}`);
  const told = await promisify(execFile)(
    process.execPath,
    ["--import", hook, "--test", "--test-reporter=tap", ...files],
    { cwd: root, env, timeout: 300_000, maxBuffer: 64 * 1024 * 1024 },
  ).catch((error: { stdout: string; stderr: string }) => error);
  assert.match(told.stdout, /^# fail 0$/m, told.stdout + told.stderr);
  assert.match(told.stdout, /^# pass [1-9]\d+$/m);
});
