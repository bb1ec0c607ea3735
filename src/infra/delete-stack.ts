import { ConflictError, LimiterError, ValidationError } from "../domain/names/errors.ts";
import { COUNTED_MAX, deleteBucket, objectsIn } from "./archive-bucket.ts";
import { type AwsConfig, awsFault, openDynamo } from "./aws-clients.ts";
import { CloudFormation } from "./cloudformation.ts";
import { requireOurs, stackMissing } from "./inspect-stack.ts";
import { type TableState, tableState } from "./own-table.ts";
import { EventTrail, failureText, type StackProgress, settled } from "./stack-wait.ts";
import { structureIn } from "./template.ts";

export interface DeleteRequest {
  readonly name: string;
  /** The table and the archive too, which are kept otherwise. */
  readonly deleteTable: boolean;
  readonly dryRun: boolean;
}

interface DeleteDeps {
  readonly aws: AwsConfig;
  readonly sleep: (ms: number) => Promise<void>;
  readonly requireWanted: () => void;
  readonly onProgress: (event: StackProgress) => void;
  /** Throws where it is not wanted. */
  readonly confirm: (question: string) => Promise<void>;
  readonly note: (text: string) => void;
}

export interface DeletedStack {
  readonly deleted: boolean;
  /** Names of what is left: the table, the archive's bucket. */
  readonly kept: readonly string[];
}

/** What a stack has that holds data. */
interface Holdings {
  readonly table: TableState | undefined;
  readonly bucket: { readonly name: string; readonly objects: number } | undefined;
}

/** Deletes a stack. The table and the archive stay, unless both are asked to go by a question of their own. */
export async function deleteStack(request: DeleteRequest, deps: DeleteDeps): Promise<DeletedStack> {
  const { name, deleteTable, dryRun } = request;
  const { aws, sleep, requireWanted, onProgress } = deps;
  const cloudFormation = await CloudFormation.open(aws, sleep);
  try {
    const stack = await cloudFormation.describe(name);
    if (stack === undefined) throw stackMissing(name);
    requireOurs(stack);
    const own = structureIn(await cloudFormation.template(name).catch(() => undefined))?.tableArn;
    if (own !== undefined && deleteTable) {
      throw new ValidationError(
        "option_invalid",
        `The table ${own} is your own and not part of the stack; leave --delete-table out.`,
      );
    }
    const holdings = await holdingsOf(aws, stack.outputs, own === undefined ? name : undefined);
    if (deleteTable) refuseProtected(name, holdings);
    const names = namesOf(holdings);
    await deps.confirm(
      `Delete the stack ${name} with its functions, alarms, roles and policies?${
        deleteTable || names.length === 0
          ? ""
          : ` ${capitalized(describedIn(holdings))} ${names.length > 1 ? "stay" : "stays"}.`
      }`,
    );
    if (deleteTable && names.length > 0) {
      await deps.confirm(
        `Delete ${describedIn(holdings)} permanently, with everything in ${names.length > 1 ? "them" : "it"}?`,
      );
    }
    if (dryRun) return { deleted: false, kept: deleteTable ? [] : names };
    const waiting = { cloudFormation, sleep, requireWanted, onProgress };
    const trail = await EventTrail.from(waiting, stack);
    await cloudFormation.delete(name);
    const left = await settled(waiting, name, trail);
    if (left !== undefined && left.status !== "DELETE_COMPLETE") {
      throw new LimiterError(
        "delete_failed",
        `The stack "${name}" was not deleted (${left.status}): ${failureText(trail.failures)}. Fix the cause, such as another ` +
          "stack that imports its outputs, and delete it again.",
      );
    }
    if (!deleteTable) return { deleted: true, kept: names };
    await deleteHoldings(aws, holdings, deps.note);
    return { deleted: true, kept: [] };
  } finally {
    cloudFormation.close();
  }
}

async function holdingsOf(
  aws: AwsConfig,
  outputs: Readonly<Record<string, string>>,
  ownedTable: string | undefined,
): Promise<Holdings> {
  const bucket = outputs.AuditArchiveBucketName;
  const objects = bucket === undefined ? undefined : await objectsIn(aws, bucket);
  return {
    table: ownedTable === undefined ? undefined : await tableState(aws, ownedTable),
    bucket: bucket === undefined || objects === undefined ? undefined : { name: bucket, objects },
  };
}

function refuseProtected(name: string, { table }: Holdings): void {
  if (table?.deletionProtected !== true) return;
  throw new ConflictError(
    "deletion_protected",
    `The table "${table.name}" is protected against deletion, and nothing was changed; lift that with ` +
      `\`zae-limiter deploy -n ${name} --no-deletion-protection\`, or leave --delete-table out: the table then stays.`,
  );
}

function namesOf({ table, bucket }: Holdings): readonly string[] {
  return [...(table === undefined ? [] : [table.name]), ...(bucket === undefined ? [] : [bucket.name])];
}

function describedIn({ table, bucket }: Holdings): string {
  const parts = [
    // DynamoDB counts every six hours or so.
    ...(table === undefined ? [] : [`the table ${table.name} (about ${table.itemCount} items)`]),
    ...(bucket === undefined ? [] : [`the archive ${bucket.name} (${countText(bucket.objects)})`]),
  ];
  return parts.join(" and ");
}

function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function countText(objects: number): string {
  if (objects === 0) return "empty";
  return `${objects >= COUNTED_MAX ? `${COUNTED_MAX} or more` : objects} object${objects === 1 ? "" : "s"}`;
}

async function deleteHoldings(
  aws: AwsConfig,
  { table, bucket }: Holdings,
  note: (text: string) => void,
): Promise<void> {
  if (table !== undefined) {
    const { sdk, client } = await openDynamo(aws);
    try {
      await client.send(new sdk.DeleteTableCommand({ TableName: table.name }));
    } catch (cause) {
      throw awsFault(cause, `delete the table ${table.name}`);
    } finally {
      client.destroy();
    }
  }
  if (bucket === undefined) return;
  await deleteBucket(aws, bucket.name, (count) => note(`${count} objects of ${bucket.name} are gone`));
}
