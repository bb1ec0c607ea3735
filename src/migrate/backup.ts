import type { MigratedTable } from "./table.ts";

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
