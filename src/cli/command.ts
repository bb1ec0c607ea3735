import type { Command } from "commander";
import type { Output } from "./output.ts";

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
  readonly quiet?: boolean;
  readonly debug?: boolean;
}

/** What a command is given besides its own arguments. */
export interface CommandContext {
  readonly output: Output;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Aborted by SIGINT and SIGTERM: the command ends after what it has in hand. */
  readonly interrupted: AbortSignal;
}

/** One command, in a file of its own that is loaded only when it is called. */
export interface CommandFile<Options extends GlobalOptions> {
  /** It goes on until Ctrl-C, which is then no interruption but its end. */
  readonly endsByInterrupt?: true;
  /** Adds its arguments, options and examples. */
  configure(command: Command): void;
  /** Does it; answers with the exit code. */
  run(context: CommandContext, options: Options): Promise<number>;
}

/** The section of help with commands that work when pasted. */
export function examples(...lines: readonly string[]): string {
  return `\nExamples:\n${lines.map((line) => `  $ ${line}`).join("\n")}\n`;
}
