import type { CommandEntry } from "./command-entry.ts";

/** Commands on what was used, and on who was refused. */
export const USAGE_COMMANDS: readonly CommandEntry[] = [
  {
    path: ["usage", "list"],
    summary: "What was used, window by window",
    load: async () => (await import("./commands/usage-list.ts")).usageList,
  },
  {
    path: ["usage", "summary"],
    summary: "What was used, added up",
    load: async () => (await import("./commands/usage-summary.ts")).usageSummary,
  },
  {
    path: ["usage", "totals"],
    summary: "What each entity used, or what was used of each resource",
    load: async () => (await import("./commands/usage-totals.ts")).usageTotals,
  },
  {
    path: ["usage", "export"],
    summary: "Usage as CSV, NDJSON or JSON",
    load: async () => (await import("./commands/usage-export.ts")).usageExport,
  },
  {
    path: ["usage", "chart"],
    summary: "Usage drawn in the terminal",
    load: async () => (await import("./commands/usage-chart.ts")).usageChart,
  },
  {
    path: ["refusals", "list"],
    summary: "Who was refused and by whose limit, window by window",
    load: async () => (await import("./commands/refusals-list.ts")).refusalsList,
  },
  {
    path: ["refusals", "top"],
    summary: "Who was refused most",
    load: async () => (await import("./commands/refusals-top.ts")).refusalsTop,
  },
];
