import { requireKnown } from "../known.ts";
import { requirePlan } from "../known-plan.ts";
import { deleteCommand, getCommand, type LevelCommands, setCommand } from "../level-commands.ts";

const ENTITY: LevelCommands = {
  argument: ["id", "the entity"],
  what: "totals",
  command: "entity set-totals acme",
  scopeOf: (entityId) => ({ level: "entityTotal", entityId }),
  titleOf: (entityId) => `${entityId} over all resources`,
};

const PLAN: LevelCommands = {
  argument: ["plan", "the plan"],
  what: "totals",
  command: "plan set-totals gold",
  require: async (limiter, id) => {
    await requirePlan(limiter, id);
  },
  scopeOf: (planId) => ({ level: "planTotal", planId }),
  titleOf: (planId) => `the plan ${planId} over all resources`,
};

const SYSTEM: LevelCommands = {
  what: "totals",
  command: "system set-totals",
  scopeOf: () => ({ level: "systemTotal" }),
  titleOf: () => "everybody over all resources",
};

export const entitySetTotals = setCommand(
  { ...ENTITY, require: (limiter, entityId) => requireKnown(limiter, { entityId }) },
  "zae-limiter entity set-totals acme -l 'usd:$100/month'",
);
export const entityGetTotals = getCommand(ENTITY);
export const entityDeleteTotals = deleteCommand(ENTITY);

export const planSetTotals = setCommand(
  PLAN,
  "zae-limiter plan set-totals gold -l 'usd:$100/month' --applies-to callers",
);
export const planGetTotals = getCommand(PLAN);
export const planDeleteTotals = deleteCommand(PLAN);

export const systemSetTotals = setCommand(SYSTEM, "zae-limiter system set-totals -l 'usd:$5/month'");
export const systemGetTotals = getCommand(SYSTEM);
export const systemDeleteTotals = deleteCommand(SYSTEM);
