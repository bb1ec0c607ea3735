import type { CommandFile, GlobalOptions } from "./command.ts";
import { UsageError } from "./exit-code.ts";

/** Names that other issues will fill, and what they will do. */
export const RESERVED: Readonly<Record<string, string>> = {
  migrate: "bring old table layouts to ours",
};

export function reserved(name: string, what: string): CommandFile<GlobalOptions> {
  return {
    configure: (command) => {
      command.allowUnknownOption().allowExcessArguments();
    },
    run: () => {
      throw new UsageError(`\`zae-limiter ${name}\` is reserved: it will ${what}. This version does not have it yet.`);
    },
  };
}
