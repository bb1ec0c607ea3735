import { confirmed } from "../ask.ts";
import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { onStore } from "../on-store.ts";
import { principalOf } from "../principal.ts";
import { printChange } from "../print.ts";
import { limitsMissing } from "../show-limits.ts";

export const systemDeleteDefaults: CommandFile<GlobalOptions> = {
  configure: (command) => {
    command
      .addHelpText("after", examples("zae-limiter system delete-defaults --yes"))
      .addHelpText("after", "\nExit codes: 1 declined, 4 no defaults are set.\n");
  },
  run: (context, options) =>
    onStore(context, options, async (limiter) => {
      const missing = () => limitsMissing("There are no system defaults", "nothing was deleted");
      const { limits, onUnavailable } = await limiter.getSystemDefaults();
      if (limits.length === 0 && onUnavailable === undefined) throw missing();
      await confirmed(context, options, "Delete the system-wide default limits?");
      if (options.dryRun !== true && !(await limiter.deleteSystemDefaults(principalOf(context, options))))
        throw missing();
      await printChange(context, options, { deleted: true }, () => "The system defaults are deleted.\n");
      return EXIT.done;
    }),
};
