import type { Command } from "commander";
import type { StackWatcher } from "../entry/stack.ts";
import type { AwsConfig } from "../infra/aws-clients.ts";
import type { StackProgress } from "../infra/stack-wait.ts";
import type { CommandContext, GlobalOptions } from "./command.ts";
import { UsageError } from "./exit-code.ts";
import { timeoutOf } from "./on-store.ts";
import { isJson } from "./print.ts";
import { printable } from "./printable.ts";
import { besidesStacks } from "./stack-words.ts";
import { namedTable } from "./store-option.ts";
import { useProfile } from "./stores.ts";

/** What every command on a stack may be given besides. */
export interface StackCommandOptions extends GlobalOptions {
  readonly name?: string;
}

export function nameOption(command: Command): Command {
  return command.option("--name <name>", "the stack, same as --stack");
}

/** `--name`, `--stack` or the environment. `word` is the command, for whoever meant the store. */
export function stackNameOf(options: StackCommandOptions, context: CommandContext, word: string): string {
  const name = stackNameIn(options, context);
  if (name !== undefined) return name;
  throw new UsageError(`No stack is named; give -n NAME, or set ZAEL_STACK. ${besidesStacks(word)}`.trimEnd());
}

/** The same, undefined where none is named. */
export function stackNameIn(options: StackCommandOptions, context: CommandContext): string | undefined {
  const { name, stack } = options;
  if (name !== undefined && stack !== undefined && name !== stack) {
    throw new UsageError(`--name is "${name}" and --stack is "${stack}"; give one.`);
  }
  return name ?? namedTable(options, context)?.stack;
}

export function awsConfigOf(options: GlobalOptions): AwsConfig {
  const { region, endpointUrl } = options;
  useProfile(options);
  return { region, endpoint: endpointUrl, timeoutMs: timeoutOf(options) };
}

/** Tells of what happens to a stack, on a terminal or where nothing else is read from stderr. */
export function watcherOf(context: CommandContext, options: GlobalOptions): StackWatcher {
  const { output, terminal, interrupted } = context;
  const isQuiet = options.quiet === true || (isJson(options) && !terminal.stderr);
  const note = (text: string) => {
    if (!isQuiet) output.note(`${printable(text)}\n`);
  };
  return { signal: interrupted, note, onProgress: (event) => note(progressText(event)) };
}

function progressText({ atMs, logicalId, status, reason }: StackProgress): string {
  const time = atMs === undefined ? "" : `${new Date(atMs).toISOString().slice(11, 19)}  `;
  return `${time}${status.padEnd(20)}  ${logicalId}${reason === undefined ? "" : `  ${reason}`}`;
}
