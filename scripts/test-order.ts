/** What a test file takes in `npm test` on two quiet cores. */
interface Noted {
  readonly seconds: number;
  /** Why it takes more than ten. */
  readonly why?: string;
}

/**
 * Test files that take long. They are begun first, the longest at the head, so that none of them runs alone at the end while the other cores
 * have nothing to do; and by these times a run says what became slower.
 */
export const NOTED: Readonly<Record<string, Noted>> = {
  "test/simulation/conditional.test.ts": {
    seconds: 97,
    why: "worlds of conditional writes, and a world for each mutant",
  },
  "test/simulation/stories.test.ts": { seconds: 69, why: "every story that was ever found, and worlds of one bucket" },
  "test/contract/dynamodb.test.ts": { seconds: 67, why: "the whole contract, on a table" },
  "test/docs/docs.test.ts": { seconds: 65, why: "every example of the documents is run" },
  "test/simulation/simulation.test.ts": { seconds: 61, why: "worlds on memory, on SQLite files and in batches" },
  "test/dynamodb/same-as-simulated.test.ts": {
    seconds: 58,
    why: "stories on a table and on the simulated one, item by item",
  },
  "test/package/package.test.ts": { seconds: 40, why: "the package is built, packed, installed and imported" },
  "test/docs/docs-site.test.ts": { seconds: 38, why: "every link of the documents is followed" },
  "test/postgres/pgbouncer.test.ts": { seconds: 35, why: "a pooler and a server are started" },
  "test/shared/simulation.test.ts": { seconds: 34, why: "worlds on a table that two programs write" },
  "test/postgres/leases.test.ts": { seconds: 33, why: "it waits for a process that died, 15 s by the wall clock" },
  "test/lease-simulation/leases.test.ts": { seconds: 32, why: "worlds of stored leases, and one for each mutant" },
  "src/protocol/take/forms.test.ts": { seconds: 31, why: "properties over every form of a write" },
  "test/contract/postgres.test.ts": { seconds: 29, why: "the whole contract, on a server" },
  "src/protocol/take/fold.test.ts": { seconds: 28, why: "properties over what takes fold together" },
  "test/dynamodb/migrate.test.ts": { seconds: 27, why: "migrations of four layouts, cut off at many writes" },
  "test/dynamodb/defects.test.ts": { seconds: 27, why: "each defect of the original is looked for on a table" },
  "test/dynamodb/faults-takes.test.ts": { seconds: 26, why: "each fault of a line to a table" },
  "test/protocol/slot-worlds.test.ts": { seconds: 25, why: "worlds of slots, and one for each mutant" },
  "test/protocol/damage.test.ts": {
    seconds: 24,
    why: "each attribute of an item is damaged, and everything is called",
  },
  "test/protocol/shadow-worlds.test.ts": { seconds: 22, why: "worlds of shadows, and one for each mutant" },
  "test/limiter/waits.test.ts": { seconds: 22, why: "random stories of requests that wait" },
  "test/infra/template.test.ts": { seconds: 22, why: "templates of every option" },
  "test/examples/gateway.test.ts": { seconds: 22, why: "the gateway is started as a process, several times" },
  "test/limiter/spoiled-slots.test.ts": { seconds: 21, why: "a process for each bug that is planted in the source" },
  "test/dashboard/everybody.test.ts": { seconds: 21, why: "pages in a browser" },
  "test/sqlite/damage.test.ts": { seconds: 20, why: "each column of a file is damaged, and everything is called" },
  "test/postgres/service.test.ts": { seconds: 20, why: "services are started as processes, and killed" },
  "test/aggregator/sweep-usage.test.ts": { seconds: 20, why: "sweeps that are cut off at many calls" },
  "test/contract/sqlite.test.ts": { seconds: 19, why: "the whole contract, on a file" },
  "test/postgres/arithmetic.test.ts": { seconds: 18, why: "thousands of random limits, by SQL and by the model" },
  "test/cli/postgres.test.ts": { seconds: 18, why: "commands are started as processes" },
  "test/limiter/slot-worlds.test.ts": { seconds: 17, why: "worlds of slots on two stores, and one for each mutant" },
  "test/dashboard/live-page.test.ts": { seconds: 17, why: "pages in a browser" },
  "test/cli/loadtest.test.ts": { seconds: 17, why: "load tests are started as processes" },
  "test/stored-leases/kills.test.ts": { seconds: 16, why: "processes are killed at many calls" },
  "test/server/bounds.test.ts": { seconds: 16, why: "it waits for slow clients to be ended" },
  "test/postgres/judged.test.ts": { seconds: 16, why: "worlds on a server" },
  "test/infra/policies.test.ts": { seconds: 16, why: "every call of every client is held against its policy" },
  "test/dynamodb/store-entities.test.ts": { seconds: 16, why: "deletions that are cut off at many calls" },
  "test/dynamodb/manifest.test.ts": { seconds: 16, why: "manifests that are cut off at many writes" },
  "test/aggregator/runner.test.ts": { seconds: 16, why: "runners on a stream of a table, with an S3 server" },
  "test/dynamodb/faults-policy.test.ts": { seconds: 15, why: "each fault of a line to a table, by each policy" },
  "test/cli/dynamodb.test.ts": { seconds: 15, why: "commands are started as processes" },
  "test/limiter/slot-bodies.test.ts": { seconds: 14, why: "worlds of bodies on every store" },
  "test/limiter/growth.test.ts": { seconds: 14, why: "hundreds of thousands of ids" },
  "test/lease-simulation/slot-leases.test.ts": {
    seconds: 14,
    why: "worlds of stored leases with slots, on four stores",
  },
  "test/dynamodb/provisioner.test.ts": { seconds: 14, why: "tables are made and changed" },
  "test/dashboard/changing.test.ts": { seconds: 14, why: "pages in a browser" },
  "test/simulation/bites.test.ts": { seconds: 13, why: "a world for each mutant" },
  "test/dashboard/limits-page.test.ts": { seconds: 13, why: "pages in a browser" },
  "test/limiter/long-walks.test.ts": { seconds: 12, why: "thousands of buckets are listed in every way" },
  "test/cli/aggregate.test.ts": { seconds: 12, why: "an aggregator is started as a process" },
  "test/postgres/records-same.test.ts": { seconds: 11, why: "random changes on a server and in memory" },
  "test/package/scripts.test.ts": { seconds: 11, why: "each script is started as a process" },
  "test/dynamodb/usage-kept-set.test.ts": { seconds: 11, why: "services and commands on a table" },
  "test/dynamodb/defects-shards.test.ts": { seconds: 10 },
  "test/dynamodb/defects-lists.test.ts": { seconds: 10 },
  "test/dashboard/bucket-panel.test.ts": { seconds: 10 },
  "test/cli/frame.test.ts": { seconds: 10 },
  "test/aggregator/costs.test.ts": { seconds: 10 },
  "src/protocol/shards/split.test.ts": { seconds: 10 },
  "test/server/serve.test.ts": { seconds: 9 },
  "test/postgres/faults.test.ts": { seconds: 9 },
  "test/middleware/process-stops.test.ts": { seconds: 9 },
  "test/defects/defects.test.ts": { seconds: 9 },
  "test/server/events.test.ts": { seconds: 8 },
  "test/manifest/faults.test.ts": { seconds: 8 },
  "test/llm/paid.test.ts": { seconds: 8 },
  "test/dynamodb/dynamodb-local.test.ts": { seconds: 8 },
  "test/docs/reference.test.ts": { seconds: 8 },
  "test/cli/local.test.ts": { seconds: 8 },
  "test/cli/help.test.ts": { seconds: 8 },
  "src/adapters/dynamodb/signer.test.ts": { seconds: 8 },
  "test/sqlite/same-as-memory.test.ts": { seconds: 7 },
  "test/refusals/dynamodb.test.ts": { seconds: 7 },
  "test/postgres/records.test.ts": { seconds: 7 },
  "test/dynamodb/defects-answers.test.ts": { seconds: 7 },
  "test/dashboard/namespaces-page.test.ts": { seconds: 7 },
  "test/cli/full-disk.test.ts": { seconds: 7 },
  "src/straight/slot-worlds.test.ts": { seconds: 7 },
  "test/server/fuzz.test.ts": { seconds: 6 },
  "test/server/bucket-watch.test.ts": { seconds: 6 },
  "test/postgres/takes.test.ts": { seconds: 6 },
  "test/manifest/round-trips.test.ts": { seconds: 6 },
  "test/limiter/levels.test.ts": { seconds: 6 },
  "test/infra/lambda-zip.test.ts": { seconds: 6 },
  "test/dynamodb/take-over.test.ts": { seconds: 6 },
  "test/dynamodb/store-namespaces.test.ts": { seconds: 6 },
  "test/dynamodb/store-config.test.ts": { seconds: 6 },
  "test/dynamodb/slots.test.ts": { seconds: 6 },
  "test/dynamodb/defects-items.test.ts": { seconds: 6 },
  "test/aggregator/handler.test.ts": { seconds: 6 },
  "src/aggregator/follow-stream.test.ts": { seconds: 6 },
  "test/server/lease-expiry.test.ts": { seconds: 5 },
  "test/server/deployed.test.ts": { seconds: 5 },
  "test/refusals/counts.test.ts": { seconds: 5 },
  "test/postgres/tls.test.ts": { seconds: 5 },
  "test/infra/first-deploy.test.ts": { seconds: 5 },
  "test/dynamodb/docs.test.ts": { seconds: 5 },
  "test/client/same-as-library.test.ts": { seconds: 5 },
  "test/aggregator/sweep.test.ts": { seconds: 5 },
  "src/adapters/system/calendar-oracle.test.ts": { seconds: 5 },
  "test/limiter/whole-tokens.test.ts": { seconds: 4 },
  "test/limiter/shadow-slots.test.ts": { seconds: 4 },
  "test/aggregator/leftovers.test.ts": { seconds: 4 },
  "test/aggregator/archive-s3.test.ts": { seconds: 4 },
  "test/dashboard/usage-page.test.ts": { seconds: 3 },
};

