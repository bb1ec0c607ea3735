import { type CommandFile, examples, type ListOptions, listOptions } from "../command.ts";
import { UsageError } from "../exit-code.ts";
import { onStore } from "../on-store.ts";
import { printList } from "../print.ts";

interface BucketListOptions extends ListOptions {
  readonly resource?: string;
}

/** One limit of one bucket. */
interface BucketRow {
  readonly entityId: string;
  readonly resource: string;
  readonly limit: string;
  readonly counts: string;
  readonly available: number;
  readonly capacity: number;
}

export const bucketList: CommandFile<BucketListOptions> = {
  configure: (command) => {
    listOptions(command)
      .option("-r, --resource <resource>", "on which resource")
      .addHelpText("after", examples("zae-limiter bucket list -r gpt-4"))
      .addHelpText("after", "\n--max counts buckets; each has an item for every limit.\n");
  },
  run: (context, options) => {
    const { resource } = options;
    if (resource === undefined) throw new UsageError("On which resource? Give -r RESOURCE.");
    return onStore(context, options, (limiter) =>
      printList<BucketRow>(context, options, {
        page: async (request) => {
          const page = await limiter.listBuckets({ resource, ...request });
          const items = page.flatMap(({ entityId, limits }) =>
            limits.map(({ limit, counts, available, capacity }) => {
              return { entityId, resource, limit, counts, available, capacity };
            }),
          );
          return { items, count: page.length, cursor: page.cursor };
        },
        columns: [
          { title: "ENTITY", text: ({ entityId }) => entityId },
          { title: "LIMIT", text: ({ limit }) => limit },
          { title: "COUNTS", text: ({ counts }) => counts },
          { title: "AVAILABLE", text: ({ available }) => String(available), right: true },
          { title: "CAPACITY", text: ({ capacity }) => String(capacity), right: true },
        ],
        empty: `Nobody has taken from ${resource} yet.`,
      }),
    );
  },
};
