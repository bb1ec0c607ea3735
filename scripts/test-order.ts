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
  "test/simulation/conditional.test.ts": { seconds: 232, why: "to be measured" },
  "test/contract/postgres.test.ts": { seconds: 171, why: "to be measured" },
  "test/package/package.test.ts": { seconds: 152, why: "to be measured" },
  "test/simulation/simulation.test.ts": { seconds: 126, why: "to be measured" },
  "test/simulation/stories.test.ts": { seconds: 89, why: "to be measured" },
  "test/contract/dynamodb.test.ts": { seconds: 73, why: "to be measured" },
  "test/docs/docs.test.ts": { seconds: 65, why: "to be measured" },
  "test/dynamodb/same-as-simulated.test.ts": { seconds: 58, why: "to be measured" },
  "test/limiter/slot-worlds.test.ts": { seconds: 49, why: "to be measured" },
  "test/docs/docs-site.test.ts": { seconds: 38, why: "to be measured" },
  "test/postgres/pgbouncer.test.ts": { seconds: 35, why: "to be measured" },
  "test/shared/simulation.test.ts": { seconds: 34, why: "to be measured" },
  "test/lease-simulation/leases.test.ts": { seconds: 32, why: "to be measured" },
  "src/protocol/take/forms.test.ts": { seconds: 31, why: "to be measured" },
  "test/dynamodb/migrate.test.ts": { seconds: 30, why: "to be measured" },
  "src/protocol/take/fold.test.ts": { seconds: 28, why: "to be measured" },
  "test/dynamodb/usage-paging.test.ts": { seconds: 27, why: "to be measured" },
  "test/dynamodb/service.test.ts": { seconds: 26, why: "to be measured" },
  "test/protocol/slot-worlds.test.ts": { seconds: 25, why: "to be measured" },
  "test/infra/stack-moto.test.ts": { seconds: 24, why: "to be measured" },
  "test/protocol/damage.test.ts": { seconds: 24, why: "to be measured" },
  "test/infra/template.test.ts": { seconds: 22, why: "to be measured" },
  "test/limiter/waits.test.ts": { seconds: 22, why: "to be measured" },
  "test/postgres/service.test.ts": { seconds: 22, why: "to be measured" },
  "test/protocol/shadow-worlds.test.ts": { seconds: 22, why: "to be measured" },
  "test/dashboard/everybody.test.ts": { seconds: 21, why: "to be measured" },
  "test/limiter/spoiled-slots.test.ts": { seconds: 21, why: "to be measured" },
  "test/aggregator/sweep-usage.test.ts": { seconds: 20, why: "to be measured" },
  "test/sqlite/damage.test.ts": { seconds: 20, why: "to be measured" },
  "test/contract/sqlite.test.ts": { seconds: 19, why: "to be measured" },
  "test/dynamodb/faults-takes.test.ts": { seconds: 19, why: "to be measured" },
  "test/cli/postgres.test.ts": { seconds: 18, why: "to be measured" },
  "test/dynamodb/defects.test.ts": { seconds: 18, why: "to be measured" },
  "test/cli/loadtest.test.ts": { seconds: 17, why: "to be measured" },
  "test/dashboard/live-page.test.ts": { seconds: 17, why: "to be measured" },
  "test/postgres/leases.test.ts": { seconds: 17, why: "to be measured" },
  "test/aggregator/runner.test.ts": { seconds: 16, why: "to be measured" },
  "test/dynamodb/manifest.test.ts": { seconds: 16, why: "to be measured" },
  "test/postgres/judged.test.ts": { seconds: 16, why: "to be measured" },
  "test/examples/gateway.test.ts": { seconds: 15, why: "to be measured" },
  "test/postgres/arithmetic.test.ts": { seconds: 15, why: "to be measured" },
  "test/dashboard/changing.test.ts": { seconds: 14, why: "to be measured" },
  "test/infra/policies.test.ts": { seconds: 14, why: "to be measured" },
  "test/limiter/slot-bodies.test.ts": { seconds: 14, why: "to be measured" },
  "test/postgres/records-pglite.test.ts": { seconds: 14, why: "to be measured" },
  "test/dashboard/limits-page.test.ts": { seconds: 13, why: "to be measured" },
  "test/infra/cdk.test.ts": { seconds: 13, why: "to be measured" },
  "test/simulation/bites.test.ts": { seconds: 13, why: "to be measured" },
  "test/cli/aggregate.test.ts": { seconds: 12, why: "to be measured" },
  "test/limiter/long-walks.test.ts": { seconds: 12, why: "to be measured" },
  "test/postgres/failover.test.ts": { seconds: 12, why: "to be measured" },
  "test/server/bounds.test.ts": { seconds: 12, why: "to be measured" },
  "test/cli/dynamodb.test.ts": { seconds: 11, why: "to be measured" },
  "test/dynamodb/faults-storm.test.ts": { seconds: 11, why: "to be measured" },
  "test/dynamodb/levels.test.ts": { seconds: 11, why: "to be measured" },
  "test/limiter/growth.test.ts": { seconds: 11, why: "to be measured" },
  "test/postgres/records-same.test.ts": { seconds: 11, why: "to be measured" },
  "src/protocol/shards/split.test.ts": { seconds: 10 },
  "test/dashboard/bucket-panel.test.ts": { seconds: 10 },
  "test/dynamodb/faults-give-back.test.ts": { seconds: 10 },
  "test/dynamodb/defects-shards.test.ts": { seconds: 9 },
  "src/adapters/dynamodb/signer.test.ts": { seconds: 8 },
  "test/cli/local.test.ts": { seconds: 8 },
  "test/dashboard/layout.test.ts": { seconds: 8 },
  "test/dynamodb/dynamodb-local.test.ts": { seconds: 8 },
  "test/manifest/faults.test.ts": { seconds: 8 },
  "test/package/scripts.test.ts": { seconds: 8 },
  "test/stored-leases/kills.test.ts": { seconds: 8 },
  "src/straight/slot-worlds.test.ts": { seconds: 7 },
  "test/aggregator/costs.test.ts": { seconds: 7 },
  "test/cli/frame.test.ts": { seconds: 7 },
  "test/cli/full-disk.test.ts": { seconds: 7 },
  "test/dashboard/namespaces-page.test.ts": { seconds: 7 },
  "test/dynamodb/switches.test.ts": { seconds: 7 },
  "test/infra/production-guide.test.ts": { seconds: 7 },
  "test/refusals/dynamodb.test.ts": { seconds: 7 },
  "test/server/serve.test.ts": { seconds: 7 },
  "test/sqlite/same-as-memory.test.ts": { seconds: 7 },
  "src/aggregator/follow-stream.test.ts": { seconds: 6 },
  "test/dynamodb/defects-lists.test.ts": { seconds: 6 },
  "test/dynamodb/faults-leases.test.ts": { seconds: 6 },
  "test/dynamodb/faults-policy.test.ts": { seconds: 6 },
  "test/dynamodb/slots.test.ts": { seconds: 6 },
  "test/dynamodb/store-config.test.ts": { seconds: 6 },
  "test/dynamodb/store-entities.test.ts": { seconds: 6 },
  "test/dynamodb/store-namespaces.test.ts": { seconds: 6 },
  "test/dynamodb/take-over.test.ts": { seconds: 6 },
  "test/infra/lambda-zip.test.ts": { seconds: 6 },
  "test/manifest/round-trips.test.ts": { seconds: 6 },
  "test/postgres/faults.test.ts": { seconds: 6 },
  "test/postgres/full-disk.test.ts": { seconds: 6 },
  "test/postgres/records.test.ts": { seconds: 6 },
  "test/postgres/takes.test.ts": { seconds: 6 },
  "test/server/bucket-watch.test.ts": { seconds: 6 },
  "test/server/events.test.ts": { seconds: 6 },
  "test/server/fuzz.test.ts": { seconds: 6 },
  "src/adapters/system/calendar-oracle.test.ts": { seconds: 5 },
  "test/cli/help.test.ts": { seconds: 5 },
  "test/client/same-as-library.test.ts": { seconds: 5 },
  "test/docs/reference.test.ts": { seconds: 5 },
  "test/dynamodb/defects-answers.test.ts": { seconds: 5 },
  "test/dynamodb/totals.test.ts": { seconds: 5 },
  "test/infra/first-deploy.test.ts": { seconds: 5 },
  "test/limiter/levels.test.ts": { seconds: 5 },
  "test/llm/paid.test.ts": { seconds: 5 },
  "test/postgres/tls.test.ts": { seconds: 5 },
  "test/refusals/counts.test.ts": { seconds: 5 },
  "test/server/deployed.test.ts": { seconds: 5 },
  "test/server/lease-expiry.test.ts": { seconds: 5 },
  "test/aggregator/archive-s3.test.ts": { seconds: 4 },
  "test/aggregator/leftovers.test.ts": { seconds: 4 },
  "test/aggregator/sweep.test.ts": { seconds: 4 },
  "test/defects/defects.test.ts": { seconds: 4 },
  "test/dynamodb/defects-items.test.ts": { seconds: 4 },
  "test/dynamodb/docs.test.ts": { seconds: 4 },
  "test/dynamodb/provisioner.test.ts": { seconds: 4 },
  "test/dynamodb/vast-counts.test.ts": { seconds: 4 },
  "test/limiter/shadow-slots.test.ts": { seconds: 4 },
  "test/limiter/whole-tokens.test.ts": { seconds: 4 },
  "test/middleware/process-stops.test.ts": { seconds: 4 },
  "test/dashboard/usage-page.test.ts": { seconds: 3 },
  "test/dynamodb/usage-kept-set.test.ts": { seconds: 3 },
  "test/aggregator/handler.test.ts": { seconds: 2 },
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
