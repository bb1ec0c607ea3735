import type { CommandEntry } from "./command-entry.ts";

/** Commands on the stack on AWS. */
export const STACK_COMMANDS: readonly CommandEntry[] = [
  {
    path: ["deploy"],
    summary: "Create or change a stack on AWS",
    load: async () => (await import("./commands/deploy.ts")).deploy,
  },
  {
    path: ["update"],
    summary: "Update a stack to this version, or change it",
    load: async () => (await import("./commands/deploy.ts")).update,
  },
  {
    path: ["status"],
    summary: "Show the parts of a stack and whether it is ready",
    load: async () => (await import("./commands/status.ts")).status,
  },
  {
    path: ["list"],
    summary: "List the stacks in a region",
    load: async () => (await import("./commands/list.ts")).list,
  },
  {
    path: ["check"],
    summary: "Check that client, table and functions are compatible",
    load: async () => (await import("./commands/check.ts")).check,
  },
  {
    path: ["delete"],
    summary: "Delete a stack; its table and archive stay",
    load: async () => (await import("./commands/delete.ts")).deleteCommand,
  },
  {
    path: ["template"],
    summary: "Print the CloudFormation template of a stack",
    load: async () => (await import("./commands/template.ts")).template,
  },
  {
    path: ["lambda-export"],
    summary: "Write the code of a Lambda function to a zip file",
    load: async () => (await import("./commands/lambda-export.ts")).lambdaExport,
  },
];
