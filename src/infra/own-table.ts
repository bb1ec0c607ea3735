import { TTL, tableDefinition } from "../adapters/dynamodb/schema.ts";
import { ConflictError, NotFoundError } from "../domain/errors.ts";
import { type AwsPlace, awsFault, openDynamo } from "./aws-clients.ts";

/** A table as far as a stack depends on it. */
export interface TableState {
  readonly name: string;
  readonly status: string;
  readonly deletionProtected: boolean;
  readonly itemCount: number;
  /** What a limiter needs and the table does not have, in words. */
  readonly problems: readonly string[];
  /** What the audit archive needs besides. */
  readonly streamProblems: readonly string[];
}

/** Undefined: there is no such table. */
export async function tableState(place: AwsPlace, name: string): Promise<TableState | undefined> {
  const { sdk, client } = await openDynamo(place);
  try {
    const { Table } = await client.send(new sdk.DescribeTableCommand({ TableName: name }));
    const expiry = await client.send(new sdk.DescribeTimeToLiveCommand({ TableName: name }));
    return {
      name,
      status: Table?.TableStatus ?? "",
      deletionProtected: Table?.DeletionProtectionEnabled === true,
      itemCount: Table?.ItemCount ?? 0,
      problems: problemsOf(Table ?? {}, expiry.TimeToLiveDescription ?? {}),
      streamProblems: streamProblemsOf(Table ?? {}),
    };
  } catch (cause) {
    if (cause instanceof Error && cause.name === "ResourceNotFoundException") return undefined;
    throw awsFault(cause, `look at the table ${name}`);
  } finally {
    client.destroy();
  }
}

/** For a table that the stack does not make: throws unless it is one that a limiter can work on. */
export function requireFit(
  name: string,
  state: TableState | undefined,
  { needsStream }: { readonly needsStream: boolean },
): void {
  if (state === undefined) {
    throw new NotFoundError(
      "table_not_found",
      `There is no table "${name}" in this region; make it, or correct the ARN.`,
    );
  }
  const problems = [...state.problems, ...(needsStream ? state.streamProblems : [])];
  if (problems.length > 0) {
    throw new ConflictError(
      "table_unfit",
      `The table "${name}" cannot be used as it is: ${problems.join("; ")}. Nothing was changed.`,
    );
  }
}

interface Described {
  readonly KeySchema?:
    | readonly { readonly AttributeName?: string | undefined; readonly KeyType?: string | undefined }[]
    | undefined;
  readonly GlobalSecondaryIndexes?:
    | readonly {
        readonly IndexName?: string | undefined;
        readonly KeySchema?: Described["KeySchema"];
        readonly Projection?: { readonly ProjectionType?: string | undefined } | undefined;
      }[]
    | undefined;
  readonly StreamSpecification?: { readonly StreamViewType?: string | undefined } | undefined;
}

/** Every difference from the library's own definition that matters. */
export function problemsOf(
  table: Described,
  expiry: { readonly TimeToLiveStatus?: string | undefined; readonly AttributeName?: string | undefined },
): readonly string[] {
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
  const isOn = expiry.TimeToLiveStatus === "ENABLED" || expiry.TimeToLiveStatus === "ENABLING";
  if (!isOn || expiry.AttributeName !== TTL)
    problems.push(`items do not expire: switch TTL on, on the attribute ${TTL}`);
  return problems;
}

function streamProblemsOf({ StreamSpecification }: Described): readonly string[] {
  const { StreamViewType } = StreamSpecification ?? {};
  if (StreamViewType === "NEW_AND_OLD_IMAGES") return [];
  if (StreamViewType === undefined) return ["it has no stream: switch it on, with NEW_AND_OLD_IMAGES"];
  return [`its stream has ${StreamViewType}, and must have NEW_AND_OLD_IMAGES`];
}

function keysText(keys: Described["KeySchema"]): string {
  return (keys ?? []).map(({ AttributeName, KeyType }) => `${AttributeName} (${KeyType})`).join(", ");
}
