import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import { hasRoomFor } from "../../domain/bucket/bucket-operations.ts";
import { topUpAmounts, topUpTooLarge } from "../../domain/charge/amounts.ts";
import { noLimits } from "../../domain/charge/charge-errors.ts";
import { checkIdempotencyKey } from "../../domain/lease/idempotency.ts";
import { ValidationError } from "../../domain/names/errors.ts";
import type { LevelExplanation, OperationResult } from "../../entry/index.ts";
import { type BucketQueryOptions, bucketQuery } from "../bucket-query.ts";
import {
  type CommandFile,
  type CommandGroup,
  examples,
  type GlobalOptions,
  type ListOptions,
  listOptions,
  repeated,
} from "../command.ts";
import type { CommandLimiter } from "../command-limiter.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { definitionText, type ExplainedRow, rowsOf, slotLines, sourceText } from "../explain-text.ts";
import { allowUnknownOption, requireKnown } from "../known.ts";
import { tokensText } from "../limit-print.ts";
import { onStore } from "../on-store.ts";
import { principalOf } from "../principal.ts";
import { printChange, printList, printValue } from "../print.ts";
import { tableOf } from "../table.ts";
import { tokensOf } from "../values.ts";

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

const bucketList: CommandFile<BucketListOptions> = {
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

const bucketShow: CommandFile<GlobalOptions> = {
  configure: (command) => {
    command
      .argument("<entity>", "the entity")
      .argument("<resource>", "the resource")
      .addHelpText("after", examples("zae-limiter bucket show key-1 gpt-4"))
      .addHelpText("after", "\nExit codes: 4 no limits apply.\n");
  },
  run: (context, options, [entityId = "", resource = ""]) =>
    onStore(context, options, async (limiter) => {
      const own = await ownLevel(limiter, { entityId, resource });
      const draw = tableOf<ExplainedRow>(context, options, [
        { title: "LIMIT", text: ({ explained }) => definitionText(explained), flexible: true },
        { title: "AVAILABLE", text: ({ explained }) => tokensText(explained.limit, explained.available), right: true },
        { title: "CAPACITY", text: ({ explained }) => tokensText(explained.limit, explained.capacity), right: true },
        { title: "FROM", text: ({ source }) => sourceText(source) },
      ]);
      await printValue(context, options, { resource, ...own }, () => `${draw(rowsOf([own]))}${slotLines([own])}`);
      return EXIT.done;
    }),
};

interface BucketResetOptions extends GlobalOptions {
  readonly limit?: readonly string[];
  readonly idempotencyKey?: string;
  readonly allowUnknown?: boolean;
}

export const bucketReset: CommandFile<BucketResetOptions> = {
  configure: (command) => {
    command
      .argument("<entity>", "the entity")
      .argument("<resource>", "the resource")
      .option("-l, --limit <name>", "the limit; default: all; repeated", repeated)
      .option("--idempotency-key <key>", "repeating the call with the same key within 30 days has no effect")
      .addOption(allowUnknownOption())
      .addHelpText("after", examples("zae-limiter bucket reset key-1 gpt-4 -l tpm"))
      .addHelpText("after", "\nExit codes: 4 no such entity or resource, or no limits apply.\n");
  },
  run: (context, options, [entityId = "", resource = ""]) =>
    onStore(context, options, async (limiter) => {
      const { limit: limits, idempotencyKey, allowUnknown } = options;
      if (idempotencyKey !== undefined) checkIdempotencyKey(idempotencyKey);
      await requireKnown(limiter, { entityId, resource, allowUnknown });
      if (options.dryRun === true) {
        const own = await ownLevel(limiter, { entityId, resource });
        const known = own.limits.map(({ limit }) => limit);
        const unknown = limits?.find((name) => !known.includes(name));
        if (unknown !== undefined) {
          throw new ValidationError(
            "limit_unknown",
            `No limit "${unknown}" applies to ${entityId} on ${resource}; known limits: ${known.join(", ")}.`,
          );
        }
        const planned = { entityId, resource, amounts: {}, repeated: false };
        await printChange(context, options, planned, () => operationText(planned, "reset"));
        return EXIT.done;
      }
      const result = await limiter.resetBucket({
        ...{ entityId, resource, ...principalOf(context, options) },
        ...(limits === undefined ? {} : { limits }),
        ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
      });
      await printChange(context, options, result, () => operationText(result, "reset"));
      return EXIT.done;
    }),
};

interface BucketTopUpOptions extends GlobalOptions {
  readonly amount?: readonly string[];
  readonly idempotencyKey?: string;
  readonly allowUnknown?: boolean;
}

export const bucketTopUp: CommandFile<BucketTopUpOptions> = {
  configure: (command) => {
    command
      .argument("<entity>", "the entity")
      .argument("<resource>", "the resource")
      .option("-a, --amount <name=n>", "how much to add to a limit; repeated or with commas", repeated)
      .option("--idempotency-key <key>", "repeating the call with the same key within 30 days has no effect")
      .addOption(allowUnknownOption())
      .addHelpText("after", examples("zae-limiter bucket top-up key-1 gpt-4 -a tpm=5000 --idempotency-key order-17"))
      .addHelpText("after", "\nExit codes: 4 no such entity or resource, or no limits apply.\n");
  },
  run: (context, options, [entityId = "", resource = ""]) => {
    const { amount, idempotencyKey, allowUnknown } = options;
    if (amount === undefined) throw new UsageError("No amount is given; give -a NAME=N, such as -a tpm=5000.");
    const amounts = tokensOf(amount, "-a");
    if (idempotencyKey !== undefined) checkIdempotencyKey(idempotencyKey);
    return onStore(context, options, async (limiter) => {
      await requireKnown(limiter, { entityId, resource, allowUnknown });
      const result =
        options.dryRun === true
          ? await planned(limiter, { entityId, resource, amounts })
          : await limiter.topUp({
              ...{ entityId, resource, amounts, ...principalOf(context, options) },
              ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
            });
      await printChange(context, options, result, () => operationText(result, "topped up"));
      return EXIT.done;
    });
  },
};

/** What each limit would gain: a limit that drips has no room above its capacity. */
async function planned(
  limiter: CommandLimiter,
  { entityId, resource, amounts }: { entityId: string; resource: string; amounts: Readonly<Record<string, number>> },
) {
  const { limits: held } = await ownLevel(limiter, { entityId, resource });
  const bucket = bucketKey(entityId, resource);
  const checked = topUpAmounts(
    amounts,
    bucket,
    held.map(({ limit }) => ({ name: limit })),
  );
  const gained = checked.map(({ limit: name }) => {
    const tokens = amounts[name] ?? 0;
    const { kind, capacity = 0, available = 0 } = held.find(({ limit }) => limit === name) ?? {};
    if (kind === "drip") return [name, Math.min(tokens, Math.max(0, capacity - available))] as const;
    if (!hasRoomFor(capacity * 1000, tokens * 1000)) throw topUpTooLarge(name, bucket, tokens);
    return [name, tokens] as const;
  });
  return { entityId, resource, amounts: Object.fromEntries(gained), repeated: false };
}

/** What a top-up or reset did, for people. */
function operationText({ entityId, resource, amounts, repeated }: OperationResult, what: string): string {
  if (repeated) return `The idempotency key was used before; ${entityId} on ${resource} is unchanged.\n`;
  const gained = Object.entries(amounts).map(([limit, tokens]) => `${limit} gained ${tokens}`);
  return `${entityId} on ${resource} is ${what}${gained.length === 0 ? "" : `: ${gained.join(", ")}`}.\n`;
}

/** What applies to an entity itself. Throws where it has no limits there, whatever its parents have. */
async function ownLevel(
  limiter: CommandLimiter,
  { entityId, resource }: { readonly entityId: string; readonly resource: string },
): Promise<LevelExplanation> {
  const [own] = (await limiter.explain({ entityId, resource })).levels;
  if (own === undefined || own.limits.length === 0) throw noLimits([{ bucket: bucketKey(entityId, resource) }]);
  return own;
}

export const BUCKET_COMMANDS: CommandGroup = {
  "bucket show": bucketShow,
  "bucket list": bucketList,
  "bucket reset": bucketReset,
  "bucket top-up": bucketTopUp,
};
