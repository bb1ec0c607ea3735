import type { DynamoOperation, TableAccess } from "../adapters/dynamodb/client.ts";
import type { Attributes } from "../adapters/dynamodb/codec.ts";
import { itemAnswerOf } from "../adapters/dynamodb/errors.ts";
import { collected } from "../adapters/dynamodb/paging.ts";
import { Records, tablePartition } from "../adapters/dynamodb/records.ts";
import { RetriedCalls } from "../adapters/dynamodb/retried-calls.ts";
import { RETRY } from "../adapters/dynamodb/retry-policy.ts";
import { PK } from "../adapters/dynamodb/schema.ts";
import { type DescribedTable, isActive, tableDefinition } from "../adapters/dynamodb/table-fit.ts";
import { NotFoundError, RateLimiterUnavailable } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import type { Clock, Random } from "../ports/system.ts";
import type { NewItem } from "./planned.ts";

interface TableOptions extends TableAccess {
  readonly ids: Random;
}

/** The place at which a segment of a scan continues; null: its beginning. */
export type ScanKey = Readonly<Record<string, unknown>> | null;

/** The calls that a migration makes on its table. */
export class MigratedTable {
  readonly records: Records;
  readonly name: string;
  readonly clock: Clock;
  readonly #calls: RetriedCalls;

  constructor(options: TableOptions) {
    this.name = options.tableName;
    this.clock = options.clock;
    this.records = new Records({ ...options, timeoutMs: TIMEOUT_MS });
    this.#calls = new RetriedCalls({ ...options, attemptMaxMs: RETRY.attemptMaxMs * 5 });
  }

  async describe(): Promise<DescribedTable> {
    const { Table } = await this.call("DescribeTable", {});
    return Table as DescribedTable;
  }

  /** Reads a page of one segment: its partitions, in order. Items of one partition follow each other, also over pages. */
  async scan(
    { segment, segments }: { readonly segment: number; readonly segments: number },
    from: ScanKey,
  ): Promise<{ readonly pks: readonly string[]; readonly next: ScanKey }> {
    const { Items = [], LastEvaluatedKey = null } = await this.call("Scan", {
      Segment: segment,
      TotalSegments: segments,
      ConsistentRead: true,
      ProjectionExpression: "#pk",
      ExpressionAttributeNames: { "#pk": PK },
      ...given({ ExclusiveStartKey: from ?? undefined }),
    });
    const pks = (Items as readonly Attributes[]).map((item) => item[PK]?.S ?? "");
    return { pks: [...new Set(pks)], next: LastEvaluatedKey as ScanKey };
  }

  /** Reads all items of a partition, consistently. */
  partition(pk: string): Promise<readonly Attributes[]> {
    return collected(this.records.query(tablePartition(pk)));
  }

  /** Makes an item unless it exists; false: it exists. */
  async putNew({ attributes }: NewItem): Promise<boolean> {
    const body = JSON.stringify({
      TableName: this.name,
      Item: attributes,
      ConditionExpression: "attribute_not_exists(#pk)",
      ExpressionAttributeNames: { "#pk": PK },
    });
    const deadline = this.#calls.deadline(TIMEOUT_MS);
    for (let failures = 0; ; failures++) {
      const reader = { tableName: this.name, decode: () => ({}), after: {} };
      const answer = itemAnswerOf(await this.#calls.attempt("PutItem", body, deadline), reader);
      if (answer.kind === "applied") return true;
      // An earlier attempt may have made it, and its answer was lost.
      if (answer.kind === "failed") return false;
      await deadline.backOff(failures, "copy", "cause" in answer ? answer.cause : undefined);
    }
  }

  call(operation: DynamoOperation, input: object): Promise<Record<string, unknown>> {
    const body = JSON.stringify(operation === "DescribeBackup" ? input : { TableName: this.name, ...input });
    return this.#calls.call({ operation, body }, this.#calls.deadline(TIMEOUT_MS), "migrate");
  }

  /** Polls until the condition holds. */
  async until(what: string, withinMs: number, isSo: () => Promise<boolean>): Promise<void> {
    const untilMs = this.clock.now() + withinMs;
    while (!(await isSo())) {
      if (this.clock.now() >= untilMs) {
        throw new RateLimiterUnavailable(`Timed out waiting until ${what}; run migrate again to resume.`);
      }
      await this.clock.sleep(RETRY.tablePollMs * 5, undefined);
    }
  }
}

const TIMEOUT_MS = 60_000;

/**
 * The way a table can be restored after old items are deleted: from a backup that is made first, to a point in time, or not at all.
 * `unknown`: the service does not say whether it can go back to a point in time.
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
    // A caller without the right to ask, and an engine that does not know the call, are no reason to stop.
    if (error instanceof RateLimiterUnavailable || error instanceof NotFoundError) throw error;
    return "unknown";
  }
}

/** A backup of a large table takes long, but it has the state of the instant at which it was requested. */
const BACKUP_WITHIN_MS = 6 * 3_600_000;

/** Makes an on-demand backup and waits until it can be restored. */
export async function makeBackup(table: MigratedTable, name: string): Promise<void> {
  const { BackupDetails } = await table.call("CreateBackup", { BackupName: name });
  const { BackupArn } = BackupDetails as { readonly BackupArn: string };
  await table.until(`the backup "${name}" is available`, BACKUP_WITHIN_MS, async () => {
    const { BackupDescription } = await table.call("DescribeBackup", { BackupArn });
    const { BackupDetails: seen } = BackupDescription as {
      readonly BackupDetails?: { readonly BackupStatus?: string };
    };
    return seen?.BackupStatus === "AVAILABLE";
  });
}

/**
 * Makes the missing indexes one at a time, as DynamoDB requires, and returns when all are active. Nothing may be written before: a run
 * that resumes a killed one waits here, too.
 */
export async function makeIndexes(table: MigratedTable): Promise<void> {
  const wanted = tableDefinition({ name: table.name, gsi2Projection: "ALL", tags: {}, deletionProtection: false });
  await untilActive(table);
  for (const index of wanted.GlobalSecondaryIndexes) {
    const { GlobalSecondaryIndexes: known } = await table.describe();
    if (known?.some(({ IndexName }) => IndexName === index.IndexName)) continue;
    const keys = index.KeySchema.map(({ AttributeName }) => AttributeName);
    await table.call("UpdateTable", {
      AttributeDefinitions: keys.map((AttributeName) => ({ AttributeName, AttributeType: "S" })),
      GlobalSecondaryIndexUpdates: [{ Create: index }],
    });
    await untilActive(table);
  }
}

/** An index over a large table takes hours. */
const INDEXES_WITHIN_MS = 24 * 3_600_000;

async function untilActive(table: MigratedTable): Promise<void> {
  await table.until(`the indexes of "${table.name}" are active`, INDEXES_WITHIN_MS, async () =>
    isActive(await table.describe()),
  );
}
