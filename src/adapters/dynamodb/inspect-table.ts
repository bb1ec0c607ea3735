import { LimiterError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import type { Clock } from "../../ports/system.ts";
import type { DynamoAnswer, DynamoClient, DynamoOperation } from "./client.ts";
import { entityPk, PK, SCHEMA_VERSION_ATTRIBUTE, SK, versionKey } from "./schema.ts";

/** The properties of a table, and the rights of these credentials on it. */
export interface TableInspection {
  /** The version of its schema. Absent: it is not a table of this package, or not set up. */
  readonly schema?: string;
  /** Operations that AWS refused because a right is missing. */
  readonly denied: readonly string[];
  /** The lead of this machine's clock over the server's, in ms. */
  readonly aheadMs: number;
}

interface InspectOptions {
  readonly client: DynamoClient;
  readonly table: string;
  readonly namespaceId: string;
  /** Kept to the server's time by every answer. */
  readonly clock: Clock;
  /** The machine's own. */
  readonly local: Clock;
  readonly timeoutMs: number;
}

/** Tests every right that a limiter needs with calls that change nothing: each write has a condition that cannot hold. */
export async function inspectTable(options: InspectOptions): Promise<TableInspection> {
  const { client, table, timeoutMs } = options;
  const { pk, sk } = versionKey();
  const read = await client.send(
    "GetItem",
    JSON.stringify({ TableName: table, Key: { [PK]: { S: pk }, [SK]: { S: sk } }, ConsistentRead: true }),
    { timeoutMs },
  );
  const denied: string[] = [];
  for (const [operation, body] of tries(options)) {
    const answer = await client.send(operation, JSON.stringify(body), { timeoutMs });
    if (isDenied(answer)) denied.push(operation);
    else requireReached(answer);
  }
  const item = read.kind === "answered" ? (read.body.Item as Record<string, { S?: string }> | undefined) : undefined;
  const schema = item?.[SCHEMA_VERSION_ATTRIBUTE]?.S;
  const aheadMs = options.local.now() - options.clock.now();
  return { ...given({ schema }), denied, aheadMs };
}

/** An entity of that id may exist; the conditions never hold. */
function tries({ table: TableName, namespaceId }: InspectOptions): readonly (readonly [DynamoOperation, object])[] {
  const partition = { S: entityPk(namespaceId, "zae-limiter.doctor") };
  const Key = { [PK]: partition, [SK]: { S: "#DOCTOR" } };
  const never = { ConditionExpression: "attribute_exists(#pk)", ExpressionAttributeNames: { "#pk": PK } };
  const one = { TableName, Key };
  return [
    ["GetItem", one],
    ["BatchGetItem", { RequestItems: { [TableName]: { Keys: [Key] } } }],
    [
      "Query",
      {
        TableName,
        Limit: 1,
        KeyConditionExpression: "#pk = :pk",
        ExpressionAttributeNames: { "#pk": PK },
        ExpressionAttributeValues: { ":pk": partition },
      },
    ],
    ["PutItem", { TableName, Item: Key, ...never }],
    [
      "UpdateItem",
      {
        ...one,
        UpdateExpression: "SET #d = :d",
        ConditionExpression: "attribute_exists(#pk)",
        ExpressionAttributeNames: { "#pk": PK, "#d": "doctor" },
        ExpressionAttributeValues: { ":d": { S: "" } },
      },
    ],
    ["DeleteItem", { ...one, ...never }],
    ["TransactWriteItems", { TransactItems: [{ ConditionCheck: { ...one, ...never } }] }],
  ];
}

function isDenied(answer: DynamoAnswer): boolean {
  return answer.kind === "failed" && /AccessDenied|NotAuthorized|UnrecognizedClient/.test(answer.code);
}

/** A failed condition is the expected answer. */
function requireReached(answer: DynamoAnswer): void {
  if (answer.kind === "answered") return;
  if (answer.kind === "failed" && /ConditionalCheckFailed|TransactionCanceled/.test(answer.code)) return;
  const why = answer.kind === "failed" ? `${answer.code}: ${answer.message}` : String(answer.cause);
  throw new LimiterError("store_refused", `The permissions on the table could not be checked (${why}); try again.`);
}

/** The names of all tables, whether limiters use them or not: at most a thousand, and none without the right to list them. */
export async function tableNames(client: DynamoClient, timeoutMs: number): Promise<readonly string[]> {
  const names: string[] = [];
  for (let after: unknown, isMore = true; isMore && names.length < NAMES_MAX; isMore = after !== undefined) {
    const body = JSON.stringify({ ExclusiveStartTableName: after });
    const answer = await client.send("ListTables", body, { timeoutMs });
    if (answer.kind !== "answered") break;
    names.push(...((answer.body.TableNames ?? []) as readonly string[]));
    after = answer.body.LastEvaluatedTableName;
  }
  return names;
}

const NAMES_MAX = 1_000;
