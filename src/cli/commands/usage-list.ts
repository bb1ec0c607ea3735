import { type CommandFile, examples, listOptions } from "../command.ts";
import { onStore } from "../on-store.ts";
import { pageFrom, printList } from "../print.ts";
import { noUsage, type UsageOptions, usageOptions, usageRequest, usedText, windowText } from "../usage-options.ts";

export const usageList: CommandFile<UsageOptions> = {
  configure: (command) => {
    usageOptions(listOptions(command)).addHelpText(
      "after",
      examples("zae-limiter usage list -e key-1 --from 24h", "zae-limiter usage list -w daily --ndjson"),
    );
  },
  run: (context, options) => {
    const request = usageRequest(options, Date.now());
    return onStore(context, options, (limiter) =>
      printList(context, options, {
        page: (page) => pageFrom(limiter.usage({ ...request, ...page })),
        columns: [
          { title: "WINDOW", text: ({ window, windowStartMs }) => windowText(window, windowStartMs) },
          { title: "ENTITY", text: ({ entityId }) => entityId },
          { title: "RESOURCE", text: ({ resource }) => resource },
          { title: "REQUESTS", text: ({ requests }) => String(requests), right: true },
          { title: "TOKENS", text: ({ counters, wouldRefuse }) => usedText(counters, wouldRefuse), flexible: true },
        ],
        empty: noUsage(request),
      }),
    );
  },
};
