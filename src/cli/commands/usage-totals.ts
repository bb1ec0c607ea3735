import type { UsageTotal } from "../../entry/index.ts";
import { type CommandFile, examples } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { onStore } from "../on-store.ts";
import { printValue, unlessInterrupted } from "../print.ts";
import { tableOf } from "../table.ts";
import { noUsage, type UsageOptions, usageOptions, usageRequest, usedText } from "../usage-options.ts";
import { choiceOf } from "../values.ts";

interface UsageTotalsOptions extends UsageOptions {
  readonly by?: string;
}

export const usageTotals: CommandFile<UsageTotalsOptions> = {
  configure: (command) => {
    usageOptions(command)
      .option("--by <entity|resource>", "what to group by; default entity")
      .addHelpText(
        "after",
        examples(
          "zae-limiter usage totals --from 30d",
          "zae-limiter usage totals --by resource -e proj-1 -w daily --from 30d",
        ),
      )
      .addHelpText("after", "\nThe sum of a parent includes its children: add up entities of one level only.\n");
  },
  run: (context, options) => {
    const request = usageRequest(options, Date.now());
    const by = choiceOf(options.by ?? "entity", ["entity", "resource"], "--by");
    return onStore(context, options, async (limiter) => {
      const items = await unlessInterrupted(context, limiter.usageTotals({ ...request, by }));
      const draw = tableOf<UsageTotal>(context, options, [
        { title: by.toUpperCase(), text: ({ entityId, resource }) => entityId ?? resource ?? "" },
        { title: "REQUESTS", text: ({ requests }) => String(requests), right: true },
        { title: "TOKENS", text: ({ total, wouldRefuse }) => usedText(total, wouldRefuse), flexible: true },
      ]);
      await printValue(context, options, { items }, () => (items.length === 0 ? `${noUsage(request)}\n` : draw(items)));
      return EXIT.done;
    });
  },
};
