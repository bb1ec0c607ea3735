import { failingFast } from "../adapters/dynamodb/retry-policy.ts";
import { connect } from "../adapters/dynamodb/store-connect.ts";
import { steadyMs, systemClock } from "../adapters/system/clock.ts";
import { fromEnvironment } from "../adapters/system/environment.ts";
import { jitter, systemRandom } from "../adapters/system/random.ts";
import { abortMigration, type MigrationReport, migrateTable, planMigration } from "../migrate/migrate.ts";
import { MigratedTable, makeBackup, wayBackOf } from "../migrate/table.ts";
import type { DynamoTable } from "./dynamodb.ts";
import { calendar } from "./limits.ts";
import { packageVersion } from "./package-version.ts";

export type { MigrationReport, MigrationStep } from "../migrate/migrate.ts";
export type { WayBack } from "../migrate/table.ts";

/** Which table, and what is to be done with it. */
export interface MigrationOptions extends DynamoTable {
  /** `plan` and `planAbort` write nothing; `abort` takes back what was copied. */
  readonly action: "plan" | "migrate" | "planAbort" | "abort";
  /** Also a table in our layout that the original wrote, once its clients are gone. */
  readonly takeOver: boolean;
  /** The name of an on-demand backup that is made before anything else. */
  readonly backup: string | undefined;
  /** Ends it after what is in hand; migrated again, it goes on there. */
  readonly signal: AbortSignal;
  /** Called after every thousand items. */
  readonly onProgress: (progress: { readonly phase: string; readonly items: number }) => void;
}

/** Brings a table of an earlier layout to ours. No client may use it meanwhile; one that opens it is refused. */
export async function migrate(options: MigrationOptions): Promise<MigrationReport> {
  const { stack, region, endpoint, credentials, client: sdk, action, backup } = options;
  const profile = fromEnvironment("AWS_PROFILE");
  const { client, clock } = await connect({
    ...{ region, endpoint, credentials, client: sdk, given: undefined, profile, local: systemClock, steadyMs },
  });
  try {
    const base = { client: failingFast(client), clock, random: jitter, ids: systemRandom };
    const table = new MigratedTable({ ...base, tableName: stack });
    const { takeOver, signal, onProgress } = options;
    const parts = {
      ...{ table, calendar, ids: systemRandom, version: packageVersion(), takeOver, signal, onProgress },
    };
    if (action === "abort") return await abortMigration(parts, "abort");
    if (action === "planAbort") return await abortMigration(parts, "plan");
    if (action === "migrate" && backup !== undefined) await makeBackup(table, backup);
    const report = action === "plan" ? await planMigration(parts) : await migrateTable(parts);
    return report.steps.length === 0 ? report : { ...report, wayBack: await wayBackOf(table, backup) };
  } finally {
    await client.close();
  }
}
