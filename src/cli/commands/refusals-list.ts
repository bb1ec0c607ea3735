import { type CommandFile, examples, listOptions } from "../command.ts";
import { onStore } from "../on-store.ts";
import { pageFrom, printList } from "../print.ts";
import { type UsageOptions, usageOptions, usageRequest, windowText } from "../usage-options.ts";

interface Options extends UsageOptions {
  readonly limit?: string;
}

export const refusalsList: CommandFile<Options> = {
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