/** How long a file took. */
export interface Took {
  readonly file: string;
  readonly ms: number;
}

/** A file that takes longer has a process of its own. */
const ALONE_S = 3;

/** A file that takes longer than this is noted, with its reason. */
export const SLOW_S = 10;

/** The files that are known to be long, longest first, then the others by their paths. */
export function longestFirst(files: readonly string[]): string[] {
  const secondsOf = (file: string) => NOTED[file]?.seconds ?? 0;
  return [...files].sort((one, other) => secondsOf(other) - secondsOf(one) || (one < other ? -1 : 1));
}

/** Whether others should not have to wait for a file. */
export function isSlow(file: string): boolean {
  return (NOTED[file]?.seconds ?? 0) > ALONE_S;
}

/**
 * The files that took half as long again as is noted, and those that are long and not noted. A busy machine makes all of them longer: what
 * they are measured by is the median of the whole run.
 */
export function becameSlow(took: readonly Took[]): (Took & { readonly noted: number | undefined })[] {
  const ratios = took.flatMap(({ file, ms }) => (isSlow(file) ? [ms / 1000 / (NOTED[file]?.seconds ?? 1)] : []));
  const middle = ratios.sort((one, other) => one - other)[Math.floor(ratios.length / 2)] ?? 1;
  return took.flatMap(({ file, ms }) => {
    const noted = NOTED[file]?.seconds;
    const isLonger = ms / 1000 > 1.5 * middle * Math.max(noted ?? SLOW_S, ALONE_S);
    return isLonger ? [{ file, ms, noted }] : [];
  });
}
