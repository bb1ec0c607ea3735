import { checkPlanPatch, newPlan, type Plan, type PlanPatch, planUpdate } from "../../domain/config/plan.ts";
import { ConflictError, ExistsError, NotFoundError } from "../../domain/names/errors.ts";
import { type CommandFile, type CommandGroup, examples, type GlobalOptions, repeated } from "../command.ts";
import type { CommandLimiter } from "../command-limiter.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { requirePlan } from "../known-plan.ts";
import { onStore } from "../on-store.ts";
import { change, list, show } from "../plain-commands.ts";
import { principalOf } from "../principal.ts";
import { fieldsText, pageFrom, printChange } from "../print.ts";
import { timeText } from "../show-entity.ts";
import type { Column } from "../table.ts";
import { metadataOf } from "../values.ts";

interface PlanCreateOptions extends GlobalOptions {
  /** Of `--name` and `--display-name`. */
  readonly displayName?: string;
  readonly meta?: readonly string[];
  readonly ifAbsent?: boolean;
}

const planCreate: CommandFile<PlanCreateOptions> = {
  configure: (command) => {
    command
      .argument("<id>", "letters, digits and _ . - : @")
      .option("--name, --display-name <text>", "display name; default: the id")
      .option("--meta <key=value>", "free text of yours; repeated", repeated)
      .option("--if-absent", "if it exists, leave it unchanged and show it")
      .addHelpText("after", examples("zae-limiter plan create silver --name Silver --meta price=10"))
      .addHelpText("after", "\nExit codes: 1 the plan exists, without --if-absent.\n");
  },
  run: (context, options, [id = ""]) =>
    onStore(context, options, async (limiter) => {
      const { displayName: name, meta } = options;
      const given = {
        id,
        ...(name === undefined ? {} : { name }),
        ...(meta === undefined ? {} : { metadata: metadataOf(meta) }),
      };
      // Checked before the store is asked, and what would be is known.
      const planned = newPlan(given, Date.now());
      const existing = options.dryRun === true ? await planOf(limiter, id) : undefined;
      if (existing !== undefined && options.ifAbsent !== true) throw planExists(id);
      const plan =
        options.dryRun === true
          ? (existing ?? planned)
          : await (options.ifAbsent === true
              ? limiter.ensurePlan(given, principalOf(context, options))
              : limiter.createPlan(given, principalOf(context, options)));
      await printChange(context, options, plan, () => planText(plan));
      return EXIT.done;
    }),
};

async function planOf(limiter: CommandLimiter, id: string): Promise<Plan | undefined> {
  try {
    return await limiter.getPlan(id);
  } catch (error) {
    if (error instanceof NotFoundError) return undefined;
    throw error;
  }
}

function planExists(id: string): ExistsError {
  return new ExistsError(
    "plan_exists",
    `The plan ${id} exists already; change it with \`zae-limiter plan update\`, or pass --if-absent to leave it unchanged.`,
  );
}

interface PlanUpdateOptions extends GlobalOptions {
  readonly displayName?: string;
  readonly meta?: readonly string[];
  readonly unsetMeta?: readonly string[];
}

const planUpdateCommand: CommandFile<PlanUpdateOptions> = {
  configure: (command) => {
    command
      .argument("<plan>", "the plan")
      .option("--name, --display-name <text>", "display name")
      .option("--meta <key=value>", "set this key, keep the others; repeated", repeated)
      .option("--unset-meta <key>", "remove this key; repeated", repeated)
      .addHelpText("after", examples("zae-limiter plan update gold --meta price=12"))
      .addHelpText("after", "\nExit codes: 4 no such plan.\n");
  },
  run: (context, options, [id = ""]) => {
    const { displayName, meta, unsetMeta } = options;
    if (displayName === undefined && meta === undefined && unsetMeta === undefined) {
      throw new UsageError("No change is given; give --name, --meta or --unset-meta.");
    }
    return onStore(context, options, async (limiter) => {
      for (;;) {
        const before = await requirePlan(limiter, id);
        const patch = checkPlanPatch(id, patchOf(before, options));
        const update = planUpdate(before, { patch, version: undefined, nowMs: Date.now() });
        try {
          const made = { version: before.version, ...principalOf(context, options) };
          const isPlanned = options.dryRun === true && update.kind === "updated";
          const plan = isPlanned ? update.plan : await limiter.updatePlan(id, patch, made);
          await printChange(context, options, plan, () => planText(plan));
          return EXIT.done;
        } catch (error) {
          // Somebody else changed it since it was read: metadata that he set must stay, so it is read again.
          if (!(error instanceof ConflictError) || error.code !== "plan_changed") throw error;
        }
      }
    });
  },
};

function patchOf({ metadata }: Plan, { displayName, meta, unsetMeta }: PlanUpdateOptions): PlanPatch {
  const name = displayName === undefined ? {} : { name: displayName };
  if (meta === undefined && unsetMeta === undefined) return name;
  const kept = Object.entries(metadata).filter(([key]) => unsetMeta?.includes(key) !== true);
  return { ...name, metadata: { ...Object.fromEntries(kept), ...metadataOf(meta ?? []) } };
}

/** A plan for people. */
function planText({ id, name, metadata, version, createdAtMs, updatedAtMs }: Plan): string {
  const metas = Object.entries(metadata).map(([key, value]) => `${key}=${value}`);
  return fieldsText({
    id,
    name: name === id ? undefined : name,
    metadata: metas.length === 0 ? undefined : metas.join(" "),
    version: String(version),
    created: timeText(createdAtMs),
    updated: updatedAtMs === createdAtMs ? undefined : timeText(updatedAtMs),
  });
}

const PLAN_COLUMNS: readonly Column<Plan>[] = [
  { title: "ID", text: ({ id }) => id },
  { title: "NAME", text: ({ id, name }) => (name === id ? "" : name), flexible: true },
  { title: "CREATED", text: ({ createdAtMs }) => timeText(createdAtMs).slice(0, 10) },
];

const THE_PLAN = ["<plan>", "the plan"] as const;

export const PLAN_COMMANDS: CommandGroup = {
  "plan create": planCreate,
  "plan list": list({
    examples: ["plan list", "plan list --json"],
    source: (limiter) => ({
      page: (request) => pageFrom(limiter.listPlans(request)),
      columns: PLAN_COLUMNS,
      empty: "There are no plans; create one with `zae-limiter plan create ID`.",
    }),
  }),
  "plan get": show({
    argument: THE_PLAN,
    examples: ["plan get gold", "plan get gold --json"],
    note: "Exit codes: 4 no such plan.",
    get: requirePlan,
    text: planText,
  }),
  "plan update": planUpdateCommand,
  "plan delete": change({
    argument: THE_PLAN,
    examples: ["plan delete gold --dry-run", "plan delete gold --yes"],
    note: "Exit codes: 1 an entity uses the plan, or declined; 4 no such plan.",
    ask: async (limiter, id) => {
      await requirePlan(limiter, id);
      const [entity] = await limiter.listEntities({ planId: id, limit: 1 });
      if (entity !== undefined) {
        throw new ConflictError(
          "plan_in_use",
          `Entities use the plan ${id}, such as ${entity.id}; first give them another plan with ` +
            `\`zae-limiter entity update ${entity.id} --plan ID\`, or none with \`--plan none\`.`,
        );
      }
      return `Delete the plan ${id} with its limits and totals?`;
    },
    planned: (_, id) => ({ id, deleted: true }),
    made: (limiter, id, by) => limiter.deletePlan(id, by),
    text: ({ id }) => `The plan ${id} is deleted.\n`,
  }),
};
