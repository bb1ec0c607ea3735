import type { Amount } from "../../src/domain/amounts.ts";
import type { Held } from "../../src/ports/bucket-store.ts";
import type { Item, ItemKey, WriteTrace } from "../../src/ports/item-store.ts";
import { namesOf, SHARD_COUNT } from "../../src/protocol/attributes.ts";
import type { ModelBucket, ModelPins } from "../../src/testing/model-bucket.ts";
import type { ConditionalCalls } from "./conditional-calls.ts";

/** One amount that was given back to one shard. */
export interface GivenBack {
  readonly key: ItemKey;
  readonly model: ModelBucket;
  readonly held: Held;
  readonly amount: Amount;
  readonly trace: WriteTrace;
  readonly before: Item | undefined;
  readonly after: Item;
  readonly calls: ConditionalCalls;
}

/** Whether an amount belongs into the period that the limit is in; then it is the model's again too. */
export function givenBack({ key, model, held, amount, trace, before, after, calls }: GivenBack): boolean {
  model.cross(trace.readingMs);
  // Gathered, each shard gave some of the limits: where it was taken counts for that limit alone. What drips has no pin.
  const all = calls.pinsOf(held).filter(({ limits }) => limits.includes(amount.limit));
  const count = Number(after[SHARD_COUNT] ?? 1);
  const own = all.filter(({ shard }) => shard % count === key.shard);
  const pins = (own.length > 0 ? own : all).map((one) => one.pins);
  if (pins.length === 0) pins.push(NO_PINS);
  const answers = new Set(pins.map((one) => model.limit(amount.limit)?.isOf(one.get(amount.limit)) ?? "no"));
  // A period that a clock far ahead had begun too early is begun once more, and called by the same name.
  const isEarly = all.some(({ repairs }) => repairs !== calls.repairsOf(key.bucket.id));
  // Gathered from shards of different periods, or joined from them: either may be meant.
  const isEither = answers.size > 1 || answers.has("either") || isEarly;
  const { tk } = namesOf(amount.limit);
  const isOf = isEither ? after[tk] !== before?.[tk] : answers.has("yes");
  if (isOf) model.limit(amount.limit)?.write("credit", amount.milli, trace.readingMs);
  return isOf;
}

const NO_PINS: ModelPins = new Map();
