import type { CommandFile, GlobalOptions } from "./command.ts";

interface CommandEntry {
  /** The words that call it. */
  readonly path: readonly string[];
  readonly summary: string;
  readonly load: () => Promise<CommandFile<GlobalOptions>>;
}

/** Groups of commands. */
export const GROUPS: Readonly<Record<string, string>> = {
  audit: "What was changed, when and by whom",
  limits: "Declared limits: a file says what they are",
};

// One line a command: its own file, with its options and whatever it imports, is loaded only when it is called.
export const COMMANDS: readonly CommandEntry[] = [
  {
    path: ["aggregate"],
    summary: "Follow the table's stream into the audit archive, and sweep, without a Lambda",
    load: async () => (await import("./commands/aggregate.ts")).aggregate,
  },
  {
    path: ["audit", "list"],
    summary: "Audit events of the archive, newest first",
    load: async () => (await import("./commands/audit-list.ts")).auditList,
  },
  {
    path: ["audit", "verify"],
    summary: "Compare the archive with what was put there",
    load: async () => (await import("./commands/audit-verify.ts")).auditVerify,
  },
  {
    path: ["limits", "validate"],
    summary: "Check a manifest; opens no store",
    load: async () => (await import("./commands/limits-validate.ts")).limitsValidate,
  },
  {
    path: ["limits", "plan"],
    summary: "What applying a manifest would change",
    load: async () => (await import("./commands/limits-plan.ts")).limitsPlan,
  },
  {
    path: ["limits", "apply"],
    summary: "Make a namespace what a manifest says",
    load: async () => (await import("./commands/limits-apply.ts")).limitsApply,
  },
  {
    path: ["limits", "diff"],
    summary: "What is no longer as it was last applied, and who did it",
    load: async () => (await import("./commands/limits-diff.ts")).limitsDiff,
  },
  {
    path: ["limits", "export"],
    summary: "A namespace as a manifest",
    load: async () => (await import("./commands/limits-export.ts")).limitsExport,
  },
  {
    path: ["limits", "schema"],
    summary: "The JSON Schema of manifests",
    load: async () => (await import("./commands/limits-schema.ts")).limitsSchema,
  },
  {
    path: ["limits", "cfn-template"],
    summary: "A manifest as a resource of CloudFormation",
    load: async () => (await import("./commands/limits-cfn-template.ts")).limitsCfnTemplate,
  },
];

/** Those whose words all stand on the command line, in order: the one that is called, and seldom another. */
export function mentioned(entry: CommandEntry, args: readonly string[]): boolean {
  let at = 0;
  for (const arg of args) if (arg === entry.path[at]) at += 1;
  return at === entry.path.length;
}
