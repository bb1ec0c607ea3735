import { type BucketQueryOptions, bucketQuery } from "../bucket-query.ts";
import { type CommandFile, examples, type ListOptions, listOptions } from "../command.ts";
import { tokensText } from "../limit-print.ts";
import { onStore } from "../on-store.ts";
import { printList } from "../print.ts";

interface BucketListOptions extends ListOptions, BucketQueryOptions {}

/** One limit of one bucket. */
interface BucketRow {
  readonly entityId: string;
  readonly resource: string;
  readonly limit: string;
  readonly counts: string;
  readonly available: number;
  readonly capacity: number;
  readonly neverCharged?: true;
}

export const bucketList: CommandFile<BucketListOptions> = {
  configure: (command) => {
    listOptions(command)
      .option("-e, --entity <id>", "only this entity")
      .option("-r, --resource <resource>", "only this resource")
      .addHelpText("after", examples("zae-limiter bucket list -r gpt-4", "zae-limiter bucket list -e key-1"))
      .addHelpText("after", "\n--max counts buckets; a bucket has one item per limit. DynamoDB needs -e or -r.\n");
  },
  run: (context, options) => {
    const query = bucketQuery(context, options);
    return onStore(context, options, (limiter) =>
      printList<BucketRow>(context, options, {
        page: async (request) => {
          const page = await limiter.listBuckets({ ...query, ...request });
          const items = page.flatMap(({ entityId, resource, limits }) =>
            limits.map(({ limit, counts, available, capacity, neverCharged }) => {
              const row = { entityId, resource, limit, counts, available, capacity };
              return neverCharged === true ? { ...row, neverCharged } : row;
            }),
          );
          return { items, count: page.length, cursor: page.cursor };
        },
        columns: [
          { title: "ENTITY", text: ({ entityId }) => entityId },
          { title: "RESOURCE", text: ({ resource }) => resource },
          { title: "LIMIT", text: ({ limit }) => limit },
          { title: "COUNTS", text: ({ counts }) => counts },
          { title: "AVAILABLE", text: ({ limit, available }) => tokensText(limit, available), right: true },
          { title: "CAPACITY", text: ({ limit, capacity }) => tokensText(limit, capacity), right: true },
          { title: "", text: ({ neverCharged }) => (neverCharged === true ? "nothing ever charged" : "") },
        ],
        empty: "No tokens have been taken yet.",
      }),
    );
  },
};
