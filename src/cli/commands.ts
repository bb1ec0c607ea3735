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
  local: "DynamoDB Local on this machine, to try things out",
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
    path: ["local", "up"],
    summary: "Start DynamoDB Local in the background, unless it runs",
    load: async () => (await import("./commands/local-up.ts")).localUp,
  },
  {
    path: ["local", "down"],
    summary: "End it",
    load: async () => (await import("./commands/local-down.ts")).localDown,
  },
  {
    path: ["local", "status"],
    summary: "Whether it runs, and where",
    load: async () => (await import("./commands/local-status.ts")).localStatus,
  },
  {
    path: ["local", "env"],
    summary: "Print what sends a shell's programs to it",
    load: async () => (await import("./commands/local-env.ts")).localEnv,
  },
  {
    path: ["local", "logs"],
    summary: "What it said",
    load: async () => (await import("./commands/local-logs.ts")).localLogs,
  },
  {
    path: ["loadtest"],
    summary: "Put a store under load, and hold what it granted against arithmetic",
    load: async () => (await import("./commands/loadtest.ts")).loadtestCommand,
  },
];

/** Those whose words all stand on the command line, in order: the one that is called, and seldom another. */
export function mentioned(entry: CommandEntry, args: readonly string[]): boolean {
  let at = 0;
  for (const arg of args) if (arg === entry.path[at]) at += 1;
  return at === entry.path.length;
}
