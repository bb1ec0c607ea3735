import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import { hasRoomFor } from "../../domain/bucket/bucket-operations.ts";
import { topUpAmounts, topUpTooLarge } from "../../domain/charge/amounts.ts";
import { noLimits } from "../../domain/charge/charge-errors.ts";
import { checkIdempotencyKey } from "../../domain/lease/idempotency.ts";
import { ValidationError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import type { LevelExplanation, OperationResult } from "../../entry/index.ts";
import { ALLOW_UNKNOWN, BUCKET_ARGUMENTS, type CommandGroup, SCOPE_OPTIONS } from "../command.ts";
import { UsageError } from "../exit-code.ts";
import { definitionText, rowsOf, SOURCE_TEXTS, slotLines } from "../explain-text.ts";
import { requireKnown } from "../known.ts";
import { tokensText } from "../limit-text.ts";
import type { CommandLimiter } from "../on-store.ts";
import { change, list, show } from "../plain-commands.ts";
import { bucketQuery } from "../store-option.ts";
import { tokensOf } from "../values.ts";

interface BucketChangeOptions {
  readonly idempotencyKey?: string;
  readonly allowUnknown?: boolean;
}

/** One bucket, and what is to be done with it. */
interface BucketChange {
  readonly entityId: string;
  readonly resource: string;
  readonly idempotencyKey: string | undefined;
  readonly allowUnknown: boolean | undefined;
}

const KEY = ["--idempotency-key <key>", "repeating the call with the same key within 30 days has no effect"] as const;

const CHANGE_NOTES = ["Exit codes: 4 no such entity or resource, or no limits apply."];

export const bucketReset = change({
  arguments: BUCKET_ARGUMENTS,
  options: [["-l, --limit <name>", "the limit; default: all; repeated", "list"], KEY, ALLOW_UNKNOWN],
  examples: ["bucket reset key-1 gpt-4 -l tpm"],
  notes: CHANGE_NOTES,
  read: (options, args) => ({ ...bucketChange(options, args), limits: options.limit }),
  before: (limiter, asked) => requireKnown(limiter, asked),
  plan: async (limiter, { entityId, resource, limits }) => {
    const known = (await ownLevel(limiter, { entityId, resource })).limits.map(({ limit }) => limit);
    const unknown = limits?.find((name) => !known.includes(name));
    if (unknown === undefined) return { entityId, resource, amounts: {}, repeated: false };
    throw new ValidationError(
      "limit_unknown",
      `No limit "${unknown}" applies to ${entityId} on ${resource}; known limits: ${known.join(", ")}.`,
    );
  },
  make: (limiter, { allowUnknown: _, ...asked }, by) => limiter.resetBucket(given({ ...asked, ...by })),
  text: (result) => operationText(result, "reset"),
});

export const bucketTopUp = change({
  arguments: BUCKET_ARGUMENTS,
  options: [
    ["-a, --amount <name=n>", "how much to add to a limit; repeated or with commas", "list"],
    KEY,
    ALLOW_UNKNOWN,
  ],
  examples: ["bucket top-up key-1 gpt-4 -a tpm=5000 --idempotency-key order-17"],
  notes: CHANGE_NOTES,
  read: (options, args) => {
    const { amount } = options;
    if (amount === undefined) throw new UsageError("No amount is given; give -a NAME=N, such as -a tpm=5000.");
    return { amounts: tokensOf(amount, "-a"), ...bucketChange(options, args) };
  },
  before: (limiter, asked) => requireKnown(limiter, asked),
  plan: (limiter, asked) => plannedTopUp(limiter, asked),
  make: (limiter, { allowUnknown: _, ...asked }, by) => limiter.topUp(given({ ...asked, ...by })),
  text: (result) => operationText(result, "topped up"),
});

function bucketChange(options: BucketChangeOptions, [entityId = "", resource = ""]: readonly string[]): BucketChange {
  const { idempotencyKey, allowUnknown } = options;
  if (idempotencyKey !== undefined) checkIdempotencyKey(idempotencyKey);
  return { entityId, resource, idempotencyKey, allowUnknown };
}

export const BUCKET_COMMANDS: CommandGroup = {
  "bucket show": show({
    arguments: BUCKET_ARGUMENTS,
    examples: ["bucket show key-1 gpt-4"],
    notes: ["Exit codes: 4 no limits apply."],
    read: (_, [entityId = "", resource = ""]) => ({ entityId, resource }),
    get: async (limiter, asked) => ({ resource: asked.resource, ...(await ownLevel(limiter, asked)) }),
    text: (own, view) => {
      const table = view.table(
        [
          { title: "LIMIT", text: ({ explained }) => definitionText(explained), flexible: true },
          {
            title: "AVAILABLE",
            text: ({ explained: { limit, available } }) => tokensText(limit, available),
            right: true,
          },
          { title: "CAPACITY", text: ({ explained: { limit, capacity } }) => tokensText(limit, capacity), right: true },
          { title: "FROM", text: ({ source }) => SOURCE_TEXTS[source] },
        ],
        rowsOf([own]),
      );
      return `${table}${slotLines([own])}`;
    },
  }),
  "bucket list": list({
    options: SCOPE_OPTIONS,
    examples: ["bucket list -r gpt-4", "bucket list -e key-1"],
    notes: ["--max counts buckets; a bucket has one item per limit. DynamoDB needs -e or -r."],
    read: (options, _, context) => bucketQuery(context, options),
    source: (limiter, query) => ({
      page: async (request) => {
        const page = await limiter.listBuckets({ ...query, ...request });
        const items = page.flatMap(({ entityId, resource, limits }) =>
          limits.map(({ limit, counts, available, capacity, neverCharged }) =>
            given({ entityId, resource, limit, counts, available, capacity, neverCharged }),
          ),
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
  }),
  "bucket reset": bucketReset,
  "bucket top-up": bucketTopUp,
};

/** Answers what each limit would gain: a limit that drips has no room above its capacity. */
async function plannedTopUp(
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

/** The result of a top-up or reset, for people. */
function operationText({ entityId, resource, amounts, repeated }: OperationResult, what: string): string {
  if (repeated) return `The idempotency key was used before; ${entityId} on ${resource} is unchanged.\n`;
  const gained = Object.entries(amounts).map(([limit, tokens]) => `${limit} gained ${tokens}`);
  return `${entityId} on ${resource} is ${what}${gained.length === 0 ? "" : `: ${gained.join(", ")}`}.\n`;
}

/** Explains the limits of an entity itself. Throws where it has none there, whatever its parents have. */
async function ownLevel(
  limiter: CommandLimiter,
  { entityId, resource }: { readonly entityId: string; readonly resource: string },
): Promise<LevelExplanation> {
  const [own] = (await limiter.explain({ entityId, resource })).levels;
  if (own === undefined || own.limits.length === 0) throw noLimits([{ bucket: bucketKey(entityId, resource) }]);
  return own;
}
