import { confirmed } from "../ask.ts";
import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { onStore } from "../on-store.ts";
import { principalOf } from "../principal.ts";
import { printChange } from "../print.ts";
import { limitsMissing } from "../show-limits.ts";

export const resourceDeleteDefaults: CommandFile<GlobalOptions> = {
  configure: (command) => {
    command
      .argument("<resource>", "the resource")
      .addHelpText("after", examples("zae-limiter resource delete-defaults gpt-4 --yes"))
      .addHelpText("after", "\nExit codes: 1 declined, 4 no defaults are set.\n");
  },
  run: (context, options, [resource = ""]) =>
    onStore(context, options, async (limiter) => {
      const missing = () => limitsMissing(`The resource "${resource}" has no defaults`, "nothing was deleted");
      if ((await limiter.getResourceDefaults(resource)).length === 0) throw missing();
      await confirmed(context, options, `Delete the defaults of ${resource}?`);
      if (options.dryRun !== true && !(await limiter.deleteResourceDefaults(resource, principalOf(context, options)))) {
        throw missing();
      }
      await printChange(
        context,
        options,
        { resource, deleted: true },
        () => `The defaults of ${resource} are deleted.\n`,
      );
      return EXIT.done;
    }),
};
