import { expiryProblemsOf, shapeProblemsOf, streamProblemsOf, unfitText } from "../adapters/dynamodb/table-fit.ts";
import { ConflictError, NotFoundError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import { type AwsConfig, openDynamo, withAws } from "./aws-clients.ts";
import { CloudFormation, conditionOf, type StackDescription } from "./cloudformation.ts";
import { MANAGER, TAG } from "./stack-names.ts";

/** A stack of zae-limiter in the list of a region. */
interface ListedStack {
  readonly name: string;
  readonly status: string;
  /** The version of the package that deployed it last. */
  readonly version?: string;
  readonly schemaVersion?: string;
  readonly lambdaVersion?: string;
  readonly createdAtMs?: number;
  readonly updatedAtMs?: number;
}

/** A stack as `status` shows it. */
export interface InspectedStack {
  readonly name: string;
  readonly stackStatus: string;
  /** The stack and its table can be used. */
  readonly ready: boolean;
  /** Absent: there is no table. */
  readonly tableStatus?: string;
  readonly table: string;
  readonly outputs: Readonly<Record<string, string>>;
  readonly parameters: Readonly<Record<string, string>>;
  readonly tags: Readonly<Record<string, string>>;
}

/** Stacks made before 0.7 of the original have this before their name, and no tags. */
const OLD_PREFIX = "ZAEL-";

/** Lists the stacks of zae-limiter in a region, by name. */
export async function listStacks(aws: AwsConfig): Promise<readonly ListedStack[]> {
  return opened(aws, async (cloudFormation) => {
    const found: ListedStack[] = [];
    for await (const stack of cloudFormation.all()) if (isOurs(stack)) found.push(listed(stack));
    return found.sort((a, b) => (a.name < b.name ? -1 : 1));
  });
}

export async function inspectStack(aws: AwsConfig, name: string): Promise<InspectedStack> {
  return opened(aws, async (cloudFormation) => {
    const stack = await cloudFormation.describe(name);
    if (stack === undefined) throw stackMissing(name);
    const { status, outputs, parameters, tags } = stack;
    const table = outputs.TableName ?? name;
    const state = await tableState(aws, table);
    return {
      name,
      stackStatus: status,
      ready: conditionOf(status) === "ready" && state?.status === "ACTIVE",
      ...given({ tableStatus: state?.status }),
      ...{ table, outputs, parameters, tags },
    };
  });
}

export function stackMissing(name: string): NotFoundError {
  return new NotFoundError(
    "stack_not_found",
    `There is no stack "${name}" in this region; \`zae-limiter list\` shows all stacks, and ` +
      `\`zae-limiter deploy -n ${name}\` creates it.`,
  );
}

/** Throws unless a tag marks the stack as one of zae-limiter: a mistyped name must not change another stack. */
export function requireOurs({ name, tags }: StackDescription): void {
  if (tags[TAG.managedBy] === MANAGER || name.startsWith(OLD_PREFIX)) return;
  throw new ConflictError(
    "stack_not_ours",
    `The stack "${name}" was not created by zae-limiter (it has no tag ${TAG.managedBy}=${MANAGER}), and nothing was changed; ` +
      "correct the name.",
  );
}

function isOurs({ name, status, tags }: StackDescription): boolean {
  if (conditionOf(status) === "gone") return false;
  if (tags[TAG.managedBy] === MANAGER) return (tags[TAG.type] ?? "limiter") === "limiter";
  return name.startsWith(OLD_PREFIX);
}

function listed({ name, status, tags, createdAtMs, updatedAtMs }: StackDescription): ListedStack {
  const { [TAG.version]: version, [TAG.schemaVersion]: schemaVersion, [TAG.lambdaVersion]: lambdaVersion } = tags;
  return given({ name, status, version, schemaVersion, lambdaVersion, createdAtMs, updatedAtMs });
}

async function opened<Answer>(aws: AwsConfig, work: (client: CloudFormation) => Promise<Answer>): Promise<Answer> {
  const cloudFormation = await CloudFormation.open(aws, async () => {});
  try {
    return await work(cloudFormation);
  } finally {
    cloudFormation.close();
  }
}

/** The properties of a table that a stack depends on. */
export interface TableState {
  readonly name: string;
  readonly status: string;
  readonly deletionProtected: boolean;
  readonly itemCount: number;
  /** The parts that the table lacks for a limiter, in words. */
  readonly problems: readonly string[];
  /** The parts that it lacks besides for the audit archive. */
  readonly streamProblems: readonly string[];
}

/** Reads the state of a table. Undefined: there is no such table. */
export function tableState(aws: AwsConfig, name: string): Promise<TableState | undefined> {
  const call = { what: `look at the table ${name}`, missing: "ResourceNotFoundException" };
  return withAws(openDynamo(aws), call, async ({ sdk, client }) => {
    const { Table = {} } = await client.send(new sdk.DescribeTableCommand({ TableName: name }));
    const expiry = await client.send(new sdk.DescribeTimeToLiveCommand({ TableName: name }));
    return {
      name,
      status: Table.TableStatus ?? "",
      deletionProtected: Table.DeletionProtectionEnabled === true,
      itemCount: Table.ItemCount ?? 0,
      problems: [...shapeProblemsOf(Table), ...expiryProblemsOf(expiry.TimeToLiveDescription ?? {})],
      streamProblems: streamProblemsOf(Table),
    };
  });
}

/** Throws unless a limiter can work on a table that the stack does not make. */
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
