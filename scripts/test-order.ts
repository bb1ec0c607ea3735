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
  "test/contract/dynamodb.test.ts": { seconds: 118, why: "the whole contract, on a table" },
  "test/simulation/stories.test.ts": { seconds: 92, why: "every story that was ever found, and worlds of one bucket" },
  "test/simulation/conditional.test.ts": {
    seconds: 60,
    why: "worlds of conditional writes, and a world for each mutant",
  },
  "test/dynamodb/migrate.test.ts": { seconds: 46, why: "migrations of old layouts, cut off at many writes" },
  "test/dynamodb/faults-takes.test.ts": { seconds: 36, why: "each fault of a line to a table" },
  "test/postgres/service.test.ts": { seconds: 30, why: "services are started as processes, and killed" },
  "test/simulation/simulation.test.ts": { seconds: 18, why: "worlds on memory, on SQLite files and in batches" },
  "test/server/bounds.test.ts": { seconds: 28, why: "it waits for slow clients to be ended" },
  "test/examples/gateway.test.ts": { seconds: 27, why: "the gateway is started as a process, several times" },
  "test/limiter/spoiled-slots.test.ts": { seconds: 21, why: "a process for each bug that is planted in the source" },
  "test/package/package.test.ts": { seconds: 20, why: "the package is built, packed, installed and imported" },
  "test/dynamodb/defects.test.ts": { seconds: 36, why: "each defect of the original is looked for on a table" },
  "test/infra/policies.test.ts": { seconds: 30, why: "every call of every client is held against its policy" },
  "test/contract/sqlite.test.ts": { seconds: 20, why: "the whole contract, on a file" },
  "test/aggregator/runner.test.ts": { seconds: 17, why: "runners on a stream of a table, with an S3 server" },
  "test/dynamodb/same-as-simulated.test.ts": {
    seconds: 17,
    why: "stories on a table and on the simulated one, item by item",
  },
  "test/dynamodb/faults-policy.test.ts": { seconds: 16, why: "each fault of a line to a table, by each policy" },
  "test/limiter/slot-worlds.test.ts": { seconds: 16, why: "worlds of slots on two stores, and one for each mutant" },
  "test/cli/postgres.test.ts": { seconds: 15, why: "commands are started as processes" },
  "test/dynamodb/defects-shards.test.ts": { seconds: 15, why: "each defect of the original is looked for on a table" },
  "test/llm/paid.test.ts": { seconds: 15, why: "calls that clients leave, with the retries of three SDKs" },
  "test/simulation/bites.test.ts": { seconds: 15, why: "a world for each mutant" },
  "test/cli/help.test.ts": { seconds: 14, why: "the help of each command, each in a process" },
  "test/lease-simulation/leases.test.ts": { seconds: 16, why: "worlds of stored leases, and one for each mutant" },
  "test/server/serve.test.ts": { seconds: 17, why: "services are started as processes" },
  "test/aggregator/sweep-usage.test.ts": { seconds: 17, why: "sweeps that are cut off at many calls" },
  "test/copy/directions.test.ts": {
    seconds: 26,
    why: "namespaces are copied between stores, each on a server or a file of its own",
  },
  "test/limiter/book-worlds.test.ts": { seconds: 9 },
  "test/contract/postgres.test.ts": { seconds: 18, why: "the whole contract, on a server" },
  "test/dynamodb/defects-lists.test.ts": { seconds: 13, why: "each defect of the original is looked for on a table" },
  "test/limiter/levels.test.ts": { seconds: 13, why: "chains of levels under contention" },
  "test/package/scripts.test.ts": { seconds: 19, why: "each script is started as a process" },
  "test/defects/defects.test.ts": { seconds: 19, why: "each defect of the original is looked for in memory" },
  "test/docs/reference.test.ts": {
    seconds: 12,
    why: "the references are made anew, from the types of the whole project",
  },
  "test/dynamodb/manifest.test.ts": { seconds: 12, why: "manifests that are cut off at many writes" },
  "test/server/events.test.ts": { seconds: 12, why: "a stream that is silent shows every 5 s that it lives" },
  "test/shared/simulation.test.ts": { seconds: 12, why: "worlds on a table that two programs write" },
  "test/stored-leases/kills.test.ts": { seconds: 12, why: "processes are killed at many calls" },
  "test/dynamodb/defects-answers.test.ts": { seconds: 11, why: "each defect of the original is looked for on a table" },
  "test/dynamodb/provisioner.test.ts": { seconds: 16, why: "tables are made and changed" },
  "test/dynamodb/usage-kept-set.test.ts": { seconds: 11, why: "services and commands on a table" },
  "test/aggregator/costs.test.ts": { seconds: 10 },
  "test/cli/dynamodb.test.ts": { seconds: 18, why: "commands and a load test on a table" },
  "test/cli/frame.test.ts": { seconds: 17, why: "commands are started as processes" },
  "test/docs/docs.test.ts": { seconds: 17, why: "every example of the guides is run" },
  "test/dynamodb/store-entities.test.ts": { seconds: 18, why: "deletions that are cut off at many calls" },
  "test/postgres/faults.test.ts": { seconds: 10 },
  "test/sqlite/damage.test.ts": { seconds: 10 },
  "test/examples/fronts.test.ts": { seconds: 9 },
  "src/protocol/take/forms.test.ts": { seconds: 8 },
  "test/cli/migrate.test.ts": { seconds: 8 },
  "test/cli/watch.test.ts": { seconds: 8 },
  "test/dynamodb/docs.test.ts": { seconds: 8 },
  "test/limiter/growth.test.ts": { seconds: 8 },
  "test/limiter/long-walks.test.ts": { seconds: 8 },
  "test/limiter/slot-bodies.test.ts": { seconds: 8 },
  "src/protocol/take/fold.test.ts": { seconds: 7 },
  "test/aggregator/archive-s3.test.ts": { seconds: 7 },
  "test/cli/loadtest.test.ts": { seconds: 7 },
  "test/dynamodb/defects-items.test.ts": { seconds: 7 },
  "test/dynamodb/dynamodb-local.test.ts": { seconds: 7 },
  "test/dynamodb/first-contact.test.ts": { seconds: 7 },
  "test/infra/cdk.test.ts": { seconds: 7 },
  "test/middleware/process-stops.test.ts": { seconds: 7 },
  "test/postgres/judged.test.ts": { seconds: 7 },
  "test/simulation/original-client.test.ts": { seconds: 7 },
  "src/adapters/system/calendar-oracle.test.ts": { seconds: 6 },
  "test/examples/machines.test.ts": { seconds: 6 },
  "test/lease-simulation/slot-leases.test.ts": { seconds: 9 },
  "test/limiter/slots.test.ts": { seconds: 6 },
  "test/postgres/arithmetic.test.ts": { seconds: 6 },
  "test/postgres/tls.test.ts": { seconds: 6 },
  "test/server/bucket-watch.test.ts": { seconds: 6 },
  "test/server/deployed.test.ts": { seconds: 6 },
  "test/simulation/slots.test.ts": { seconds: 6 },
  "src/adapters/sqlite/sweep.test.ts": { seconds: 5 },
  "test/cli/service.test.ts": { seconds: 5 },
  "test/client/same-as-library.test.ts": { seconds: 8 },
  "test/docs/tutorial.test.ts": { seconds: 5 },
  "test/dynamodb/slots.test.ts": { seconds: 5 },
  "test/middleware/express-rate-limit-store.test.ts": { seconds: 5 },
  "test/postgres/strangers.test.ts": { seconds: 5 },
  "test/postgres/takes.test.ts": { seconds: 5 },
  "test/shared/rules.test.ts": { seconds: 5 },
};

/** How long a file took. */
export interface Took {
  readonly file: string;
  readonly ms: number;
}

/** A file that takes longer has a process of its own. */
const ALONE_S = 5;

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
