import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { onStore } from "../on-store.ts";
import { printValue, unlessInterrupted } from "../print.ts";
import { tableOf } from "../table.ts";
import { usageRequest } from "../usage-options.ts";
import { choiceOf, countOf } from "../values.ts";

interface Options extends GlobalOptions {
  readonly by?: string;
  readonly top?: string;
  readonly start?: string;
  readonly end?: string;
}

export const refusalsTop: CommandFile<Options> = {
  configure: (command) => {
    command
      .option("--by <entity|resource|limit>", "what to group by; default entity")
      .option("--top <n>", "how many; default 10")
      .option("--from, --start <instant>", "start: ISO 8601, or a duration ago such as 7d")
      .option("--to, --end <instant>", "end: ISO 8601, or a duration ago")
      .addHelpText(
        "after",
        examples("zae-limiter refusals top --from 24h", "zae-limiter refusals top --by limit --top 3"),
      );
  },
  run: (context, options) => {
    const { window: _, ...span } = usageRequest(options, Date.now());
    const by = choiceOf(options.by ?? "entity", ["entity", "resource", "limit"], "--by");
    const top = options.top === undefined ? 10 : countOf(options.top, "--top");
    return onStore(context, options, async (limiter) => {
      const items = await unlessInterrupted(context, limiter.refusalTotals({ ...span, by, top }));
      const draw = tableOf<(typeof items)[number]>(context, options, [
        { title: by.toUpperCase(), text: ({ entityId, resource, limit }) => entityId ?? resource ?? limit ?? "" },
        { title: "REFUSED", text: ({ count }) => String(count), right: true },
      ]);
      await printValue(context, options, { items }, () =>
        items.length === 0 ? "No refusals in that time.\n" : draw(items),
      );
      return EXIT.done;
    });
  },
};
