import { expiryProblemsOf, shapeProblemsOf, streamProblemsOf, unfitText } from "../adapters/dynamodb/table-fit.ts";
import { ConflictError, NotFoundError } from "../domain/names/errors.ts";
import { type AwsConfig, awsFault, openDynamo } from "./aws-clients.ts";

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
export async function tableState(aws: AwsConfig, name: string): Promise<TableState | undefined> {
  const { sdk, client } = await openDynamo(aws);
  try {
    const { Table } = await client.send(new sdk.DescribeTableCommand({ TableName: name }));
    const expiry = await client.send(new sdk.DescribeTimeToLiveCommand({ TableName: name }));
    return {
      name,
      status: Table?.TableStatus ?? "",
      deletionProtected: Table?.DeletionProtectionEnabled === true,
      itemCount: Table?.ItemCount ?? 0,
      problems: [...shapeProblemsOf(Table ?? {}), ...expiryProblemsOf(expiry.TimeToLiveDescription ?? {})],
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
      `There is no table "${name}" in this region; create it, or correct the ARN.`,
    );
  }
  const problems = [...state.problems, ...(needsStream ? state.streamProblems : [])];
  if (problems.length > 0) {
    throw new ConflictError("table_unfit", unfitText(name, problems));
  }
}
