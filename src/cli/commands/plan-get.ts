import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { requirePlan } from "../known-plan.ts";
import { onStore } from "../on-store.ts";
import { printValue } from "../print.ts";
import { planText } from "../show-plan.ts";

export const planGet: CommandFile<GlobalOptions> = {
  configure: (command) => {
    command
      .argument("<plan>", "the plan")
      .addHelpText("after", examples("zae-limiter plan get gold", "zae-limiter plan get gold --json"))
      .addHelpText("after", "\nExit codes: 4 no such plan.\n");
  },
  run: (context, options, [id = ""]) =>
    onStore(context, options, async (limiter) => {
      const plan = await requirePlan(limiter, id);
      await printValue(context, options, plan, () => planText(plan));
      return EXIT.done;
    }),
};
