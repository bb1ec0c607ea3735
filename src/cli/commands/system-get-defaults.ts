import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { levelsOf } from "../command-limiter.ts";
import { EXIT } from "../exit-code.ts";
import { onStore } from "../on-store.ts";
import { printValue } from "../print.ts";
import { limitsMissing } from "../show-limits.ts";
import { systemText } from "../show-system.ts";

export const systemGetDefaults: CommandFile<GlobalOptions> = {
  configure: (command) => {
    command
      .addHelpText("after", examples("zae-limiter system get-defaults"))
      .addHelpText("after", "\nExit codes: 4 no defaults are set.\n");
  },
  run: (context, options) =>
    onStore(context, options, async (limiter) => {
      const system = await (await levelsOf(limiter)).get({ level: "system" });
      if (system.limits.length === 0 && system.onUnavailable === undefined) {
        throw limitsMissing("There are no system defaults", "set some with `zae-limiter system set-defaults`");
      }
      await printValue(context, options, system, () => systemText(system));
      return EXIT.done;
    }),
};
