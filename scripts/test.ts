import { spawn, spawnSync } from "node:child_process";
import { chmodSync, existsSync, globSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { runScript, UsageError } from "./script.ts";
import { longestFirst } from "./test-order.ts";
import { DEEP_ONLY, deepFiles, PARTS, partOf } from "./test-parts.ts";

const USAGE = `npm test                       every subject once, and beside it types and lint
npm test -- src/bucket         only the test files whose path contains that, without types and lint; several may be given
npm test -- --test-name-pattern=idle src/bucket
                               options go to the test runner of Node (node --help lists those that begin with --test)
npm run test:deep              what is left: every variant, whole ranges, worlds that begin with the seed of the day
npm run test:deep -- PART      one of its parts: ${PARTS.join(", ")}; or test files by their path, as above
npm run check                  types and lint alone
npm run simulate -- --help     worlds by seed, beyond those that the tests play

ZAEL_SEED=207750000 npm run test:deep -- simulation
                               plays the worlds of another day again; each run prints the seed it begins with

Tests on DynamoDB need Java 17 and Maven, those on PostgreSQL Debian's postgresql and pgbouncer, those on Redis redis-server and valkey-server, those of the archive Python 3.11,
those of the dashboard Chromium, those of a full disk the right to mount one. Where one of them is missing its tests are skipped, and
the last line says how many; with ZAEL_REQUIRE_DYNAMODB=1, ZAEL_REQUIRE_POSTGRES=1, ZAEL_REQUIRE_REDIS=1, ZAEL_REQUIRE_PGBOUNCER=1, ZAEL_REQUIRE_SMALL_DISK=1,
ZAEL_REQUIRE_S3=1, ZAEL_REQUIRE_PYTHON=1, ZAEL_REQUIRE_BROWSER=1, ZAEL_REQUIRE_ENVOY=1, ZAEL_REQUIRE_TRAEFIK=1,
ZAEL_REQUIRE_NGINX=1, ZAEL_REQUIRE_CADDY=1 and ZAEL_REQUIRE_VALKEY=1 they fail.
`;

const root = fileURLToPath(new URL("..", import.meta.url));

/**
 * No test takes this long, also on a busy machine: one that does hangs, and should say so. The simulations of a deep run take some ten
 * minutes each on an idle machine of two cores.
 */
const TEST_TIMEOUT_MS = 3_600_000;

/**
 * Tests wait for engines, servers and browsers a good part of their time. With one file more than there are cores, two cores had nothing
 * to do for about a quarter of a run. A third one gains nothing.
 */
const CONCURRENCY = availableParallelism() + 2;

/** Where Linux has a file system in memory. */
const MEMORY = "/dev/shm";

/** Room for every file of a run, many times over: a machine with so much has memory to spare. */
const MEMORY_MIN_BYTES = 8 * 2 ** 30;

/** Node's own runner, which knows every option, and takes files in the order of their names. */
const RUNNER = [
  "--test",
  "--test-reporter=spec",
  `--test-timeout=${TEST_TIMEOUT_MS}`,
  `--test-concurrency=${CONCURRENCY}`,
];

await runScript(USAGE, async (args) => {
  const isDeep = args.includes("--deep");
  const options = args.filter((arg) => arg.startsWith("-") && arg !== "--deep");
  const filters = args.filter((arg) => !arg.startsWith("-"));
  const files = longestFirst(isDeep ? deepFilesFor(filters) : quickFilesFor(filters));
  if (files.length === 0) {
    const others = isDeep ? `one of ${PARTS.join(", ")}, or part of a path` : "part of a path, such as src/bucket";
    throw new UsageError(`No test file matches ${filters.join(" or ")}; give ${others}.`);
  }
  const isWhole = filters.length === 0 && !isDeep;
  const stop = new AbortController();
  // Beside the tests, for the longest of the checks uses one core. Where one finds something it is printed at once, and the tests stop.
  const checked = isWhole ? run("npm", ["run", "--silent", "check"], 2) : Promise.resolve(0);
  checked.then(
    (code) => code !== 0 && stop.abort(),
    () => stop.abort(),
  );
  // Many processes load the same files: stripped of their types and compiled once, each of them starts in half the time.
  process.env.NODE_COMPILE_CACHE ??= join(root, "node_modules/.cache/zae-limiter/compiled");
  if (isDeep) await deepen();
  const memory = folderInMemory();
  if (memory !== undefined) process.env.TMPDIR = memory;
  const engines = await Promise.all([endpointFor(files), serverFor(files), s3For(files)]);
  Object.assign(process.env, ...engines);
  const tested = await testedBy(files, options, { isNoted: isWhole, signal: stop.signal });
  return (await checked) || tested;
});

async function testedBy(
  files: readonly string[],
  options: readonly string[],
  { isNoted, signal }: { readonly isNoted: boolean; readonly signal: AbortSignal },
): Promise<number> {
  if (options.length > 0) return run(process.execPath, [...RUNNER, ...options, ...files]);
  const { runTestFiles } = await import("./test-run.ts");
  return runTestFiles({ root, files, timeoutMs: TEST_TIMEOUT_MS, concurrency: CONCURRENCY, isNoted, signal });
}

/** Tells every process of the run how deep it is, and with which seed its worlds begin, also where midnight passes. */
async function deepen(): Promise<void> {
  process.env.ZAEL_DEPTH = "deep";
  const { firstSeed } = await import("../test/depth.ts");
  process.env.ZAEL_SEED = String(firstSeed());
  process.stderr.write(
    `Worlds begin with seed ${process.env.ZAEL_SEED}; ZAEL_SEED=${process.env.ZAEL_SEED} plays them again.\n`,
  );
}

/**
 * A folder in memory for what tests put aside; it goes with this process. Schemas of PostgreSQL, hundreds in a run, are a hundred files each,
 * and half of what they cost is the file system. Undefined where there is none with room.
 */
function folderInMemory(): string | undefined {
  if (!existsSync(MEMORY)) return undefined;
  const { bavail, bsize } = statfsSync(MEMORY);
  if (bavail * bsize < MEMORY_MIN_BYTES) return undefined;
  const folder = mkdtempSync(join(MEMORY, "zael-tests-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  // Tests run programs that they have put aside, and there are machines on which nothing in memory may be run.
  const program = join(folder, "program");
  writeFileSync(program, "#!/bin/sh\n", { mode: 0o755 });
  if (spawnSync(program).status !== 0) return undefined;
  // As the usual folder is: servers and tests that run as another user have theirs in it.
  chmodSync(folder, 0o1777);
  return folder;
}

/** One DynamoDB for all files, so that it gets warm once. Where there is none each suite says so itself. */
async function endpointFor(files: readonly string[]): Promise<Record<string, string>> {
  if (process.env.ZAEL_TEST_ENDPOINT || !files.some((file) => /dynamodb|aggregator|cli|infra/.test(file))) return {};
  const { fetchedDynamodbLocal } = await import("../test/dynamodb/dynamodb-local-download.ts");
  const { startDynamodbLocal } = await import("../test/dynamodb/dynamodb-local-process.ts");
  try {
    return { ZAEL_TEST_ENDPOINT: await startDynamodbLocal(await fetchedDynamodbLocal()), ZAEL_TEST_ENGINE: "local" };
  } catch {
    return {};
  }
}

/** One PostgreSQL for all files, each with a database of its own: to make a folder of data costs more than most of their tests. */
async function serverFor(files: readonly string[]): Promise<Record<string, string>> {
  if (!files.some((file) => /postgres|machines/.test(file))) return {};
  const { startTestServer } = await import("../test/postgres/postgres.ts");
  try {
    return { ZAEL_TEST_POSTGRES_SERVER: await startTestServer() };
  } catch {
    return {};
  }
}

/** One S3 for all files, each with buckets of its own: to start one takes five seconds of a processor. */
async function s3For(files: readonly string[]): Promise<Record<string, string>> {
  if (process.env.ZAEL_TEST_S3_ENDPOINT || !files.some((file) => /aggregat/.test(file))) return {};
  const { startMoto } = await import("../test/engines/python-tools.ts");
  try {
    return { ZAEL_TEST_S3_ENDPOINT: await startMoto() };
  } catch {
    return {};
  }
}

/** Every file that has something for `npm test`; of those that are named, also the ones that only a deep run has. */
function quickFilesFor(filters: readonly string[]): string[] {
  const files = allFiles();
  return filters.length === 0 ? files.filter((file) => !(file in DEEP_ONLY)) : files.filter(matching(filters));
}

function deepFilesFor(filters: readonly string[]): string[] {
  const files = deepFiles(root, allFiles());
  const isPart = (filter: string) => PARTS.some((part) => part === filter);
  const byPath = matching(filters.filter((filter) => !isPart(filter)));
  return files.filter((file) => filters.length === 0 || filters.includes(partOf(file)) || byPath(file));
}

function allFiles(): string[] {
  // Packages of the workspace test/oldest have tests of their own.
  return globSync(["src/**/*.test.ts", "test/**/*.test.ts"], { cwd: root, exclude: ["**/node_modules/**"] });
}

function matching(filters: readonly string[]): (file: string) => boolean {
  const parts = filters.map((filter) => filter.replace(/^\.\//, ""));
  return (file) => parts.some((part) => file.includes(part));
}

/** Runs a command to its end, with its output on a stream of this process: 1, the usual one, or 2. */
function run(command: string, args: readonly string[], output: 1 | 2 = 1): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: root, stdio: ["inherit", output, "inherit"] });
    child.on("error", reject);
    child.on("close", (code) => resolve(code ?? 1));
  });
}
