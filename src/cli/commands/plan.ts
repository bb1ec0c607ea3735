import { checkPlanPatch, newPlan, type Plan, type PlanPatch } from "../../domain/config/plan.ts";
import { ConflictError, ExistsError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import type { CommandGroup, OptionsOf } from "../command.ts";
import { UsageError } from "../exit-code.ts";
import { requirePlan, unlessMissing } from "../known.ts";
import {
  CREATE_NAME,
  CREATE_OPTIONS,
  metadataAfter,
  PLAN_COLUMNS,
  readAndWrite,
  recordText,
  UPDATE_NAME,
  UPDATE_OPTIONS,
} from "../named-records.ts";
import { change, list, show } from "../plain-commands.ts";
import { pageFrom } from "../print.ts";
import { pairsOf } from "../values.ts";

const PLAN_UPDATE = [UPDATE_NAME, ...UPDATE_OPTIONS] as const;
const THE_PLAN = [["<plan>", "the plan"]] as const;

export const PLAN_COMMANDS: CommandGroup = {
  "plan create": change({
    arguments: [["<id>", "letters, digits and _ . - : @"]],
    options: [CREATE_NAME, ...CREATE_OPTIONS],
    examples: ["plan create silver --name Silver --meta price=10"],
    notes: ["Exit codes: 1 the plan exists, without --if-absent."],
    read: ({ displayName: name, meta, ifAbsent }, [id = ""]) => {
      const fields = given({ id, name, metadata: meta === undefined ? undefined : pairsOf(meta, "--meta") });
      return { id, fields, planned: newPlan(fields, Date.now()), isEnsured: ifAbsent === true };
    },
    plan: async (limiter, { id, planned, isEnsured }) => {
      const existing = await unlessMissing("plan_not_found", limiter.getPlan(id));
      if (existing !== undefined && !isEnsured) throw planExists(id);
      return existing ?? planned;
    },
    make: (limiter, { fields, isEnsured }, by) =>
      isEnsured ? limiter.ensurePlan(fields, by) : limiter.createPlan(fields, by),
    text: (plan) => recordText(plan),
  }),
  "plan list": list({
    examples: ["plan list", "plan list --json"],
    source: (limiter) => ({
      page: (request) => pageFrom(limiter.listPlans(request)),
      columns: PLAN_COLUMNS,
      empty: "There are no plans; create one with `zae-limiter plan create ID`.",
    }),
  }),
  "plan get": show({
    arguments: THE_PLAN,
    examples: ["plan get gold", "plan get gold --json"],
    notes: ["Exit codes: 4 no such plan."],
    get: requirePlan,
    text: (plan) => recordText(plan),
  }),
  "plan update": change({
    arguments: THE_PLAN,
    options: PLAN_UPDATE,
    examples: ["plan update gold --meta price=12"],
    notes: ["Exit codes: 4 no such plan."],
    read: (options, [id = ""]) => {
      const { displayName, meta, unsetMeta } = options;
      if (displayName === undefined && meta === undefined && unsetMeta === undefined) {
        throw new UsageError("No change is given; give --name, --meta or --unset-meta.");
      }
      return { id, options };
    },
    plan: async (limiter, { id, options }) => {
      const before = await requirePlan(limiter, id);
      return { ...before, ...patchOf(before, options), version: before.version + 1, updatedAtMs: Date.now() };
    },
    make: (limiter, { id, options }, by) =>
      readAndWrite(
        "plan_changed",
        () => requirePlan(limiter, id),
        (before) => limiter.updatePlan(id, patchOf(before, options), { version: before.version, ...by }),
      ),
    text: (plan) => recordText(plan),
  }),
  "plan delete": change({
    arguments: THE_PLAN,
    examples: ["plan delete gold --dry-run", "plan delete gold --yes"],
    notes: ["Exit codes: 1 an entity uses the plan, or declined; 4 no such plan."],
    before: async (limiter, id) => {
      await requirePlan(limiter, id);
      const [entity] = await limiter.listEntities({ planId: id, limit: 1 });
      if (entity === undefined) return `Delete the plan ${id} with its limits and totals?`;
      throw new ConflictError(
        "plan_in_use",
        `Entities use the plan ${id}, such as ${entity.id}; first give them another plan with ` +
          `\`zae-limiter entity update ${entity.id} --plan ID\`, or none with \`--plan none\`.`,
      );
    },
    plan: (_, id) => ({ id, deleted: true }),
    make: (limiter, id, by) => limiter.deletePlan(id, by),
    text: ({ id }) => `The plan ${id} is deleted.\n`,
  }),
};

function patchOf(before: Plan, options: OptionsOf<typeof PLAN_UPDATE>): PlanPatch {
  return checkPlanPatch(before.id, given({ name: options.displayName, metadata: metadataAfter(before, options) }));
}

function planExists(id: string): ExistsError {
  return new ExistsError(
    "plan_exists",
    `The plan ${id} exists already; change it with \`zae-limiter plan update\`, or pass --if-absent to leave it unchanged.`,
  );
}
