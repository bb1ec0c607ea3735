import { DEFAULT_NAMESPACE } from "../../domain/config/namespace.ts";
import { ConflictError, NotFoundError } from "../../domain/names/errors.ts";
import type { Clock, Random } from "../../ports/system.ts";
import { AuditIds, DynamoAudit } from "./audit.ts";
import type { DynamoClient, DynamoOperation } from "./client.ts";
import { readFaultOf, unavailable } from "./errors.ts";
import { DynamoNamespaces } from "./namespaces.ts";
import { NamespaceWatch } from "./namespaces-record.ts";
import { Records } from "./records.ts";
import { createTable as createBare, deleteTable as deleteBare, type TableWait } from "./table.ts";
import {
  type DescribedExpiry,
  type DescribedTable,
  expiryProblemsOf,
  shapeProblemsOf,
  type TableOptions,
  unfitText,
} from "./table-fit.ts";
import { readVersion, type VersionRecord, writeLambdaVersion, writeVersion } from "./version.ts";

export interface TableAdmin {
  readonly client: DynamoClient;
  readonly table: string;
  readonly clock: Clock;
  /** A number in [0, 1), for jitter. */
  readonly random: () => number;
  readonly ids: Random;
  /** The version of this package, for the version record. */
  readonly version: string;
  /** All steps together, in ms. */
  readonly timeoutMs: number;
}

interface NewTable extends Omit<TableOptions, "name" | "gsi2Projection"> {
  readonly projection: TableOptions["gsi2Projection"];
  /** Whether DynamoDB deletes items after their `ttl`. */
  readonly expiry: boolean;
}

/** Creates the table, waits until it can be used, and sets it up. */
export async function createTable(admin: TableAdmin, { projection, ...options }: NewTable): Promise<void> {
  await createBare({ name: admin.table, gsi2Projection: projection, ...options }, waitOf(admin));
  await prepareTable(admin);
}

/** Writes the version record and the namespace `default` of an existing table. Records that are there stay as they are. */
export async function prepareTable(admin: TableAdmin): Promise<void> {
  const { clock, ids, version } = admin;
  const records = recordsOf(admin);
  await writeVersion(records, { version, nowMs: clock.now() });
  const auditIds = new AuditIds(clock, ids);
  const namespaces = new DynamoNamespaces({
    records,
    watch: new NamespaceWatch(clock),
    auditOf: (namespaceId) => new DynamoAudit(namespaceId, { records, ids: auditIds, clock }),
  });
  const name = DEFAULT_NAMESPACE;
  if ((await namespaces.get(name)) !== undefined) return;
  await namespaces.registerFirst({ id: ids.id(), name, status: "active", createdAtMs: clock.now() });
}

/**
 * Sets up a table that CloudFormation, CDK or Terraform made. Throws, before anything is written, if it lacks something
 * that a limiter needs. False: it was set up already.
 */
export async function setUpTable(
  admin: TableAdmin,
  { needsExpiry }: { readonly needsExpiry: boolean },
): Promise<boolean> {
  const isNew = (await readVersion(recordsOf(admin))) === undefined;
  if (isNew) {
    const { Table } = await described(admin, "DescribeTable");
    const problems = [...shapeProblemsOf((Table ?? {}) as DescribedTable)];
    if (needsExpiry) {
      const { TimeToLiveDescription } = await described(admin, "DescribeTimeToLive");
      problems.push(...expiryProblemsOf((TimeToLiveDescription ?? {}) as DescribedExpiry));
    }
    if (problems.length > 0) throw new ConflictError("table_unfit", unfitText(admin.table, problems));
  }
  await prepareTable(admin);
  return isNew;
}

async function described(
  { client, table, timeoutMs }: Pick<TableAdmin, "client" | "table" | "timeoutMs">,
  operation: DynamoOperation,
) {
  const answer = await client.send(operation, JSON.stringify({ TableName: table }), { timeoutMs });
  if (answer.kind !== "answered") throw unavailable("describe", table, readFaultOf(answer, table));
  return answer.body;
}

/** The table's version record; undefined if it has none, or does not exist. */
export async function versionOf(admin: TableAdmin): Promise<VersionRecord | undefined> {
  try {
    return await readVersion(recordsOf(admin));
  } catch (error) {
    if (error instanceof NotFoundError) return undefined;
    throw error;
  }
}

/** Records that the functions of the table's stack have the code of this version. */
export async function noteLambdaVersion(admin: TableAdmin): Promise<void> {
  await writeLambdaVersion(recordsOf(admin), admin.version);
}

/** Deletes the table with all that is in it; false where there was none. */
export function deleteTable(admin: TableAdmin): Promise<boolean> {
  return deleteBare(admin.table, waitOf(admin));
}

/** The projection of an index; undefined if there is no such index. */
export async function projectionOf(table: string, index: string, wait: TableWait): Promise<string | undefined> {
  const { Table } = await described({ ...wait, table }, "DescribeTable");
  const { GlobalSecondaryIndexes: indexes } = Table as DescribedTable;
  return indexes?.find(({ IndexName }) => IndexName === index)?.Projection?.ProjectionType;
}

function recordsOf({ client, table, clock, random, ids, timeoutMs }: TableAdmin): Records {
  return new Records({ client, tableName: table, clock, random, ids, timeoutMs });
}

function waitOf({ client, clock, timeoutMs }: TableAdmin): TableWait {
  return { client, clock, timeoutMs };
}
