import { ExistsError, NotFoundError } from "../../domain/errors.ts";
import { newPlan, type Plan } from "../../domain/plan.ts";
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
  readonly ifAbsent?: boolean;
}

export const planCreate: CommandFile<PlanCreateOptions> = {
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
