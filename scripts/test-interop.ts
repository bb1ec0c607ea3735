import { spawn } from "node:child_process";
import { globSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { fetchedDynamodbLocal } from "../test/dynamodb/dynamodb-local-download.ts";
import { startDynamodbLocal } from "../test/dynamodb/dynamodb-local-process.ts";
import { fetchedOriginal } from "../test/interop/environment.ts";
import { runScript, UsageError } from "./script.ts";

const USAGE = `npm run test:interop                this package and the Python original on one table
npm run test:interop -- shards      only the files of test/interop whose path contains that; several may be given
npm run test:interop -- --test-name-pattern=reset
                                    options go to the test runner of Node

It needs Java 17 and Python 3.11. The original is fetched the first time, and DynamoDB Local, with Maven.
`;

const root = fileURLToPath(new URL("..", import.meta.url));

/** No test takes this long; one that does hangs, and should say so. */
const TEST_TIMEOUT_MS = 120_000;

await runScript(USAGE, main);

async function main(args: readonly string[]): Promise<number> {
  const options = args.filter((arg) => arg.startsWith("-"));
  const filters = args.filter((arg) => !arg.startsWith("-"));
  const files = globSync("test/interop/*.interop.ts", { cwd: root })
    .filter((file) => filters.length === 0 || filters.some((part) => file.includes(part)))
    .sort();
  if (files.length === 0) {
    throw new UsageError(
      `No file of test/interop matches ${filters.join(" or ")}; give part of a path, such as shards.`,
    );
  }
  const env = await environment();
  if (env instanceof Error) {
    console.error(env.message);
    return 1;
  }
  const runner = ["--test", "--test-reporter=spec", `--test-timeout=${TEST_TIMEOUT_MS}`, "--test-concurrency=2"];
  const child = spawn(process.execPath, [...runner, ...options, ...files], {
    cwd: root,
    stdio: "inherit",
    env: { ...process.env, ...env },
  });
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => resolve(code ?? 1));
  });
}

/** Where both run: the original's Python, and one DynamoDB for all files, as each test has a table of its own. Or why not. */
async function environment(): Promise<Record<string, string> | Error> {
  try {
    return {
      ZAEL_INTEROP_PYTHON: process.env.ZAEL_INTEROP_PYTHON || (await fetchedOriginal()),
      ZAEL_TEST_ENDPOINT: process.env.ZAEL_TEST_ENDPOINT || (await startDynamodbLocal(await fetchedDynamodbLocal())),
    };
  } catch (error) {
    if (error instanceof Error) return error;
    throw error;
  }
}
