import type { Command } from "commander";
import type { Output, Terminal } from "./output.ts";

/** What every command may be given, before or after its name. */
export interface GlobalOptions {
  readonly store?: string;
  readonly stack?: string;
  readonly namespace?: string;
  readonly region?: string;
  readonly profile?: string;
  /** Of `--endpoint` and `--endpoint-url`. */
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
}

/** What a list may be given besides. */
export interface ListOptions extends GlobalOptions {
  readonly max?: string;
  readonly cursor?: string;
}

/** What a command is given besides its own arguments. */
export interface CommandContext {
  readonly output: Output;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Aborted by SIGINT and SIGTERM: the command ends after what it has in hand. */
  readonly interrupted: AbortSignal;
  readonly terminal: Terminal;
}

/** Commands of one file, by their words: it is loaded only when one of them is called. */
export type CommandGroup = Readonly<Record<string, CommandFile<GlobalOptions>>>;

/** One command. */
export interface CommandFile<Options extends GlobalOptions> {
  /** Adds its arguments, options and examples. */
  configure(command: Command): void;
  /** Does it; answers with the exit code. `args` are those that stand in its usage, in order. */
  run(context: CommandContext, options: Options, args: readonly string[]): Promise<number>;
  /** It goes on until Ctrl-C, which is therefore no interruption. */
  readonly endsByInterrupt?: true;
  /** The same, and for SIGTERM, too: it serves until it is told to stop. */
  readonly endsBySignal?: true;
}

/** The section of help with commands that work when pasted. */
export function examples(...lines: readonly string[]): string {
  return `\nExamples:\n${lines.map((line) => `  $ ${line}`).join("\n")}\n`;
}

/** For options that may be repeated. */
export function repeated(value: string, before: readonly string[] | undefined): readonly string[] {
  return [...(before ?? []), value];
}

/** The two options of every list. */
export function listOptions(command: Command): Command {
  return command
    .option("--max <n>", "at most this many")
    .option("--cursor <cursor>", "continue after a list that --max ended");
}
