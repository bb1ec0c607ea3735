import { ValidationError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import type { StackWatcher } from "../entry/stack.ts";
import type { StackChange } from "../infra/stack-changes.ts";
import type { StackOptions } from "../infra/stack-options.ts";
import type { StackProgress } from "../infra/stack-wait.ts";
import type { CommandContext, OptionRow } from "./command.ts";
import { besidesStacks, UsageError } from "./exit-code.ts";
import { isJson } from "./print.ts";
import { namedTable } from "./store-option.ts";
import { isShared } from "./stores.ts";
import { type Paint, printable } from "./table.ts";
import { kebab } from "./values.ts";

/** The option of every command on a stack. */
export const NAME_OPTION = ["--name <name>", "the stack, same as --stack"] as const satisfies OptionRow;

interface NamedStack {
  readonly name?: string;
}

/** `--name`, `--stack` or the environment. `word` is the command, for the message if a store was meant. */
export function stackNameOf(context: CommandContext, named: NamedStack, word: string): string {
  const name = stackNameIn(context, named);
  if (name !== undefined) return name;
  throw new UsageError(`No stack is named; give -n NAME, or set ZAEL_STACK. ${besidesStacks(word)}`.trimEnd());
}

/** The name of the stack; undefined: none is named. */
export function stackNameIn(context: CommandContext, { name }: NamedStack): string | undefined {
  const { stack } = context.options;
  if (name !== undefined && stack !== undefined && name !== stack) {
    throw new UsageError(`--name is "${name}" and --stack is "${stack}"; give one.`);
  }
  return name ?? namedTable(context)?.stack;
}

/** Notes the progress of a stack, on a terminal or where nothing else is read from stderr. */
export function watcherOf(context: CommandContext): StackWatcher {
  const { output, terminal, interrupted } = context;
  const isQuiet = context.options.quiet === true || (isJson(context) && !terminal.stderr);
  const note = (text: string) => {
    if (!isQuiet) output.note(`${printable(text)}\n`);
  };
  return { signal: interrupted, note, onProgress: (event) => note(progressText(event)) };
}

function progressText({ atMs, logicalId, status, reason }: StackProgress): string {
  const time = atMs === undefined ? "" : `${new Date(atMs).toISOString().slice(11, 19)}  `;
  return `${time}${status.padEnd(20)}  ${logicalId}${reason === undefined ? "" : `  ${reason}`}`;
}

/** Options of `template`, `deploy` and `update`, which the stack gets by their names. */
export interface DeployOptions extends NamedStack {
  readonly tag?: readonly string[];
  readonly [name: string]: unknown;
}

/** Parts of a stack that can be switched off, and on again: `--no-alarms`, `--enable-alarms`. */
const SWITCHES = [
  ["iam", "roles and policies"],
  ["aggregator", "the function that archives audit events and sweeps the table"],
  ["provisioner", "the function behind Custom::ZaeLimiterLimits"],
  ["auditArchival", "the bucket for expired audit events"],
  ["alarms", "alarms and dashboard"],
  ["regionalNames", "the region in names of roles, policies and the dashboard"],
] as const;

/** `switch`: it is read with SWITCHES. */
type StackRow = readonly [name: string, value: string, about: string, kind: "text" | "number" | "list" | "switch"];

const OPTIONS: readonly StackRow[] = [
  ["createIamRoles", "", "roles for applications, administrators and readers", "text"],
  ["trust", " <arn>", "who may assume these roles; repeatable", "list"],
  ["permissionBoundary", " <policy>", "the permissions boundary of every role: a policy's name or ARN", "text"],
  ["roleNameFormat", " <format>", "names of roles, such as acme-{}", "text"],
  ["policyNameFormat", " <format>", "names of policies, such as acme-{}", "text"],
  ["aggregatorRoleArn", " <arn>", "an existing role for the aggregator", "text"],
  ["alarmSnsTopic", " <arn>", "the topic for alarms", "text"],
  ["projection", " <what>", "the projection of the index GSI2", "text"],
  ["tableArn", " <arn>", "use your own table: everything but the table is created", "text"],
  ["streamArn", " <arn>", "the stream of that table", "text"],
  ["kmsKeyArn", " <arn>", "a key of your own for table, archive, queue, logs and functions", "text"],
  ["enableDeletionProtection", "", "the table refuses to be deleted", "switch"],
  ["noDeletionProtection", "", "the table can be deleted", "switch"],
  ["lambdaMemory", " <mb>", "memory of the aggregator; default 256", "number"],
  ["lambdaTimeout", " <seconds>", "how long it may run; default 900", "number"],
  ["logRetentionDays", " <days>", "how long logs are kept; default 30", "number"],
  ["usageRetentionDays", " <days>", "how long usage is kept, in every namespace; default 90", "number"],
  ["auditArchiveGlacierDays", " <days>", "when archived events move to Glacier; default 90", "number"],
  ["lambdaDurationThresholdPct", " <percent>", "percentage of its timeout that raises an alarm; default 80", "number"],
  ["enableTracing", "", "X-Ray for the functions", "switch"],
  ["pitrRecoveryDays", " <days>", "how far back the table can be restored; default 35", "number"],
];

/** Options of `template` alone. */
const CODE_OPTIONS: readonly StackRow[] = [
  ["codeBucket", " <bucket>", "the bucket with the functions' code: aggregator.zip, provisioner.zip", "text"],
  ["codePrefix", " <prefix>", "a prefix of these names, different for each version", "text"],
];

/**
 * A switch has a bare positive form, too: without it the parser would give the switch a value that was not typed. The form with `enable` is
 * the original's.
 */
export const DEPLOY_OPTIONS: readonly OptionRow[] = [
  NAME_OPTION,
  ...SWITCHES.flatMap(([name, what]): readonly OptionRow[] => [
    [`--no-${kebab(name)}`, `without ${what}`],
    [`--${kebab(name)}`, "", "hidden"],
    [`--enable-${kebab(name)}`, "", "hidden"],
  ]),
  ...OPTIONS.map(rowOf),
  ["-t, --tag <key=value>", "a tag of the stack; repeatable", "list"],
  ...["--deletion-protection", "--no-tracing", "--no-create-iam-roles", "--tracing"].map(
    (flag) => [flag, "", "hidden"] as const,
  ),
];

export const TEMPLATE_OPTIONS: readonly OptionRow[] = [...DEPLOY_OPTIONS, ...CODE_OPTIONS.map(rowOf)];

function rowOf([name, value, about, kind]: StackRow): OptionRow {
  const flags = `${flagOf(name)}${value}`;
  if (name === "projection") return [flags, about, { choices: ["KEYS_ONLY", "ALL"] }];
  return kind === "list" ? [flags, about, "list"] : [flags, about];
}

const SWITCH_NAMES = [...SWITCHES.map(([name]) => name), "deletionProtection", "tracing"];

/** The options that were given, and nothing else. */
export function stackOptionsOf(context: CommandContext, options: DeployOptions): StackOptions {
  const found: Record<string, unknown> = {};
  for (const [name, , , kind] of [...OPTIONS, ...CODE_OPTIONS]) {
    const value = options[name];
    if (kind === "switch" || value === undefined) continue;
    if (kind === "number" && !/^\d{1,9}$/.test(String(value))) {
      throw new UsageError(`${flagOf(name)} is "${value}"; give a whole number.`);
    }
    found[name] = kind === "number" ? Number(value) : value;
  }
  for (const name of SWITCH_NAMES) {
    const isOn = options[`enable${name.charAt(0).toUpperCase()}${name.slice(1)}`] === true;
    if (isOn && options[name] === false) {
      throw new UsageError(`--enable-${kebab(name)} and --no-${kebab(name)} are given; give one.`);
    }
    found[name] = isOn ? true : options[name];
  }
  if (isShared(context)) found.sharedTable = true;
  return given(found) as StackOptions;
}

/** Does the work; messages of the library name its options as flags. */
export async function inFlags<Answer>(work: () => Answer | Promise<Answer>): Promise<Answer> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ValidationError) || error.code !== "option_invalid") throw error;
    const names = [...OPTIONS, ...CODE_OPTIONS].map(([name]) => name).concat("deletionProtection", "auditArchival");
    const pattern = new RegExp(`(?<![\\w-])(${names.join("|")})(?=[ ,;:]|\\b)`, "g");
    const message = error.message.replace("`iam: false`", "--no-iam").replace(pattern, flagOf);
    throw new UsageError(message);
  }
}

function flagOf(name: string): string {
  return `--${kebab(name)}`;
}

const MARKS = { Add: "+", Modify: "~", Remove: "-", Import: "+", Dynamic: "~" } as const;
const COLORS = { Add: "green", Modify: "yellow", Remove: "red", Import: "green", Dynamic: "yellow" } as const;

/** A line for each change: the resource, and old -> new. */
export function changesText(changes: readonly StackChange[], paint: Paint): string {
  return changes.map((change) => `${lineOf(change, paint)}\n`).join("");
}

function lineOf({ action, logicalId, type, replacement, from, to }: StackChange, paint: Paint): string {
  const what = type === undefined ? logicalId : `${logicalId} (${type})`;
  const anew = replacement === "True" ? ", replaced" : replacement === "Conditional" ? ", perhaps replaced" : "";
  const values = from === undefined && to === undefined ? "" : `: ${valueText(from)} -> ${valueText(to)}`;
  return printable(`${MARKS[action]} ${what}${anew}${values}`).replace(/^./, (mark) => paint(COLORS[action], mark));
}

function valueText(value: unknown): string {
  if (value === undefined) return "nothing";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > 120 ? `${text.slice(0, 117)}...` : text;
}
