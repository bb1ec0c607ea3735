import { ConflictError, LimiterError, ValidationError } from "../domain/names/errors.ts";
import { type AwsConfig, openDynamo, openS3, withAws } from "./aws-clients.ts";
import { CloudFormation } from "./cloudformation.ts";
import { requireOurs, stackMissing, type TableState, tableState } from "./inspect-stack.ts";
import { EventTrail, failureText, type StackProgress, untilSettled } from "./stack-wait.ts";
import { structureIn } from "./template.ts";

export interface DeleteRequest {
  readonly name: string;
  /** True: the table and the archive are deleted too; they are kept otherwise. */
  readonly deleteTable: boolean;
  readonly dryRun: boolean;
}

interface DeleteDeps {
  readonly aws: AwsConfig;
  readonly sleep: (ms: number) => Promise<void>;
  readonly requireWanted: () => void;
  readonly onProgress: (event: StackProgress) => void;
  /** Throws if the user does not want it. */
  readonly confirm: (question: string) => Promise<void>;
  readonly note: (text: string) => void;
}

export interface DeletedStack {
  readonly deleted: boolean;
  /** Names of the table and the archive's bucket, if they are left. */
  readonly kept: readonly string[];
}

/** The parts of a stack that hold data. */
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
          : ` ${capitalized(describe(holdings))} ${names.length > 1 ? "stay" : "stays"}.`
      }`,
    );
    if (deleteTable && names.length > 0) {
      await deps.confirm(
        `Delete ${describe(holdings)} permanently, with everything in ${names.length > 1 ? "them" : "it"}?`,
      );
    }
    if (dryRun) return { deleted: false, kept: deleteTable ? [] : names };
    const waiting = { cloudFormation, sleep, requireWanted, onProgress };
    const trail = await EventTrail.from(waiting, stack);
    await cloudFormation.delete(name);
    const left = await untilSettled(waiting, name, trail);
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

function describe({ table, bucket }: Holdings): string {
  const parts = [
    // DynamoDB updates the count about every six hours.
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
    await withAws(openDynamo(aws), { what: `delete the table ${table.name}` }, ({ sdk, client }) =>
      client.send(new sdk.DeleteTableCommand({ TableName: table.name })),
    );
  }
  if (bucket === undefined) return;
  await deleteBucket(aws, bucket.name, (count) => note(`${count} objects of ${bucket.name} are gone`));
}

const COUNTED_MAX = 1_000;

/** Counts the objects in a bucket, up to a thousand. Undefined: there is no such bucket. */
function objectsIn(aws: AwsConfig, bucket: string): Promise<number | undefined> {
  return withAws(openS3(aws), { what: `look into the bucket ${bucket}`, missing: "NoSuchBucket" }, async (opened) => {
    const { sdk, client } = opened;
    const { KeyCount = 0 } = await client.send(new sdk.ListObjectsV2Command({ Bucket: bucket, MaxKeys: COUNTED_MAX }));
    return KeyCount;
  });
}

/** Deletes a bucket with everything in it, including old versions and delete markers. */
async function deleteBucket(aws: AwsConfig, bucket: string, onDeleted: (count: number) => void): Promise<void> {
  await withAws(openS3(aws), { what: `delete the bucket ${bucket}` }, async ({ sdk, client }) => {
    for (let count = 0; ; onDeleted(count)) {
      const { Versions = [], DeleteMarkers = [] } = await client.send(
        new sdk.ListObjectVersionsCommand({ Bucket: bucket }),
      );
      const Objects = [...Versions, ...DeleteMarkers].map(({ Key, VersionId }) => ({ Key, VersionId }));
      if (Objects.length === 0) break;
      await client.send(new sdk.DeleteObjectsCommand({ Bucket: bucket, Delete: { Objects, Quiet: true } }));
      count += Objects.length;
    }
    await client.send(new sdk.DeleteBucketCommand({ Bucket: bucket }));
  });
}
