import type { Amount } from "../../src/domain/charge/amounts.ts";
import type { Held } from "../../src/ports/bucket-store.ts";
import type { Item, WriteTrace } from "../../src/ports/item-store.ts";
import { namesOf, SHARD_COUNT } from "../../src/protocol/item/attributes.ts";
import type { ModelLimit } from "../kit/model.ts";
import type { ModelBucket, ModelPeriod } from "../kit/model-bucket.ts";
import type { ConditionalCalls } from "./conditional-calls.ts";

/** One amount that was given back to one shard. */
export interface GivenBack {
  readonly model: ModelBucket;
  readonly held: Held;
  readonly amount: Amount;
  readonly trace: WriteTrace;
  readonly before: Item | undefined;
  readonly after: Item;
  readonly calls: ConditionalCalls;
}

/**
 * Whether a give-back belongs into the period that the bucket is in, by the ticket alone: then the bucket must have it again,
 * whatever the shard made of it. Of a period that was begun before its time, what the shard made of it.
 */
export function belongs(
  { model, held, amount, calls }: Pick<GivenBack, "model" | "held" | "amount" | "calls">,
  isOf: boolean,
): boolean {
  const period = model.limit(amount.limit)?.period;
  const { id } = held.bucket;
  const alike = calls.pinsOf(held, amount.limit).filter((pinned) => isAlike(pinned.period, period));
  if (alike.some((pinned) => pinned.period.isEarly)) return isOf;
  return alike.some((pinned) => calls.isSince(id, pinned));
}

/** Whether an amount belongs into the period that the limit is in; then it is the model's again too. */
export function givenBack({ model, held, amount, trace, before, after, calls }: GivenBack): boolean {
  model.cross(trace.readingMs);
  const limit = model.limit(amount.limit);
  const pinned = calls.pinsOf(held, amount.limit);
  // Taken from a quota that drips by now: whatever was set back since, it is of no period that there is.
  if (limit?.period === undefined && pinned.length > 0) return false;
  const periods = pinned.length === 0 ? [undefined] : pinned.map(({ period }) => period);
  const answers = new Set(periods.map((period) => limit?.isOf(period) ?? "no"));
  // Each shard begins the same period by itself: whether the store knows it for the same is for conservation to judge. One that a clock
  // far ahead had begun too early is begun once more, and called by the same name.
  const isNamesake =
    !answers.has("yes") &&
    (pinned.some(({ period }) => isAlike(period, limit?.period)) ||
      (Number(before?.[SHARD_COUNT] ?? 1) > 1 &&
        pinned.some(({ period }) => isBegunApart(period, limit?.period)) &&
        held.ticket.pins.some(
          (pin) => pin.limit === amount.limit && pin.resets === before?.[namesOf(amount.limit).rn],
        )));
  // Gathered from shards of different periods, or joined from them: either may be meant.
  const isEither = answers.size > 1 || answers.has("either") || isNamesake;
  const { tk } = namesOf(amount.limit);
  const isOf = isEither ? limit !== undefined && hasGained(limit, amount, after[tk]) : answers.has("yes");
  if (isOf) limit?.write("credit", amount.milli, trace.readingMs);
  return isOf;
}

/** Whether a shard holds more by an amount that was given back, after all that time has done to it: as far as there is room. */
function hasGained(limit: ModelLimit, { milli }: Amount, tk: Item[string] | undefined): boolean {
  const held = limit.levelMilli(Number.NEGATIVE_INFINITY);
  const room = Number(limit.brimMilli - held);
  return 2 * (Number(tk) - Number(held)) > Math.min(milli, room);
}

/**
 * Each shard gets another rule by itself, at an instant of its own, or as a new quota where it had forgotten it: the same for all,
 * if they know it by one number.
 */
function isBegunApart(taken: ModelPeriod, now: ModelPeriod | undefined): boolean {
  if (now === undefined || taken.rule !== now.rule || taken.untilMs !== now.untilMs) return false;
  return taken.began === "changed" || now.began === "changed";
}

function isAlike(taken: ModelPeriod, now: ModelPeriod | undefined): boolean {
  if (now === undefined || taken.rule !== now.rule || taken.byHand !== now.byHand) return false;
  // Windows of a session are told apart by when they opened.
  return taken.untilMs === now.untilMs && taken.windowStartMs === now.windowStartMs;
}

/** A request that is undone closes the window that it opened, where nothing of it is used any more. */
export function windowClosed(model: ModelBucket, name: string, after: Item): void {
  const limit = model.limit(name);
  if (limit?.windowStartMs === undefined || namesOf(name).ws in after) return;
  if (limit.levelMilli(model.epochMs) === limit.brimMilli && limit.toppedUpMilli === 0n) limit.begin("undoing");
}
