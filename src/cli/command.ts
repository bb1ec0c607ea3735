import { type Command, Option } from "commander";
import type { Output, Terminal } from "./output.ts";

/** Options of every command, before or after its name. */
export interface GlobalOptions {
  readonly store?: string;
  readonly stack?: string;
  readonly namespace?: string;
  readonly region?: string;
  readonly profile?: string;
  /** `--endpoint` or `--endpoint-url`. */
  readonly endpointUrl?: string;
  readonly sharedTable?: boolean;
  readonly json?: boolean;
  readonly ndjson?: boolean;
  readonly principal?: string;
  readonly yes?: boolean;
  readonly dryRun?: boolean;
  readonly quiet?: boolean;
  readonly color?: string;
  readonly timeout?: string;
  readonly debug?: boolean;
  readonly url?: string;
  readonly tokenFile?: string;
  /** `--max` and `--cursor` are options of every list. */
  readonly max?: string;
  readonly cursor?: string;
}

/** The surroundings of a command: its global options, where it writes, its environment, its signals. */
export interface CommandContext {
  readonly options: GlobalOptions;
  readonly output: Output;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Aborted by SIGINT and SIGTERM: the command ends after the step that it is in. */
  readonly interrupted: AbortSignal;
  readonly terminal: Terminal;
}

/** One option: its flags, its help, and how it is read if it is neither a flag nor a single text. */
export type OptionRow = readonly [flags: string, about: string, kind?: OptionKind];

/** `list`: the option may be repeated. `hidden`: the help does not show it. */
type OptionKind = "list" | "hidden" | { readonly default?: string; readonly choices?: readonly string[] };

/** The parsed options of some rows: `--leave-percent <n>` is `leavePercent`, a text. */
export type OptionsOf<Rows extends readonly OptionRow[]> = {
  readonly [Row in Rows[number] as NameOf<LongFlag<Row[0]>>]?: ValueOf<Row>;
} & {
  readonly [Row in Extract<Rows[number], readonly [string, string, { readonly default: string }]> as NameOf<
    LongFlag<Row[0]>
  >]: string;
};

/** The last long flag, without its dashes: `start` of `--from, --start <instant>`. */
type LongFlag<Flags extends string> = Flags extends `${string}--${infer Rest}`
  ? LongFlag<Rest>
  : Flags extends `${infer Word} ${string}`
    ? Word
    : Flags;

type NameOf<Flag extends string> = Flag extends `no-${infer Rest}` ? Camel<Rest> : Camel<Flag>;

type Camel<Flag extends string> = Flag extends `${infer Word}-${infer Rest}`
  ? `${Word}${Capitalize<Camel<Rest>>}`
  : Flag;

type ValueOf<Row extends OptionRow> = Row extends readonly [`${string}<${string}`, string, "list"]
  ? readonly string[]
  : Row extends readonly [`${string}<${string}`, ...unknown[]]
    ? string
    : boolean;

/** The arguments and options of a command, and the texts of its help. */
export interface Usage<Rows extends readonly OptionRow[] = readonly OptionRow[]> {
  /** Each has its name in brackets, and what it is. */
  readonly arguments?: readonly (readonly [name: string, about: string])[];
  /** More arguments than these reach the command, which refuses them in its own words. */
  readonly refusesExcess?: true;
  readonly options?: Rows;
  /** Commands that work when pasted. The name of the tool is put before those that do not have it. */
  readonly examples?: readonly string[];
  /** Exit codes and other remarks, a paragraph each. */
  readonly notes?: readonly string[];
}

export interface CommandRow<Rows extends readonly OptionRow[] = readonly OptionRow[]> extends Usage<Rows> {
  /** Runs the command and answers with the exit code. `options` and `args` are those of its usage, in order. */
  run(context: CommandContext, options: OptionsOf<Rows>, args: readonly string[]): Promise<number>;
  /** The command goes on until Ctrl-C, which is therefore no interruption. */
  readonly endsByInterrupt?: true;
  /** The command serves until Ctrl-C or SIGTERM, which are therefore no interruptions. */
  readonly endsBySignal?: true;
}

/** Commands of one file, by their words: it is loaded only when one of them is called. */
export type CommandGroup = Readonly<Record<string, CommandRow>>;

/** Types the options of a command by their rows. */
export function command<const Rows extends readonly OptionRow[] = readonly []>(
  row: CommandRow<Rows>,
): CommandRow<Rows> {
  return row;
}

/** Gives the parser's command what its row says. */
export function describe(parsed: Command, row: Usage): void {
  for (const [name, about] of row.arguments ?? []) parsed.argument(name, about);
  if (row.refusesExcess) parsed.allowExcessArguments();
  for (const option of row.options ?? []) parsed.addOption(parserOption(option));
  const lines = (row.examples ?? []).map((line) => `  $ ${/zae-limiter/.test(line) ? line : `zae-limiter ${line}`}\n`);
  if (lines.length > 0) parsed.addHelpText("after", `\nExamples:\n${lines.join("")}`);
  for (const note of row.notes ?? []) parsed.addHelpText("after", `\n${note}\n`);
}

function parserOption([flags, about, kind]: OptionRow): Option {
  const option = new Option(flags, about);
  if (kind === undefined) return option;
  if (kind === "hidden") return option.hideHelp();
  if (kind === "list") {
    return option.argParser((value: string, before: readonly string[] | undefined) => [...(before ?? []), value]);
  }
  if (kind.choices !== undefined) option.choices(kind.choices);
  return option.default(kind.default);
}

/** The options of every list; their values are global options. */
export const LIST_OPTIONS = [
  ["--max <n>", "at most this many"],
  ["--cursor <cursor>", "continue after a list that --max ended"],
] as const satisfies readonly OptionRow[];

export const SCOPE_OPTIONS = [
  ["-e, --entity <id>", "only this entity"],
  ["-r, --resource <resource>", "only this resource"],
] as const satisfies readonly OptionRow[];

/** The original's spelling of `-e`. */
export const ENTITY_ID = ["--entity-id <id>", "", "hidden"] as const satisfies OptionRow;

/** Further parts of a request. */
export const ALSO = [
  "--also <resource:name=n>",
  "the same for another resource, or with RESOURCE@ENTITY for another entity; all or nothing; repeated",
  "list",
] as const satisfies OptionRow;

/** The way past `requireKnown`. */
export const ALLOW_UNKNOWN = [
  "--allow-unknown",
  "accept an entity or resource that does not exist yet",
] as const satisfies OptionRow;

/** The arguments of a command about one bucket. */
export const BUCKET_ARGUMENTS = [
  ["<entity>", "the entity"],
  ["<resource>", "the resource"],
] as const;
