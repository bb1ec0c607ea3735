import type { CommandEntry } from "./command-entry.ts";

/** Commands on what was used, and on who was refused. */
export const USAGE_COMMANDS: readonly CommandEntry[] = [
  {
    path: ["usage", "list"],
    summary: "List usage by window",
    load: async () => (await import("./commands/usage-list.ts")).usageList,
  },
  {
    path: ["usage", "summary"],
    summary: "Sum up usage over a time range",
    load: async () => (await import("./commands/usage-summary.ts")).usageSummary,
  },
  {
    path: ["usage", "totals"],
    summary: "Sum up usage for each entity or each resource",
    load: async () => (await import("./commands/usage-totals.ts")).usageTotals,
  },
  {
    path: ["usage", "export"],
    summary: "Export usage as CSV, NDJSON or JSON",
    load: async () => (await import("./commands/usage-export.ts")).usageExport,
  },
  {
    path: ["usage", "chart"],
    summary: "Draw usage as a chart in the terminal",
    load: async () => (await import("./commands/usage-chart.ts")).usageChart,
  },
  {
    path: ["refusals", "list"],
    summary: "List refusals by window",
    load: async () => (await import("./commands/refusals-list.ts")).refusalsList,
  },
  {
    path: ["refusals", "top"],
    summary: "Show who was refused most often",
    load: async () => (await import("./commands/refusals-top.ts")).refusalsTop,
  },
];
