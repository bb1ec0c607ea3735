import { ConflictError } from "../../domain/errors.ts";
import { confirmed } from "../ask.ts";
import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { requirePlan } from "../known-plan.ts";
import { onStore } from "../on-store.ts";
import { principalOf } from "../principal.ts";
import { printChange } from "../print.ts";

export const planDelete: CommandFile<GlobalOptions> = {
  configure: (command) => {
    command
      .argument("<plan>", "the plan")
      .addHelpText("after", examples("zae-limiter plan delete gold --dry-run", "zae-limiter plan delete gold --yes"))
      .addHelpText("after", "\nExit codes: 1 an entity uses the plan, or declined; 4 no such plan.\n");
  },
  run: (context, options, [id = ""]) =>
    onStore(context, options, async (limiter) => {
      await requirePlan(limiter, id);
      const [entity] = await limiter.listEntities({ planId: id, limit: 1 });
      if (entity !== undefined) {
        throw new ConflictError(
          "plan_in_use",
          `Entities use the plan ${id}, such as ${entity.id}; first give them another plan with ` +
            `\`zae-limiter entity update ${entity.id} --plan ID\`, or none with \`--plan none\`.`,
        );
      }
      await confirmed(context, options, `Delete the plan ${id} with its limits and totals?`);
      if (options.dryRun !== true) await limiter.deletePlan(id, principalOf(context, options));
      await printChange(context, options, { id, deleted: true }, () => `The plan ${id} is deleted.\n`);
      return EXIT.done;
    }),
};
