import type { CommandFile, GlobalOptions } from "./command.ts";

/** One command of the tool. */
export interface CommandEntry {
  /** The words that call it. */
  readonly path: readonly string[];
  readonly summary: string;
  readonly load: () => Promise<CommandFile<GlobalOptions>>;
  /** Not shown in help. */
  readonly hidden?: true;
}
