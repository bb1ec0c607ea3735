import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** The parts of `npm run test:deep`: each is a job of its own in continuous integration. */
export const PARTS = ["simulation", "stores", "surfaces", "package"] as const;

export type Part = (typeof PARTS)[number];

/** The part that the tests of a folder belong to, where they have more to look at than `npm test` does. */
const FOLDERS: Readonly<Record<Part, readonly string[]>> = {
  simulation: [
    ...["src", "test/simulation", "test/lease-simulation", "test/limiter", "test/limits", "test/protocol"],
    ...["test/kit", "test/shared", "test/straight", "test/defects", "test/vectors"],
  ],
  stores: [
    ...[
      "test/contract",
      "test/dynamodb",
      "test/postgres",
      "test/redis",
      "test/sqlite",
      "test/records",
      "test/stored-leases",
    ],
    ...["test/aggregator", "test/copy", "test/migrate", "test/refusals", "test/s3", "test/manifest"],
  ],
  surfaces: [
    ...["test/cli", "test/client", "test/server", "test/dashboard", "test/mcp", "test/middleware", "test/llm"],
    ...["test/otel", "test/examples", "test/edge", "test/proxy", "test/replay", "test/python"],
  ],
  package: ["test/package", "test/docs", "test/infra", "test/tidy", "test/oldest", "test/interop"],
};

/** Test files that only `npm run test:deep` runs, and what has their subject in `npm test`. */
export const DEEP_ONLY: Readonly<Record<string, string>> = {
  "test/dynamodb/defects.test.ts":
    "test/defects/defects.test.ts, the same stories in memory and on SQLite; defects-*.test.ts on DynamoDB, those of its items",
  "test/dynamodb/faults-policy.test.ts": "faults-takes.test.ts on DynamoDB; test/limiter on simulated outages",
  "test/contract/valkey.test.ts": "the same suites on Redis: test/redis and test/contract/redis.test.ts",
  "test/dynamodb/switches.test.ts":
    "contract-switches on DynamoDB; test/limiter/switches.test.ts on conditional writes",
  "test/dynamodb/totals.test.ts": "contract-levels on DynamoDB; test/limiter/totals.test.ts on conditional writes",
  "test/dynamodb/levels.test.ts": "test/limiter/levels.test.ts on conditional writes",
  "test/dynamodb/stored-leases.test.ts": "contract-leases on DynamoDB; test/stored-leases",
  "test/dynamodb/skipped-levels.test.ts": "test/limiter/skipped-levels.test.ts on conditional writes",
  "test/dynamodb/closing.test.ts": "test/limiter/closing.test.ts",
  "test/dynamodb/vast-counts.test.ts": "test/limiter/vast-counts.test.ts, the same stories on every other store",
  "test/dynamodb/faults-give-back.test.ts": "test/protocol on simulated faults; faults-takes.test.ts on DynamoDB",
  "test/dynamodb/faults-leases.test.ts": "test/stored-leases on simulated faults; faults-takes.test.ts on DynamoDB",
  "test/dynamodb/faults-sdk.test.ts":
    "faults-takes.test.ts by our own client; src/adapters/dynamodb/sdk-client.test.ts",
  "test/dynamodb/faults-storm.test.ts": "the simulation on conditional writes; faults-takes.test.ts on DynamoDB",
  "test/dynamodb/usage-paging.test.ts": "contract-usage and test/dynamodb/store-usage.test.ts",
  "test/dynamodb/service.test.ts": "test/server/serve.test.ts tells the same on SQLite; test/cli/dynamodb.test.ts",
  "test/middleware/express-rate-limit-store-dynamodb.test.ts":
    "test/middleware/express-rate-limit-store.test.ts has the same stories on the memory store",
  "test/dashboard/layout.test.ts": "test/dashboard/live-page.test.ts opens each page",
  "test/edge/proxies.test.ts": "test/edge/grpc.test.ts and forward-auth.test.ts ask as proxies do",
  "test/infra/stack-moto.test.ts":
    "test/infra/stack-requests.test.ts has a stack's commands, on a server that answers like CloudFormation; Y9: first-contact.test.ts",
  "test/infra/production-guide.test.ts":
    "test/infra/stack-requests.test.ts, and test/cli/help.test.ts for the names of commands and options",
  "test/package/image-steps.test.ts":
    "test/server/deployed.test.ts has what the image installs and how it is probed; package.test.ts the installed service",
  "test/postgres/failover.test.ts": "a server that goes away: test/postgres/faults.test.ts and strangers.test.ts",
  "test/postgres/full-disk.test.ts": "a server that refuses to write: src/adapters/postgres/faults.test.ts",
  "test/postgres/records-pglite.test.ts": "the same stories on a server: test/postgres/records.test.ts",
};

/** The part of a test file. */
export function partOf(file: string): Part {
  const part = PARTS.find((one) => FOLDERS[one].some((folder) => file.startsWith(`${folder}/`)));
  if (part === undefined) throw new Error(`${file} is in a folder of no part; name it in scripts/test-parts.ts.`);
  return part;
}

/** The files that look at more in `npm run test:deep`: those that only it runs, and those that ask how deep a run is, properties among them. */
export function deepFiles(root: string, files: readonly string[]): string[] {
  const asks = new Map<string, boolean>();
  const asksDepth = (file: string): boolean => {
    const known = asks.get(file);
    if (known !== undefined) return known;
    // A circle of imports ends here.
    asks.set(file, false);
    const answer = importedBy(root, file).some((other) => other === "test/depth.ts" || asksDepth(other));
    asks.set(file, answer);
    return answer;
  };
  return files.filter((file) => file in DEEP_ONLY || asksDepth(file));
}

/** The files of `test` that a file imports by a path. */
function importedBy(root: string, file: string): string[] {
  const text = readFileSync(join(root, file), "utf8");
  const paths = Array.from(text.matchAll(/\bfrom "(\.[^"]+\.ts)"/g), ([, path]) => join(dirname(file), path as string));
  // A file that is not there stands in a text that only looks like an import.
  return paths.filter((path) => path.startsWith("test/") && existsSync(join(root, path)));
}
