import type { CommandFile, GlobalOptions } from "./command.ts";
import { UsageError } from "./exit-code.ts";

/** Names that other issues will fill, and what they will do. */
export const RESERVED: Readonly<Record<string, string>> = {
  deploy: "make the stack",
  update: "change the stack",
  upgrade: "change the stack",
  delete: "delete the stack",
  status: "tell of the stack",
  list: "list all stacks",
  check: "compare the versions of client, table and Lambdas; `zae-limiter doctor` looks at a store now",
  template: "print the stack's template",
  "cfn-template": "print the stack's template",
  "lambda-export": "write a function's zip",
  serve: "serve limits over HTTP",
  token: "make tokens for the HTTP service",
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
