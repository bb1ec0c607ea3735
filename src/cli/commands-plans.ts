import type { CommandEntry } from "./command-entry.ts";

const limits = () => import("./commands/plan-limits.ts");
const totals = () => import("./commands/totals.ts");

/** Commands on plans. */
export const PLAN_COMMANDS: readonly CommandEntry[] = [
  {
    path: ["plan", "create"],
    summary: "Create a plan",
    load: async () => (await import("./commands/plan-create.ts")).planCreate,
  },
  {
    path: ["plan", "list"],
    summary: "List plans",
    load: async () => (await import("./commands/plan-list.ts")).planList,
  },
  {
    path: ["plan", "get"],
    summary: "Show a plan",
    load: async () => (await import("./commands/plan-get.ts")).planGet,
  },
  {
    path: ["plan", "update"],
    summary: "Change the name or metadata of a plan",
    load: async () => (await import("./commands/plan-update.ts")).planUpdateCommand,
  },
  {
    path: ["plan", "delete"],
    summary: "Delete a plan with its limits and totals",
    load: async () => (await import("./commands/plan-delete.ts")).planDelete,
  },
  {
    path: ["plan", "set-limits"],
    summary: "Set the limits of a plan",
    load: async () => (await limits()).planSetLimits,
  },
  {
    path: ["plan", "get-limits"],
    summary: "Show the limits of a plan",
    load: async () => (await limits()).planGetLimits,
  },
  {
    path: ["plan", "delete-limits"],
    summary: "Delete the limits of a plan",
    load: async () => (await limits()).planDeleteLimits,
  },
  {
    path: ["plan", "set-totals"],
    summary: "Set the totals of a plan: limits over all resources, for each entity",
    load: async () => (await totals()).planSetTotals,
  },
  {
    path: ["plan", "get-totals"],
    summary: "Show the totals of a plan",
    load: async () => (await totals()).planGetTotals,
  },
  {
    path: ["plan", "delete-totals"],
    summary: "Delete the totals of a plan",
    load: async () => (await totals()).planDeleteTotals,
  },
];

/** Limits of one entity over all resources. */
export const ENTITY_TOTALS: readonly CommandEntry[] = [
  {
    path: ["entity", "set-totals"],
    summary: "Set the totals of an entity: limits over all resources",
    load: async () => (await totals()).entitySetTotals,
  },
  {
    path: ["entity", "get-totals"],
    summary: "Show the totals of an entity",
    load: async () => (await totals()).entityGetTotals,
  },
  {
    path: ["entity", "delete-totals"],
    summary: "Delete the totals of an entity",
    load: async () => (await totals()).entityDeleteTotals,
  },
];

/** Limits of everybody over all resources. */
export const SYSTEM_TOTALS: readonly CommandEntry[] = [
  {
    path: ["system", "set-totals"],
    summary: "Set the default totals of every entity: limits over all resources",
    load: async () => (await totals()).systemSetTotals,
  },
  {
    path: ["system", "get-totals"],
    summary: "Show the default totals of every entity",
    load: async () => (await totals()).systemGetTotals,
  },
  {
    path: ["system", "delete-totals"],
    summary: "Delete the default totals of every entity",
    load: async () => (await totals()).systemDeleteTotals,
  },
];
