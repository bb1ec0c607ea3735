import { ExistsError, NotFoundError } from "../../domain/errors.ts";
import { newPlan } from "../../domain/plan.ts";
import { type CommandFile, examples, type GlobalOptions, repeated } from "../command.ts";
import type { CommandLimiter } from "../command-limiter.ts";
import { EXIT } from "../exit-code.ts";
import { onStore } from "../on-store.ts";
import { principalOf } from "../principal.ts";
import { printChange } from "../print.ts";
import { planText } from "../show-plan.ts";
import { metadataOf } from "../values.ts";

interface PlanCreateOptions extends GlobalOptions {
  /** Of `--name` and `--display-name`. */
  readonly displayName?: string;
  readonly meta?: readonly string[];
}

export const planCreate: CommandFile<PlanCreateOptions> = {
  configure: (command) => {
    command
      .argument("<id>", "letters, digits and _ . - : @")
      .option("--name, --display-name <text>", "display name; default: the id")
      .option("--meta <key=value>", "free text of yours; repeated", repeated)
      .addHelpText("after", examples("zae-limiter plan create silver --name Silver --meta price=10"))
      .addHelpText("after", "\nExit codes: 1 the plan exists.\n");
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
      if (options.dryRun === true) await requireAbsent(limiter, id);
      const plan = options.dryRun === true ? planned : await limiter.createPlan(given, principalOf(context, options));
      await printChange(context, options, plan, () => planText(plan));
      return EXIT.done;
    }),
};

async function requireAbsent(limiter: CommandLimiter, id: string): Promise<void> {
  try {
    await limiter.getPlan(id);
  } catch (error) {
    if (error instanceof NotFoundError) return;
    throw error;
  }
  throw new ExistsError("plan_exists", `The plan ${id} exists already; change it with \`zae-limiter plan update\`.`);
}
