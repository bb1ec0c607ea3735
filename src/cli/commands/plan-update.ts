import { ConflictError } from "../../domain/errors.ts";
import { checkPlanPatch, type PlanPatch, planUpdate } from "../../domain/plan.ts";
import type { Plan } from "../../entry/index.ts";
import { type CommandFile, examples, type GlobalOptions, repeated } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { requirePlan } from "../known-plan.ts";
import { onStore } from "../on-store.ts";
import { principalOf } from "../principal.ts";
import { printChange } from "../print.ts";
import { planText } from "../show-plan.ts";
import { metadataOf } from "../values.ts";

interface PlanUpdateOptions extends GlobalOptions {
  readonly displayName?: string;
  readonly meta?: readonly string[];
  readonly unsetMeta?: readonly string[];
}

export const planUpdateCommand: CommandFile<PlanUpdateOptions> = {
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
