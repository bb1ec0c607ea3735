import { requirePlan } from "../known-plan.ts";
import { deleteCommand, getCommand, type LevelCommands, setCommand } from "../level-commands.ts";

const LIMITS: LevelCommands = {
  argument: ["plan", "the plan"],
  hasResource: true,
  what: "limits",
  command: "plan set-limits ID",
  require: async (limiter, id) => {
    await requirePlan(limiter, id);
  },
  scopeOf: (planId, resource) =>
    resource === undefined ? { level: "planDefault", planId } : { level: "plan", planId, resource },
  titleOf: (planId, resource) => `the plan ${planId}${resource === undefined ? "" : ` on ${resource}`}`,
};

const EXAMPLE: LevelCommands = { ...LIMITS, command: "plan set-limits gold -r gpt-4" };

export const planSetLimits = setCommand(
  LIMITS,
  "zae-limiter plan set-limits gold -l rpm:1000 -l tpm:100k/min",
  "zae-limiter plan set-limits gold -r gpt-4 -l rpm:100 --inherit",
);
export const planGetLimits = getCommand(EXAMPLE);
export const planDeleteLimits = deleteCommand(EXAMPLE);
