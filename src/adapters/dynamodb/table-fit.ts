import { CHILDREN_INDEX, ENTITY_INDEX, NAMESPACE_INDEX, PK, RESOURCE_INDEX, SK, TTL } from "./schema.ts";

export interface TableOptions {
  readonly name: string;
  /**
   * The projection of the resource index. With `KEYS_ONLY`, a write that changes no key costs nothing there. With
   * `ALL`, which the original's readers expect, every write costs one unit more.
   */
  readonly gsi2Projection: "KEYS_ONLY" | "ALL";
  readonly tags: Readonly<Record<string, string>>;
  readonly deletionProtection: boolean;
}

/** The input of CreateTable. Expiry by `ttl` is turned on by another call, once the table exists. */
export function tableDefinition({ name, gsi2Projection, tags, deletionProtection }: TableOptions) {
  const indexes = [
    { ...CHILDREN_INDEX, projection: "ALL" },
    { ...RESOURCE_INDEX, projection: gsi2Projection },
    { ...ENTITY_INDEX, projection: "KEYS_ONLY" },
    { ...NAMESPACE_INDEX, projection: "KEYS_ONLY" },
  ] as const;
  const keys = [PK, SK, ...indexes.flatMap(({ pk, sk }) => [pk, sk])];
  return {
    TableName: name,
    BillingMode: "PAY_PER_REQUEST",
    AttributeDefinitions: keys.map((key) => ({ AttributeName: key, AttributeType: "S" })),
    KeySchema: keySchema(PK, SK),
    // No local indexes: the original reserves five and uses none, and they would cap a partition at 10 GB.
    GlobalSecondaryIndexes: indexes.map(({ name: index, pk, sk, projection }) => ({
      IndexName: index,
      KeySchema: keySchema(pk, sk),
      Projection: { ProjectionType: projection },
    })),
    StreamSpecification: { StreamEnabled: true, StreamViewType: "NEW_AND_OLD_IMAGES" },
    DeletionProtectionEnabled: deletionProtection,
    Tags: Object.entries(tags).map(([Key, Value]) => ({ Key, Value })),
  };
}

function keySchema(hash: string, range: string) {
  return [
    { AttributeName: hash, KeyType: "HASH" },
    { AttributeName: range, KeyType: "RANGE" },
  ];
}

/** The parts of the answer of DescribeTable that a limiter depends on. */
export interface DescribedTable {
  readonly TableStatus?: string | undefined;
  readonly KeySchema?:
    | readonly { readonly AttributeName?: string | undefined; readonly KeyType?: string | undefined }[]
    | undefined;
  readonly GlobalSecondaryIndexes?:
    | readonly {
        readonly IndexName?: string | undefined;
        readonly IndexStatus?: string | undefined;
        readonly KeySchema?: DescribedTable["KeySchema"];
        readonly Projection?: { readonly ProjectionType?: string | undefined } | undefined;
      }[]
    | undefined;
  readonly StreamSpecification?: { readonly StreamViewType?: string | undefined } | undefined;
}

/** The parts of the answer of DescribeTimeToLive. */
export interface DescribedExpiry {
  readonly TimeToLiveStatus?: string | undefined;
  readonly AttributeName?: string | undefined;
}

/** True if the table and all of its indexes can be used. */
export function isActive({ TableStatus, GlobalSecondaryIndexes: indexes }: DescribedTable): boolean {
  return TableStatus === "ACTIVE" && (indexes ?? []).every(({ IndexStatus }) => IndexStatus === "ACTIVE");
}

/** Differences of keys and indexes from the library's own definition, as sentences. With any of them no limiter can work. */
export function shapeProblemsOf(table: DescribedTable): readonly string[] {
  const wanted = tableDefinition({ name: "", gsi2Projection: "KEYS_ONLY", tags: {}, deletionProtection: false });
  const problems: string[] = [];
  if (keysText(table.KeySchema) !== keysText(wanted.KeySchema)) {
    problems.push(`its keys are ${keysText(table.KeySchema)}, and must be ${keysText(wanted.KeySchema)}`);
  }
  for (const index of wanted.GlobalSecondaryIndexes) {
    const found = table.GlobalSecondaryIndexes?.find(({ IndexName }) => IndexName === index.IndexName);
    const keys = keysText(index.KeySchema);
    if (found === undefined) problems.push(`it has no index ${index.IndexName} (${keys})`);
    else if (keysText(found.KeySchema) !== keys) {
      problems.push(`its index ${index.IndexName} has the keys ${keysText(found.KeySchema)}, and must have ${keys}`);
    } else if (index.Projection.ProjectionType === "ALL" && found.Projection?.ProjectionType !== "ALL") {
      problems.push(`its index ${index.IndexName} must project ALL`);
    }
  }
  return problems;
}

export function isExpiring({ TimeToLiveStatus }: DescribedExpiry): boolean {
  return TimeToLiveStatus === "ENABLED" || TimeToLiveStatus === "ENABLING";
}

/** Without expiry, usage and audit events pile up. */
export function expiryProblemsOf({ TimeToLiveStatus, AttributeName }: DescribedExpiry): readonly string[] {
  return isExpiring({ TimeToLiveStatus }) && AttributeName === TTL
    ? []
    : [`items do not expire: turn on TTL on the attribute ${TTL}`];
}

/** Problems for the audit archive, which needs a stream. */
export function streamProblemsOf({ StreamSpecification }: DescribedTable): readonly string[] {
  const { StreamViewType } = StreamSpecification ?? {};
  if (StreamViewType === "NEW_AND_OLD_IMAGES") return [];
  if (StreamViewType === undefined) return ["it has no stream: turn one on with NEW_AND_OLD_IMAGES"];
  return [`its stream has ${StreamViewType}, and must have NEW_AND_OLD_IMAGES`];
}

export function unfitText(name: string, problems: readonly string[]): string {
  return `The table "${name}" cannot be used as it is: ${problems.join("; ")}. Nothing was changed.`;
}

function keysText(keys: DescribedTable["KeySchema"]): string {
  return (keys ?? []).map(({ AttributeName, KeyType }) => `${AttributeName} (${KeyType})`).join(", ");
}
