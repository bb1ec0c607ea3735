import type { ConfigScope } from "../../domain/config.ts";
import { limitsChanged } from "../../domain/config-change.ts";
import { checkUsageKeptDays } from "../../domain/retention.ts";
import { checkedLimits } from "../checked-limits.ts";
import { type CommandFile, examples, repeated } from "../command.ts";
import { levelsOf } from "../command-limiter.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { flagsOf, type LevelFlags, levelFlags } from "../level-commands.ts";
import { limitsOf } from "../limit-text.ts";
import { onStore } from "../on-store.ts";
import { principalOf } from "../principal.ts";
import { printChange } from "../print.ts";
import { systemText } from "../show-system.ts";
import { choiceOf } from "../values.ts";

interface SystemSetDefaultsOptions extends LevelFlags {
  readonly limit?: readonly string[];
  readonly soft?: readonly string[];
  readonly onUnavailable?: string;
  readonly usageKeptDays?: string;
}

const SYSTEM: ConfigScope = { level: "system" };

export const systemSetDefaults: CommandFile<SystemSetDefaultsOptions> = {
  configure: (command) => {
    levelFlags(command)
      .option("-l, --limit <limit>", "such as rpm:1000/min:1500; repeated", repeated)
      .option("--soft <name>", "a limit that is counted but never refuses; repeated", repeated)
      .option("--on-unavailable <allow|block>", "whether requests pass while the store is unavailable")
      .option("--usage-kept-days <days>", "how many days a DynamoDB table keeps usage")
      .addHelpText("after", examples("zae-limiter system set-defaults -l rpm:10 --on-unavailable block"));
  },
  run: (context, options) => {
    const { limit, soft, onUnavailable: word } = options;
    if (limit === undefined && word === undefined && options.usageKeptDays === undefined)
      throw new UsageError("No change is given; give -l LIMIT, --on-unavailable or --usage-kept-days.");
    const usageKeptDays = options.usageKeptDays === undefined ? undefined : daysOf(options.usageKeptDays);
    const onUnavailable = word === undefined ? undefined : choiceOf(word, ["allow", "block"], "--on-unavailable");
    const given = limit === undefined ? undefined : checkedLimits(limitsOf(limit, soft ?? []));
    return onStore(context, options, async (limiter) => {
      const levels = await levelsOf(limiter);
      const before = await levels.get(SYSTEM);
      const flags = flagsOf(options);
      // Without -l the limits stay as they are in the store, whoever changes them meanwhile.
      const change = {
        ...(given === undefined ? {} : { limits: given }),
        ...(given !== undefined && flags.inherit === true ? { inherit: true as const } : {}),
        ...(given !== undefined && flags.appliesTo === "callers" ? { appliesTo: "callers" as const } : {}),
        ...(onUnavailable === undefined ? {} : { onUnavailable }),
        ...(usageKeptDays === undefined ? {} : { usageKeptDays }),
      };
      const when = options.ifAbsent === true ? { ifAbsent: true as const } : {};
      const planned = limitsChanged(before, { ...change, ...when });
      const changed =
        options.dryRun === true
          ? planned.kind === "changed"
          : await levels.changeSystem(change, { ...when, ...principalOf(context, options) });
      const wouldBe = planned.kind === "changed" ? (planned.config ?? { limits: [] }) : before;
      const after = options.dryRun === true ? wouldBe : await levels.get(SYSTEM);
      await printChange(context, options, { ...after, changed }, () => systemText(after));
      return EXIT.done;
    });
  },
};

function daysOf(text: string): number {
  if (/^\d{1,5}$/.test(text)) return checkUsageKeptDays(Number(text));
  throw new UsageError(`--usage-kept-days is "${text}"; give whole days, such as 365.`);
}
