import type { LeaseRecord } from "../../src/domain/lease/lease-record.ts";
import { BucketBalance, type StoredShard } from "../simulation/bucket-balance.ts";
import type { LeaseGround } from "./lease-grounds.ts";
import type { Lot } from "./lease-journal.ts";
import { type ChargedLimit, isQuota } from "./lease-limits.ts";
import type { Belonging, PeriodBook } from "./lease-periods.ts";

/** How a limit stands, over all shards of its bucket, in millitokens. */
export interface Standing {
  /** What it lacks of all that there could be. */
  readonly chargedMilli: number;
  /** What records and answers account for: certainly, and at most. */
  readonly leastMilli: number;
  readonly mostMilli: number;
  /** So far apart they may be by rounding: a millitoken a shard. */
  readonly roundingMilli: number;
}

/**
 * Conservation over whole buckets: capacity and what was bought, less what a bucket holds, is what the records of leases and the
 * answers of the present period account for. Told by what is stored, shard by shard, and by what callers were told.
 */
export class LeaseAccount {
  readonly #ground: LeaseGround;
  readonly #charged: readonly ChargedLimit[];
  readonly #periods: PeriodBook;
  readonly #startMs: number;
  /** What an operator has bought. */
  readonly bought: Lot[] = [];

  constructor(ground: LeaseGround, charged: readonly ChargedLimit[], periods: PeriodBook, startMs: number) {
    this.#ground = ground;
    this.#charged = charged;
    this.#periods = periods;
    this.#startMs = startMs;
  }

  /** How each limit stands at the end of a step. */
  standings(
    step: number,
    nowMs: number,
    told: { readonly records: readonly LeaseRecord[]; readonly spent: readonly Lot[]; readonly unsure: readonly Lot[] },
  ): ReadonlyMap<string, Standing | undefined> {
    return new Map(this.#charged.map((one) => [one.place, this.#standing(one, step, nowMs, told)]));
  }

  #standing(
    charged: ChargedLimit,
    step: number,
    nowMs: number,
    told: Parameters<LeaseAccount["standings"]>[2],
  ): Standing | undefined {
    const { place, limit } = charged;
    const shards = this.#ground.stored(charged.bucket);
    // Each write at one instant tells a shard from a millisecond later.
    const atMs = Math.max(nowMs, ...shards.map(({ state }) => state.epochMs));
    const at = { step, atMs, windowStartMs: openWindow(charged, shards, atMs) };
    this.#periods.look(place, at);
    const heldMilli =
      shards.length === 0 ? BigInt(limit.capacity * 1000) : BucketBalance.heldMilli(shards, limit.name, atMs);
    if (heldMilli === undefined) return undefined;
    const sums = { certainly: 0, perhaps: 0, no: 0 };
    const add = (milli: number, of: Belonging) => {
      sums[of] += milli;
    };
    for (const record of told.records) {
      for (const { ticket, milli } of holdingsOf(record, charged)) {
        if (milli > 0) add(milli, this.#periods.heldNow(place, ticket, at));
      }
    }
    const ofLot = ({ tokens, span }: Lot) => add(tokens * 1000, this.#periods.belonging(place, span));
    for (const lot of told.spent) if (lot.place === place) ofLot(lot);
    const bought = this.bought
      .filter((lot) => lot.place === place)
      .reduce((sum, { tokens, span }) => {
        return this.#periods.belonging(place, span) === "no" ? sum : sum + tokens * 1000;
      }, 0);
    const unsure = told.unsure.filter(
      (lot) => lot.place === place && this.#periods.belonging(place, lot.span) !== "no",
    );
    const dripped = isQuota(charged)
      ? 0
      : Math.floor(((atMs - this.#startMs) * limit.refillAmount * 1000) / limit.refillPeriodMs);
    const leastMilli = sums.certainly - dripped;
    return {
      chargedMilli: limit.capacity * 1000 + bought - Number(heldMilli),
      leastMilli,
      mostMilli: leastMilli + sums.perhaps + unsure.reduce((sum, { tokens }) => sum + tokens * 1000, 0),
      roundingMilli: isQuota(charged) && shards.length === 1 ? 0 : shards.length,
    };
  }

  /** Whether a session may be bought for: a window is open. */
  isOpen(charged: ChargedLimit, nowMs: number): boolean {
    return (
      charged.limit.reset !== undefined || openWindow(charged, this.#ground.stored(charged.bucket), nowMs) !== undefined
    );
  }
}

/** When the window of a session began that is open. */
function openWindow({ limit }: ChargedLimit, shards: readonly StoredShard[], atMs: number): number | undefined {
  const { resetAfterMs, name } = limit;
  if (resetAfterMs === undefined) return undefined;
  const starts = shards.map(({ state }) => state.limits.find((one) => one.name === name)?.quota?.windowStartMs);
  return starts.find((startMs) => startMs !== undefined && atMs < startMs + resetAfterMs);
}

/** What a lease holds of a limit, by our own sum. */
function holdingsOf(record: LeaseRecord, { bucket, limit }: ChargedLimit) {
  return record.holdings.flatMap(({ at, ticket, held }) => {
    const resource = record.resources[at[0]];
    const isHere = resource?.resource === bucket.resource && resource.levels[at[1]]?.entityId === bucket.entityId;
    return isHere ? held.filter((one) => one.limit === limit.name).map(({ milli }) => ({ ticket, milli })) : [];
  });
}
