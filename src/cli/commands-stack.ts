import type { CommandEntry } from "./command-entry.ts";

/** Commands on the stack on AWS. */
export const STACK_COMMANDS: readonly CommandEntry[] = [
  {
    path: ["deploy"],
    summary: "Make the stack on AWS, or change it",
    load: async () => (await import("./commands/deploy.ts")).deploy,
  },
  {
    path: ["update"],
    summary: "Bring a stack to this version, or change it",
    load: async () => (await import("./commands/deploy.ts")).update,
  },
  {
    path: ["status"],
    summary: "What a stack consists of, and whether it is ready",
    load: async () => (await import("./commands/status.ts")).status,
  },
  {
    path: ["list"],
    summary: "All stacks of a region",
    load: async () => (await import("./commands/list.ts")).list,
  },
  {
    path: ["check"],
    summary: "Whether client, table and functions fit together",
    load: async () => (await import("./commands/check.ts")).check,
  },
  {
    path: ["delete"],
    summary: "Delete a stack; its table and archive stay",
    load: async () => (await import("./commands/delete.ts")).deleteCommand,
  },
  {
    path: ["template"],
    summary: "The stack as a template of CloudFormation",
    load: async () => (await import("./commands/template.ts")).template,
  },
  {
    path: ["lambda-export"],
    summary: "Write the code of a function as a zip",
    load: async () => (await import("./commands/lambda-export.ts")).lambdaExport,
  },
];
