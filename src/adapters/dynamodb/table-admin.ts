import { DEFAULT_NAMESPACE, type Namespace } from "../../domain/config/namespace.ts";
import { ConflictError, NotFoundError } from "../../domain/names/errors.ts";
import type { Clock, Random } from "../../ports/system.ts";
import { DynamoAudit } from "./audit.ts";
import { AuditIds } from "./audit-id.ts";
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
  /** Of this package, for the version record. */
  readonly version: string;
  /** All steps together, in ms. */
  readonly timeoutMs: number;
}

interface NewTable {
  /** What the resource index has of an item: `ALL` for a table that the original shall work on too. */
  readonly projection: "KEYS_ONLY" | "ALL";
  /** Whether items go when their `ttl` has passed. */
  readonly expiry: boolean;
  readonly tags: Readonly<Record<string, string>>;
  readonly deletionProtection: boolean;
}

/** Makes the table, waits until it can be used, and sets it up. */
export async function createTable(admin: TableAdmin, { projection, ...options }: NewTable): Promise<void> {
  await createBare({ name: admin.table, gsi2Projection: projection, ...options }, waitOf(admin));
  await prepareTable(admin);
}

/** Sets up a table that is there: the version record and the namespace `default`. What is set up already stays as it is. */
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
  await registerDefault(namespaces, admin);
}

/**
 * Sets up a table that somebody else made: CloudFormation, CDK, Terraform. Throws where it lacks what a limiter needs, before anything is
 * written. False: it was set up already.
 */
export async function setUpTable(
  admin: TableAdmin,
  { needsExpiry }: { readonly needsExpiry: boolean },
): Promise<boolean> {
  const isNew = (await readVersion(recordsOf(admin))) === undefined;
  if (isNew) {
    const problems = [
      ...shapeProblemsOf(((await described(admin, "DescribeTable")).Table ?? {}) as DescribedTable),
      ...(needsExpiry
        ? expiryProblemsOf(
            ((await described(admin, "DescribeTimeToLive")).TimeToLiveDescription ?? {}) as DescribedExpiry,
          )
        : []),
    ];
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

/** The table's version record; undefined: it has none, or there is no such table. */
export async function versionOf(admin: TableAdmin): Promise<VersionRecord | undefined> {
  try {
    return await readVersion(recordsOf(admin));
  } catch (error) {
    if (error instanceof NotFoundError) return undefined;
    throw error;
  }
}

/** Notes that the functions of the table's stack have the code of this version. */
export async function noteLambdaVersion(admin: TableAdmin): Promise<void> {
  await writeLambdaVersion(recordsOf(admin), admin.version);
}

/** Deletes the table with all that is in it; false where there was none. */
export function deleteTable(admin: TableAdmin): Promise<boolean> {
  return deleteBare(admin.table, waitOf(admin));
}

/** What an index has of an item; undefined where there is no such index. */
export async function projectionOf(table: string, index: string, wait: TableWait): Promise<string | undefined> {
  const { Table } = await described({ ...wait, table }, "DescribeTable");
  const { GlobalSecondaryIndexes = [] } = Table as {
    GlobalSecondaryIndexes?: readonly { IndexName: string; Projection: { ProjectionType: string } }[];
  };
  return GlobalSecondaryIndexes.find(({ IndexName }) => IndexName === index)?.Projection.ProjectionType;
}

async function registerDefault(namespaces: DynamoNamespaces, { clock, ids }: TableAdmin): Promise<void> {
  const name = DEFAULT_NAMESPACE;
  if ((await namespaces.get(name)) !== undefined) return;
  const namespace: Namespace = { id: ids.id(), name, status: "active", createdAtMs: clock.now() };
  await namespaces.registerFirst(namespace);
}

function recordsOf({ client, table, clock, random, ids, timeoutMs }: TableAdmin): Records {
  return new Records({ client, tableName: table, clock, random, ids, timeoutMs });
}

function waitOf({ client, clock, timeoutMs }: TableAdmin): TableWait {
  return { client, clock, timeoutMs };
}
