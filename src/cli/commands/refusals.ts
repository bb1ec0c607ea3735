import { type CommandFile, type CommandGroup, examples, type GlobalOptions, listOptions } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { onStore } from "../on-store.ts";
import { pageFrom, printList, printValue, unlessInterrupted } from "../print.ts";
import { tableOf } from "../table.ts";
import { type UsageOptions, usageOptions, usageRequest, windowText } from "../usage-options.ts";
import { choiceOf, countOf } from "../values.ts";

interface RefusalsListOptions extends UsageOptions {
  readonly limit?: string;
}

const refusalsList: CommandFile<RefusalsListOptions> = {
  configure: (command) => {
    usageOptions(listOptions(command))
      .option("-l, --limit <name>", "only refusals by this limit")
      .addHelpText(
        "after",
        examples("zae-limiter refusals list -e key-1 --from 24h", "zae-limiter refusals list -w daily -l tpm --ndjson"),
      );
  },
  run: (context, options) => {
    const request = usageRequest(options, Date.now());
    const named = options.limit === undefined ? {} : { limit: options.limit };
    return onStore(context, options, (limiter) =>
      printList(context, options, {
        page: ({ limit: pageSize, ...page }) => pageFrom(limiter.refusals({ ...request, ...named, pageSize, ...page })),
        columns: [
          { title: "WINDOW", text: ({ window, windowStartMs }) => windowText(window, windowStartMs) },
          { title: "ENTITY", text: ({ entityId }) => entityId },
          { title: "RESOURCE", text: ({ resource }) => resource },
          { title: "LIMIT", text: ({ limit }) => limit },
          { title: "OF", text: ({ level, total }) => (total ? `${level} in total` : level) },
          { title: "REFUSED", text: ({ count }) => String(count), right: true },
        ],
        empty: "No refusals in that time.",
      }),
    );
  },
};

interface RefusalsTopOptions extends GlobalOptions {
  readonly by?: string;
  readonly top?: string;
  readonly start?: string;
  readonly end?: string;
}

const refusalsTop: CommandFile<RefusalsTopOptions> = {
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

export const REFUSAL_COMMANDS: CommandGroup = {
  "refusals list": refusalsList,
  "refusals top": refusalsTop,
};
