import { ConflictError, NotFoundError } from "../domain/names/errors.ts";
import type { AwsConfig } from "./aws-clients.ts";
import { CloudFormation, type StackDescription } from "./cloudformation.ts";
import { tableState } from "./own-table.ts";
import { conditionOf } from "./stack-status.ts";
import { MANAGER, TAG } from "./stack-tags.ts";

/** A stack of ours among others. */
interface ListedStack {
  readonly name: string;
  readonly status: string;
  /** Of the package that deployed it last. */
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

/** All stacks of ours in a region, by name. */
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
      ...{ name, stackStatus: status, ready: conditionOf(status) === "ready" && state?.status === "ACTIVE" },
      ...(state === undefined ? {} : { tableStatus: state.status }),
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

/** Whose it is says a tag: whoever mistypes a name must not change another's stack. */
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
  const versions = {
    version: tags[TAG.version],
    schemaVersion: tags[TAG.schemaVersion],
    lambdaVersion: tags[TAG.lambdaVersion],
  };
  const known = Object.entries({ ...versions, createdAtMs, updatedAtMs }).filter(([, value]) => value !== undefined);
  return { name, status, ...Object.fromEntries(known) };
}

async function opened<Answer>(aws: AwsConfig, work: (client: CloudFormation) => Promise<Answer>): Promise<Answer> {
  const cloudFormation = await CloudFormation.open(aws, async () => {});
  try {
    return await work(cloudFormation);
  } finally {
    cloudFormation.close();
  }
}
