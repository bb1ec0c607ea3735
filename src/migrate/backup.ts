import { NotFoundError, RateLimiterUnavailable } from "../domain/names/errors.ts";
import type { MigratedTable } from "./table.ts";

/**
 * How a table comes back once old items are deleted: from a backup that is made first, to a point in time, or not at all. `unknown`:
 * the service does not say whether it can go back to a point in time.
 */
export type WayBack = "backup" | "pointInTime" | "none" | "unknown";

export async function wayBackOf(table: MigratedTable, backup: string | undefined): Promise<WayBack> {
  if (backup !== undefined) return "backup";
  try {
    const { ContinuousBackupsDescription } = await table.call("DescribeContinuousBackups", {});
    const { PointInTimeRecoveryDescription: seen } = ContinuousBackupsDescription as {
      readonly PointInTimeRecoveryDescription?: { readonly PointInTimeRecoveryStatus?: string };
    };
    return seen?.PointInTimeRecoveryStatus === "ENABLED" ? "pointInTime" : "none";
  } catch (error) {
    // Whoever may not ask, and an engine that does not know the question, are no reason to stop.
    if (error instanceof RateLimiterUnavailable || error instanceof NotFoundError) throw error;
    return "unknown";
  }
}

/** A backup of a large table takes long, but it is of the instant at which it was asked for. */
const WITHIN_MS = 6 * 3_600_000;

/** Makes an on-demand backup and waits until it can be restored. */
export async function makeBackup(table: MigratedTable, name: string): Promise<void> {
  const { BackupDetails } = await table.call("CreateBackup", { BackupName: name });
  const { BackupArn } = BackupDetails as { readonly BackupArn: string };
  await table.until(`the backup "${name}" is available`, WITHIN_MS, async () => {
    const { BackupDescription } = await table.call("DescribeBackup", { BackupArn });
    const { BackupDetails: seen } = BackupDescription as {
      readonly BackupDetails?: { readonly BackupStatus?: string };
    };
    return seen?.BackupStatus === "AVAILABLE";
  });
}
