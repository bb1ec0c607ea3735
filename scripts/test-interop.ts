import { spawn } from "node:child_process";
import { globSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { fetchedDynamodbLocal } from "../test/dynamodb/dynamodb-local-download.ts";
import { startDynamodbLocal } from "../test/dynamodb/dynamodb-local-process.ts";
import { fetchedOriginal } from "../test/interop/environment.ts";

// `npm run test:interop`: both on one table, this package and the Python original, which is fetched the first time. A part of
// a path picks files, options go to the test runner: `npm run test:interop -- quota --test-name-pattern=reset`.

const root = fileURLToPath(new URL("..", import.meta.url));

/** No test takes this long; one that does hangs, and should say so. */
const TEST_TIMEOUT_MS = 120_000;

process.exitCode = await main(process.argv.slice(2));

async function main(args: readonly string[]): Promise<number> {
  const options = args.filter((arg) => arg.startsWith("-"));
  const filters = args.filter((arg) => !arg.startsWith("-"));
  const files = globSync("test/interop/*.interop.ts", { cwd: root })
    .filter((file) => filters.length === 0 || filters.some((part) => file.includes(part)))
    .sort();
  if (files.length === 0) {
    console.error(`No file of test/interop matches ${filters.join(" or ")}; give part of a path, such as quota.`);
    return 1;
  }
  const ZAEL_INTEROP_PYTHON = process.env.ZAEL_INTEROP_PYTHON || (await fetchedOriginal());
  // One for all files; each test has a table of its own.
  const ZAEL_TEST_ENDPOINT = process.env.ZAEL_TEST_ENDPOINT || (await startDynamodbLocal(await fetchedDynamodbLocal()));
  const runner = ["--test", "--test-reporter=spec", `--test-timeout=${TEST_TIMEOUT_MS}`, "--test-concurrency=2"];
  const child = spawn(process.execPath, [...runner, ...options, ...files], {
    cwd: root,
    stdio: "inherit",
    env: { ...process.env, ZAEL_INTEROP_PYTHON, ZAEL_TEST_ENDPOINT },
  });
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => resolve(code ?? 1));
  });
}
