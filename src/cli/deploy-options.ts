import { type Command, Option } from "commander";
import { ValidationError } from "../domain/names/errors.ts";
import type { StackOptions } from "../infra/stack-options.ts";
import { repeated } from "./command.ts";
import { UsageError } from "./exit-code.ts";
import type { StackCommandOptions } from "./stack-options.ts";
import { isShared } from "./stores.ts";

/** Options of `template`, `deploy` and `update`. */
export interface DeployOptions extends StackCommandOptions {
  readonly iam?: boolean;
  readonly createIamRoles?: boolean;
  readonly trust?: readonly string[];
  readonly permissionBoundary?: string;
  readonly roleNameFormat?: string;
  readonly policyNameFormat?: string;
  readonly aggregatorRoleArn?: string;
  readonly aggregator?: boolean;
  readonly provisioner?: boolean;
  readonly auditArchival?: boolean;
  readonly alarms?: boolean;
  readonly regionalNames?: boolean;
  readonly alarmSnsTopic?: string;
  readonly projection?: "KEYS_ONLY" | "ALL";
  readonly tableArn?: string;
  readonly streamArn?: string;
  readonly kmsKeyArn?: string;
  readonly codeBucket?: string;
  readonly codePrefix?: string;
  readonly deletionProtection?: boolean;
  readonly tracing?: boolean;
  readonly lambdaMemory?: string;
  readonly lambdaTimeout?: string;
  readonly logRetentionDays?: string;
  readonly usageRetentionDays?: string;
  readonly auditArchiveGlacierDays?: string;
  readonly lambdaDurationThresholdPct?: string;
  readonly pitrRecoveryDays?: string;
  readonly tag?: readonly string[];
}

/** What can be switched off, and on again: `--enable-alarms`, `--no-alarms`. */
const SWITCHES = [
  ["iam", "roles and policies"],
  ["aggregator", "the function that archives audit events and sweeps the table"],
  ["provisioner", "the function behind Custom::ZaeLimiterLimits"],
  ["audit-archival", "the bucket for expired audit events"],
  ["alarms", "alarms and dashboard"],
  ["regional-names", "the region in names of roles, policies and the dashboard"],
] as const;

export function deployOptions(command: Command): Command {
  for (const [name, what] of SWITCHES) {
    command.option(`--no-${name}`, `without ${what}`);
    switchedOn(command, name, `--enable-${name}`);
  }
  switchedOn(command, "iam", undefined);
  command
    .option("--create-iam-roles", "roles for applications, administrators and readers")
    .option("--trust <arn>", "who may assume these roles; repeatable", repeated)
    .option("--permission-boundary <policy>", "the permissions boundary of every role: a policy's name or ARN")
    .option("--role-name-format <format>", "names of roles, such as acme-{}")
    .option("--policy-name-format <format>", "names of policies, such as acme-{}")
    .option("--aggregator-role-arn <arn>", "an existing role for the aggregator")
    .option("--alarm-sns-topic <arn>", "the topic for alarms")
    .addOption(new Option("--projection <what>", "the projection of the index GSI2").choices(["KEYS_ONLY", "ALL"]))
    .option("--table-arn <arn>", "use your own table: everything but the table is created")
    .option("--stream-arn <arn>", "the stream of that table")
    .option("--kms-key-arn <arn>", "a key of your own for table, archive, queue, logs and functions")
    .option("--enable-deletion-protection", "the table refuses to be deleted")
    .option("--no-deletion-protection", "the table can be deleted")
    .option("--lambda-memory <mb>", "memory of the aggregator; default 256")
    .option("--lambda-timeout <seconds>", "how long it may run; default 900")
    .option("--log-retention-days <days>", "how long logs are kept; default 30")
    .option("--usage-retention-days <days>", "how long usage is kept, in every namespace; default 90")
    .option("--audit-archive-glacier-days <days>", "when archived events move to Glacier; default 90")
    .option("--lambda-duration-threshold-pct <percent>", "percentage of its timeout that raises an alarm; default 80")
    .option("--enable-tracing", "X-Ray for the functions")
    .option("--pitr-recovery-days <days>", "how far back the table can be restored; default 35")
    .option("-t, --tag <key=value>", "a tag of the stack; repeatable", repeated);
  switchedOn(command, "deletion-protection", undefined);
  command.addOption(new Option("--no-tracing").hideHelp()).addOption(new Option("--no-create-iam-roles").hideHelp());
  switchedOn(command, "tracing", undefined);
  return command;
}

