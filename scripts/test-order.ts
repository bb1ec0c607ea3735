/**
 * Test files that take long, the longest first: begun first, none of them runs alone at the end while the other cores have nothing to do.
 * Only their order matters. A whole run prints the longest files at its end, by which this list is kept.
 */
export const LONG_FILES: readonly string[] = [
  "test/simulation/conditional.test.ts",
  "test/dynamodb/service.test.ts",
  "test/package/package.test.ts",
  "test/contract/dynamodb.test.ts",
  "test/dynamodb/migrate.test.ts",
  "test/dynamodb/same-as-simulated.test.ts",
  "test/shared/simulation.test.ts",
  "test/docs/docs.test.ts",
  "test/dynamodb/usage-paging.test.ts",
  "test/dynamodb/faults-takes.test.ts",
  "test/sqlite/same-as-memory.test.ts",
  "test/dashboard/everybody.test.ts",
  "test/aggregator/sweep-usage.test.ts",
  "src/protocol/take/forms.test.ts",
  "test/dashboard/live-page.test.ts",
  "test/dynamodb/manifest.test.ts",
  "test/simulation/stories.test.ts",
  "test/examples/gateway.test.ts",
  "src/protocol/take/fold.test.ts",
  "test/lease-simulation/leases.test.ts",
  "test/dynamodb/provisioner.test.ts",
  "src/protocol/shards/split.test.ts",
  "test/simulation/simulation.test.ts",
  "test/dashboard/changing.test.ts",
  "test/dynamodb/defects.test.ts",
  "test/dynamodb/defects-lists.test.ts",
  "test/sqlite/damage.test.ts",
  "test/server/bounds.test.ts",
  "test/dynamodb/faults-give-back.test.ts",
  "test/cli/local.test.ts",
  "test/cli/loadtest.test.ts",
  "test/aggregator/costs.test.ts",
  "test/dynamodb/defects-shards.test.ts",
  "test/dashboard/limits-page.test.ts",
  "test/dynamodb/faults-policy.test.ts",
  "test/dynamodb/store-entities.test.ts",
  "test/infra/policies.test.ts",
  "test/protocol/damage.test.ts",
  "test/infra/stack-moto.test.ts",
  "test/infra/template.test.ts",
  "test/limiter/waits.test.ts",
];

/** The files that are known to be long, longest first, then the others by their paths. */
export function longestFirst(files: readonly string[]): string[] {
  const rank = (file: string) => LONG_FILES.indexOf(file) + 1 || LONG_FILES.length + 1;
  return [...files].sort((one, other) => rank(one) - rank(other) || (one < other ? -1 : 1));
}
