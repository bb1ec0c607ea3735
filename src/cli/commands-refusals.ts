import type { CommandEntry } from "./command-entry.ts";

export const REFUSAL_COMMANDS: readonly CommandEntry[] = [
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
