import { noteLambdaVersion, setUpTable, versionOf } from "../adapters/dynamodb/table-admin.ts";
import { checkVersion, ownLambdaVersion } from "../adapters/dynamodb/version.ts";
import { systemClock } from "../adapters/system/clock.ts";
import { systemRandom } from "../adapters/system/random.ts";
import type { AwsConfig } from "../infra/aws-clients.ts";
import { type DeletedStack, type DeleteRequest, deleteStack as deleteWith } from "../infra/delete-stack.ts";
import { type Deployed, type DeployRequest, deploy as deployWith } from "../infra/deploy.ts";
import { Functions } from "../infra/functions.ts";
import { type InspectedStack, inspectStack } from "../infra/inspect-stack.ts";
import type { StackChange } from "../infra/stack-changes.ts";
import type { StackProgress } from "../infra/stack-wait.ts";
import { administered } from "./dynamodb-admin.ts";
import type { DynamoTable } from "./dynamodb-options.ts";
import { type LambdaName, lambdaCode } from "./lambda-code.ts";
import { packageVersion } from "./package-version.ts";
import { RateLimiter } from "./rate-limiter.ts";

/** Who watches a change of a stack. */
export interface StackWatcher {
  readonly onProgress: (event: StackProgress) => void;
  readonly note: (text: string) => void;
  /** Ends the waiting; what was begun goes on without anybody. */
  readonly signal: AbortSignal;
}

/** Makes or changes a stack, uploads its code and sets up its table. */
export async function deployStack(
  request: DeployRequest,
  aws: AwsConfig,
  watcher: StackWatcher & { readonly confirm: (changes: readonly StackChange[]) => Promise<void> },
): Promise<Deployed> {
  const version = packageVersion();
  const { usageRetentionDays } = request.options;
  return deployWith(request, {
    ...{ aws, version, code: lambdaCode, ...waitingFor(watcher), confirm: watcher.confirm },
    // Names of change sets have letters, digits and hyphens.
    newName: () => `zae-limiter-${systemRandom.id().replace(/[^a-zA-Z0-9]/g, "-")}x`,
    checkTable: (table) => requireCurrent(tableAt(table, aws), request.options.sharedTable === true),
    prepare: async (table, options, hasFunctions) => {
      const way = tableAt(table, aws);
      await administered(way, async (admin) => {
        // Expiry of one's own table was looked at before; the stack's has it by its template.
        await setUpTable(admin, { needsExpiry: false });
        if (hasFunctions) await noteLambdaVersion(admin);
      });
      if (usageRetentionDays !== undefined) {
        await keepUsage(way, { days: usageRetentionDays, sharedTable: options.sharedTable });
      }
    },
  });
}

export async function deleteStack(
  request: DeleteRequest,
  aws: AwsConfig,
  watcher: StackWatcher & { readonly confirm: (question: string) => Promise<void> },
): Promise<DeletedStack> {
  const { confirm, note } = watcher;
  return deleteWith(request, { aws, ...waitingFor(watcher), confirm, note });
}

/** Versions of what works together; absent: nobody says. */
export interface StackVersions {
  /** Of this package. */
  readonly client: string;
  /** The layout of the table's items. */
  readonly schema?: string;
  /** Of the package whose code the functions have. */
  readonly lambda?: string;
}

export async function stackStatus(
  name: string,
  aws: AwsConfig,
): Promise<InspectedStack & { readonly versions: StackVersions }> {
  const stack = await inspectStack(aws, name);
  return { ...stack, versions: await versionsOf(stack.table, aws) };
}

export async function versionsOf(table: string, aws: AwsConfig): Promise<StackVersions & { clientMin?: string }> {
  const record = await administered(tableAt(table, aws), versionOf);
  const lambda = record === undefined ? undefined : ownLambdaVersion(record);
  return {
    client: packageVersion(),
    ...(record === undefined ? {} : { schema: record.schemaVersion, clientMin: record.clientMinVersion }),
    ...(lambda === undefined ? {} : { lambda }),
  };
}

/**
 * Of which version the code of a stack's functions is, by their names; undefined: of none that anybody knows. The code itself counts: tags of a
 * stack are its functions' before their code is uploaded, and say what was to be there.
 */
export async function functionVersions(
  names: Readonly<Partial<Record<LambdaName, string>>>,
  aws: AwsConfig,
): Promise<Readonly<Record<string, string | undefined>>> {
  const functions = await Functions.open(aws, (ms) => systemClock.sleep(ms, undefined));
  try {
    const own = packageVersion();
    const versions = await Promise.all(
      (Object.entries(names) as [LambdaName, string][]).map(async ([which, name]) => {
        const [state, { sha256 }] = await Promise.all([functions.state(name), lambdaCode(which)]);
        if (state?.sha256 === sha256) return [name, own] as const;
        return [name, state?.version === own ? undefined : state?.version] as const;
      }),
    );
    return Object.fromEntries(versions);
  } finally {
    functions.close();
  }
}

/** Throws where this version cannot work on the table. */
export async function requireWorkable(table: string, aws: AwsConfig, shared: boolean): Promise<void> {
  checkVersion(await administered(tableAt(table, aws), versionOf), { name: table, shared });
}

/** A table that is older, or the original's, is not touched. One without a record is new. */
async function requireCurrent(way: DynamoTable, shared: boolean): Promise<void> {
  const record = await administered(way, versionOf);
  if (record !== undefined) checkVersion(record, { name: way.stack, shared });
}

/** It is a setting of each namespace; those that are there get it. */
async function keepUsage(
  { stack, ...way }: DynamoTable,
  { days, sharedTable }: { readonly days: number; readonly sharedTable: boolean },
): Promise<void> {
  const limiter = await RateLimiter.open({ store: `dynamodb:${stack}`, ...way, sharedTable, timeoutMs: 10_000 });
  try {
    for await (const { name } of limiter.listNamespaces({ limit: 100 })) {
      const tenant = limiter.namespace(name);
      const { limits, usageKeptDays, ...others } = await tenant.getSystemDefaults();
      if (usageKeptDays !== days) await tenant.setSystemDefaults(limits, { ...others, usageKeptDays: days });
    }
  } finally {
    await limiter.close();
  }
}

function tableAt(stack: string, { region, endpoint }: AwsConfig): DynamoTable {
  return { stack, ...(region === undefined ? {} : { region }), ...(endpoint === undefined ? {} : { endpoint }) };
}

function waitingFor({ onProgress, signal }: StackWatcher) {
  return {
    onProgress,
    sleep: (ms: number) => systemClock.sleep(ms, signal),
    requireWanted: () => signal.throwIfAborted(),
  };
}
