import { checkedLimits } from "../checked-limits.ts";
import { type CommandFile, examples, type GlobalOptions, repeated } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { limitsOf } from "../limit-text.ts";
import { onStore } from "../on-store.ts";
import { principalOf } from "../principal.ts";
import { printChange } from "../print.ts";
import { systemText } from "../show-system.ts";
import { choiceOf } from "../values.ts";

interface SystemSetDefaultsOptions extends GlobalOptions {
  readonly limit?: readonly string[];
  readonly soft?: readonly string[];
  readonly onUnavailable?: string;
}

export const systemSetDefaults: CommandFile<SystemSetDefaultsOptions> = {
  configure: (command) => {
    command
      .option("-l, --limit <limit>", "such as rpm:1000/min:1500; repeated", repeated)
      .option("--soft <name>", "measured, never a reason to refuse; repeated", repeated)
      .option("--on-unavailable <allow|block>", "what an outage of the store means")
      .addHelpText("after", examples("zae-limiter system set-defaults -l rpm:10 --on-unavailable block"));
  },
  run: (context, options) => {
    const { limit, soft, onUnavailable: word } = options;
    if (limit === undefined && word === undefined)
      throw new UsageError("Nothing is to be set; give -l LIMIT or --on-unavailable.");
    const onUnavailable = word === undefined ? undefined : choiceOf(word, ["allow", "block"], "--on-unavailable");
    const given = limit === undefined ? undefined : checkedLimits(limitsOf(limit, soft ?? []));
    return onStore(context, options, async (limiter) => {
      const before = await limiter.getSystemDefaults();
      const limits = given ?? before.limits;
      const outage = onUnavailable === undefined ? {} : { onUnavailable };
      if (options.dryRun !== true) {
        await limiter.setSystemDefaults(limits, { ...outage, ...principalOf(context, options) });
      }
      const after = options.dryRun === true ? { ...before, limits, ...outage } : await limiter.getSystemDefaults();
      await printChange(context, options, after, () => systemText(after));
      return EXIT.done;
    });
  },
};
