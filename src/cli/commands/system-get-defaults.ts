import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { onStore } from "../on-store.ts";
import { printValue } from "../print.ts";
import { limitsMissing } from "../show-limits.ts";
import { systemText } from "../show-system.ts";

export const systemGetDefaults: CommandFile<GlobalOptions> = {
  configure: (command) => {
    command
      .addHelpText("after", examples("zae-limiter system get-defaults"))
      .addHelpText("after", "\nExit codes: 4 there are none.\n");
  },
  run: (context, options) =>
    onStore(context, options, async (limiter) => {
      const { limits, onUnavailable } = await limiter.getSystemDefaults();
      if (limits.length === 0 && onUnavailable === undefined) {
        throw limitsMissing("There are no system defaults", "set some with `zae-limiter system set-defaults`");
      }
      const system = { limits, ...(onUnavailable === undefined ? {} : { onUnavailable }) };
      await printValue(context, options, system, () => systemText(system));
      return EXIT.done;
    }),
};
