import type { CommandEntry } from "./command-entry.ts";

const limits = () => import("./commands/plan-limits.ts");
const totals = () => import("./commands/totals.ts");

/** Commands on plans. */
export const PLAN_COMMANDS: readonly CommandEntry[] = [
  {
    path: ["plan", "create"],
    summary: "Make a plan",
    load: async () => (await import("./commands/plan-create.ts")).planCreate,
  },
  {
    path: ["plan", "list"],
    summary: "All plans",
    load: async () => (await import("./commands/plan-list.ts")).planList,
  },
  {
    path: ["plan", "get"],
    summary: "One plan",
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
    summary: "Set limits of a plan",
    load: async () => (await limits()).planSetLimits,
  },
  {
    path: ["plan", "get-limits"],
    summary: "Limits of a plan",
    load: async () => (await limits()).planGetLimits,
  },
  {
    path: ["plan", "delete-limits"],
    summary: "Delete limits of a plan",
    load: async () => (await limits()).planDeleteLimits,
  },
  {
    path: ["plan", "set-totals"],
    summary: "Set what each entity of a plan has over all resources",
    load: async () => (await totals()).planSetTotals,
  },
  {
    path: ["plan", "get-totals"],
    summary: "Limits of a plan over all resources",
    load: async () => (await totals()).planGetTotals,
  },
  {
    path: ["plan", "delete-totals"],
    summary: "Delete them",
    load: async () => (await totals()).planDeleteTotals,
  },
];

/** Limits of one entity over all resources. */
export const ENTITY_TOTALS: readonly CommandEntry[] = [
  {
    path: ["entity", "set-totals"],
    summary: "Set limits of an entity over all resources",
    load: async () => (await totals()).entitySetTotals,
  },
  {
    path: ["entity", "get-totals"],
    summary: "Limits of an entity over all resources",
    load: async () => (await totals()).entityGetTotals,
  },
  {
    path: ["entity", "delete-totals"],
    summary: "Delete them",
    load: async () => (await totals()).entityDeleteTotals,
  },
];

/** Limits of everybody over all resources. */
export const SYSTEM_TOTALS: readonly CommandEntry[] = [
  {
    path: ["system", "set-totals"],
    summary: "Set what each entity has over all resources",
    load: async () => (await totals()).systemSetTotals,
  },
  {
    path: ["system", "get-totals"],
    summary: "Limits of everybody over all resources",
    load: async () => (await totals()).systemGetTotals,
  },
  {
    path: ["system", "delete-totals"],
    summary: "Delete them",
    load: async () => (await totals()).systemDeleteTotals,
  },
];
