import { spawn } from "node:child_process";
import { globSync } from "node:fs";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { fetchedDynamodbLocal } from "../test/dynamodb/dynamodb-local-download.ts";
import { startDynamodbLocal } from "../test/dynamodb/dynamodb-local-process.ts";

// `npm test`: types and lint first, then every test. `npm test -- src/bucket` runs the files whose path contains that;
// options such as `--test-name-pattern=idle` go to the test runner.

const root = fileURLToPath(new URL("..", import.meta.url));

/**
 * No test takes this long, also on a busy machine: one that does hangs, and should say so. The simulations take one to two
 * minutes each on an idle machine of two cores.
 */
const TEST_TIMEOUT_MS = 1_800_000;

const USAGE = `npm test                       types and lint, then every test
npm test -- src/bucket         only the files whose path contains that; several may be given
npm test -- --test-name-pattern=idle src/bucket
                               options go to the test runner of Node (node --help lists those that begin with --test)
`;

process.exitCode = await main(process.argv.slice(2));

async function main(args: readonly string[]): Promise<number> {
  if (args.includes("--help") || args.includes("-h")) {
    console.log(USAGE);
    return 0;
  }
  const options = args.filter((arg) => arg.startsWith("-"));
  const filters = args.filter((arg) => !arg.startsWith("-"));
  const files = testFiles(filters);
  if (files.length === 0) {
    console.error(`No test file matches ${filters.join(" or ")}; give part of a path, such as src/bucket.`);
    return 1;
  }
  const checked = await run("npm", ["run", "--silent", "check"]);
  if (checked !== 0) return checked;
  const runnerArgs = [
    "--test",
    "--test-reporter=spec",
    `--test-timeout=${TEST_TIMEOUT_MS}`,
    // Tests wait for engines and servers a good part of their time: one file more than there are cores keeps all of them busy.
    `--test-concurrency=${availableParallelism() + 1}`,
    ...options,
    ...files,
  ];
  return run(process.execPath, runnerArgs, await endpointFor(files));
}

/** One DynamoDB for all files, so that it gets warm once. Where there is none each suite says so itself. */
async function endpointFor(files: readonly string[]): Promise<Record<string, string>> {
  if (process.env.ZAEL_TEST_ENDPOINT || !files.some((file) => /dynamodb|aggregator|cli|infra/.test(file))) return {};
  try {
    return { ZAEL_TEST_ENDPOINT: await startDynamodbLocal(await fetchedDynamodbLocal()), ZAEL_TEST_ENGINE: "local" };
  } catch {
    return {};
  }
}

function testFiles(filters: readonly string[]): string[] {
  const files = globSync(["src/**/*.test.ts", "test/**/*.test.ts"], { cwd: root });
  return files
    .filter((file) => filters.length === 0 || filters.some((part) => file.includes(part.replace(/^\.\//, ""))))
    .sort();
}

function run(command: string, args: readonly string[], env: Record<string, string> = {}): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: root, stdio: "inherit", env: { ...process.env, ...env } });
    child.on("error", reject);
    child.on("close", (code) => resolve(code ?? 1));
  });
}
