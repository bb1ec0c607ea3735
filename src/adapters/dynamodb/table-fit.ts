import { TTL, tableDefinition } from "./schema.ts";

/** As much of what DescribeTable answers as a limiter depends on. */
export interface DescribedTable {
  readonly KeySchema?:
    | readonly { readonly AttributeName?: string | undefined; readonly KeyType?: string | undefined }[]
    | undefined;
  readonly GlobalSecondaryIndexes?:
    | readonly {
        readonly IndexName?: string | undefined;
        readonly KeySchema?: DescribedTable["KeySchema"];
        readonly Projection?: { readonly ProjectionType?: string | undefined } | undefined;
      }[]
    | undefined;
  readonly StreamSpecification?: { readonly StreamViewType?: string | undefined } | undefined;
}

/** The same of DescribeTimeToLive. */
export interface DescribedExpiry {
  readonly TimeToLiveStatus?: string | undefined;
  readonly AttributeName?: string | undefined;
}

/** Differences of keys and indexes from the library's own definition, in words: with any of them no limiter can work. */
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

/** Without expiry nothing is ever removed: usage and audit events pile up. */
export function expiryProblemsOf({ TimeToLiveStatus, AttributeName }: DescribedExpiry): readonly string[] {
  const isOn = TimeToLiveStatus === "ENABLED" || TimeToLiveStatus === "ENABLING";
  return isOn && AttributeName === TTL ? [] : [`items do not expire: turn on TTL on the attribute ${TTL}`];
}

/** What the audit archive needs besides. */
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
