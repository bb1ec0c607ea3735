import type { Limit } from "../../src/domain/limits/limit.ts";
import type { Calendar } from "../../src/domain/limits/schedule.ts";
import { ModelLimit } from "./model.ts";
import { HeldSlots, type SlotWrite } from "./model-holds.ts";
import {
  goneOn,
  type ModelPeriod,
  type ModelSeed,
  NO_PAST,
  periodBegun,
  UNKNOWN_PAST,
  type WriteKind,
} from "./model-period.ts";
import type { StoredBucket } from "./model-stored.ts";
import type { ModelPart } from "./model-terms.ts";

/** At most N at once, the slow way: N without what is held, each hold until the end that its holder was told. */
export class ModelSlots extends ModelLimit {
  readonly #calendar: Calendar;
  /** Tells what is held since from what was held before a reset, or before it was another kind. */
  #beginning: ModelPeriod;

  constructor(limit: Limit, atMs: number, calendar: Calendar, part?: ModelPart) {
    super(limit, atMs, calendar, undefined, part);
    this.#calendar = calendar;
    this.#beginning = this.#begun();
  }

  override get period(): ModelPeriod {
    return this.#beginning;
  }

  override get nextBoundaryMs(): number {
    return Math.min(super.nextBoundaryMs, this.held.nextEndAfter(this.epochMs));
  }

  override write(kind: WriteKind, milli: number, readingMs: number, { holdMs, endMs }: SlotWrite = {}): void {
    if (milli === 0) return;
    if (kind === "credit") {
      if (this.held.giveBack(endMs, milli)) this.#beginning.granted -= BigInt(milli);
      return;
    }
    this.#beginning.granted += BigInt(milli);
    this.held.hold(milli, this.endFor(Math.max(readingMs, this.epochMs), holdMs));
  }

  /** A hold that begins then lasts for its time, and up to a quarter of the limit's longer: to the end of a slice. */
  endFor(atMs: number, ownMs: number | undefined): number {
    const { holdMs = 60_000 } = this.limit;
    const quarterMs = Math.ceil(holdMs / 4);
    const overMs = (atMs + Math.min(ownMs ?? holdMs, holdMs)) % quarterMs;
    return atMs + Math.min(ownMs ?? holdMs, holdMs) + (overMs === 0 ? 0 : quarterMs - overMs);
  }

  override topUp(): void {
    // There is no balance to fill.
  }

  override cut(): void {
    // What is cut would be lost for good.
    throw new RangeError("Slots are never cut.");
  }

  /** All that is held is forgotten. */
  override begin(): void {
    this.goOn(new HeldSlots(), NO_PAST);
    this.#beginning = this.#begun();
  }

  override levelMilli(): bigint {
    return this.terms.capacity - this.held.milliAfter(this.epochMs);
  }

  override roomMilli(atMs: number): bigint {
    return this.held.milliAfter(Math.max(atMs, this.epochMs));
  }

  override slackMilli(): bigint {
    return this.limit.soft ? 0n : this.levelMilli();
  }

  override isForgettable(readingMs: number): boolean {
    const atMs = Math.max(readingMs, this.epochMs);
    return this.held.milliAfter(atMs) === 0n && this.past.filledAtMs <= atMs;
  }

  #begun(): ModelPeriod {
    return periodBegun(this.limit, this.brimMilli, this.epochMs, this.#calendar);
  }
}

/** A limit that nobody has taken from. */
export function newLimit(limit: Limit, atMs: number, calendar: Calendar, part: ModelPart | undefined): ModelLimit {
  return limit.holdMs === undefined
    ? new ModelLimit(limit, atMs, calendar, undefined, part)
    : new ModelSlots(limit, atMs, calendar, part);
}

/** One that goes on from what a store has, in a period that the ones before had begun. */
export function seededLimit(
  held: StoredBucket["limits"][number],
  part: ModelPart | undefined,
  before: readonly ModelPeriod[],
  atMs: number,
  calendar: Calendar,
): ModelLimit {
  const { limit, tokensMilli, remainder, quota, slices = [] } = held;
  const { topUpMilli: toppedUpMilli = 0, windowStartMs, countedFromMilli } = quota ?? {};
  const seed = { limit, part, tokensMilli, remainder, toppedUpMilli, countedFromMilli, windowStartMs, before };
  const seeded = limit.holdMs === undefined ? ModelLimit.seeded : seededSlots;
  const one = seeded(seed, atMs, calendar);
  one.held = HeldSlots.of(slices);
  return one;
}

function seededSlots({ limit, part, before }: ModelSeed, atMs: number, calendar: Calendar): ModelLimit {
  const slots = new ModelSlots(limit, atMs, calendar, part);
  slots.past = UNKNOWN_PAST;
  Object.assign(slots.period, goneOn(before.filter(({ rule }) => rule === slots.period.rule)));
  return slots;
}

interface Limits {
  readonly limits: readonly ModelLimit[];
  limit(name: string): ModelLimit | undefined;
}

/** An epoch was set back: what slots were before is known, unless that was over by the epoch that was ahead. */
export function pastsKept<Model extends Limits>(model: Model, before: Limits): Model {
  for (const slots of model.limits) {
    const known = before.limit(slots.limit.name);
    if (!(slots instanceof ModelSlots && known instanceof ModelSlots)) continue;
    const { filledAtMs, filledByMs } = known.past;
    if (filledAtMs > known.epochMs || filledByMs === NO_PAST.filledByMs) slots.past = known.past;
  }
  return model;
}

/**
 * A limit that becomes another one: of another kind than slots, or slots from now on, it is another model. What is held stays until it
 * ends. What stops being slots is empty while an earlier rule would not have filled it, and full after that; where only the store can say
 * which of both, there are two.
 */
export function changedModel(
  known: ModelLimit,
  limit: Limit,
  calendar: Calendar,
  part: ModelPart | undefined,
): readonly [ModelLimit, ...ModelLimit[]] {
  const wasSlots = known instanceof ModelSlots;
  if (wasSlots === (limit.holdMs !== undefined)) {
    known.change(limit);
    return [known];
  }
  const { epochMs, held } = known;
  const past = wasSlots ? known.past : known.pastIfChanged;
  const next = () => {
    const other = newLimit(limit, epochMs, calendar, part);
    other.goOn(held.copy(), past);
    return other;
  };
  if (!wasSlots || past.filledByMs <= epochMs) return [next()];
  const empty = next();
  empty.cut(0n, epochMs);
  if (empty.period !== undefined) empty.period.allowed = 0n;
  // A session that is not full has begun.
  if (empty.period !== undefined && limit.resetAfterMs !== undefined) empty.period.windowStartMs = epochMs;
  return past.filledAtMs > epochMs ? [empty] : [empty, next()];
}