/**
 * The bare positive form has to be there for a switch to have no value unless it is given; the one with `enable` is how the original
 * says it.
 */
function switchedOn(command: Command, name: string, shown: string | undefined): void {
  const has = (long: string) => command.options.some((option) => option.long === long);
  if (!has(`--${name}`)) command.addOption(new Option(`--${name}`).hideHelp());
  if (shown !== undefined && !has(shown)) command.addOption(new Option(shown, "and with it again").hideHelp());
}

const NUMBERS = [
  ...(["lambdaMemory", "lambdaTimeout", "logRetentionDays", "usageRetentionDays"] as const),
  ...(["auditArchiveGlacierDays", "lambdaDurationThresholdPct", "pitrRecoveryDays"] as const),
];

const TEXTS = [
  ...(["trust", "permissionBoundary", "roleNameFormat", "policyNameFormat", "aggregatorRoleArn"] as const),
  ...(["alarmSnsTopic", "projection", "tableArn", "streamArn", "kmsKeyArn", "codeBucket", "codePrefix"] as const),
];

/** What was given, and nothing else. */
export function stackOptionsOf(
  options: DeployOptions,
  env: Readonly<Record<string, string | undefined>>,
): StackOptions {
  const given: Record<string, unknown> = {};
  for (const name of TEXTS) if (options[name] !== undefined) given[name] = options[name];
  for (const name of NUMBERS) {
    const text = options[name];
    if (text === undefined) continue;
    if (!/^\d{1,9}$/.test(text)) throw new UsageError(`${flagOf(name)} is "${text}"; give a whole number.`);
    given[name] = Number(text);
  }
  const enabled = options as Readonly<Record<string, unknown>>;
  for (const name of [...SWITCHES.map(([name]) => camel(name)), "deletionProtection", "tracing"]) {
    const on = enabled[`enable${name.charAt(0).toUpperCase()}${name.slice(1)}`] === true;
    if (on && enabled[name] === false) {
      throw new UsageError(`--enable-${kebab(name)} and --no-${kebab(name)} are given; give one.`);
    }
    const value = on ? true : enabled[name];
    if (value !== undefined) given[name] = value;
  }
  if (options.createIamRoles !== undefined) given.createIamRoles = options.createIamRoles;
  if (isShared(options, env)) given.sharedTable = true;
  return given as StackOptions;
}

export function tagsOf({ tag = [] }: DeployOptions): Readonly<Record<string, string>> {
  return Object.fromEntries(
    tag.map((text) => {
      const at = text.indexOf("=");
      if (at < 1) throw new UsageError(`--tag is "${text}"; give KEY=VALUE.`);
      return [text.slice(0, at), text.slice(at + 1)];
    }),
  );
}

/** Names of options in messages as they are written here. */
export async function inFlags<Answer>(work: () => Answer | Promise<Answer>): Promise<Answer> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ValidationError) || error.code !== "option_invalid") throw error;
    const names = [...NUMBERS, ...TEXTS, ...["createIamRoles", "deletionProtection", "auditArchival"]];
    const pattern = new RegExp(`(?<![\\w-])(${names.join("|")})(?=[ ,;:]|\\b)`, "g");
    const message = error.message.replace("`iam: false`", "--no-iam").replace(pattern, flagOf);
    throw new UsageError(message);
  }
}

function flagOf(name: string): string {
  return `--${kebab(name)}`;
}

function camel(name: string): string {
  return name.replace(/-[a-z]/g, (letter) => letter.slice(1).toUpperCase());
}

function kebab(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
