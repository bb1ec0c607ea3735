import { type BucketKey, bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { Amount } from "../../src/domain/charge/amounts.ts";
import type { UsageSnapshot } from "../../src/domain/charge/usage.ts";

interface Hour {
  readonly entityId: string;
  readonly resource: string;
  readonly hourMs: number;
  requests: number;
  readonly milli: Map<string, bigint>;
  /** How far counters may have been from nothing meanwhile, also what was given back since. */
  readonly gross: Map<string, bigint>;
}

const HOUR_MS = 3_600_000;
const MOST_MILLI = BigInt(Number.MAX_SAFE_INTEGER);

/** After the name of a limit: for how long slots of it were held. */
const HELD = " held";

export type LateReadings = "in their own hour" | "in the open hour";

/** What the usage of every hour must be after the writes that were reported to it. */
export class UsageLedger {
  #hours = new Map<string, Hour>();
  readonly #keptMs: number;
  readonly #late: LateReadings;
  /** The open hour of each bucket, where readings behind it count in that. */
  readonly #openMs = new Map<string, number>();
  /** Buckets of which it is not known when an hour was opened: of those, only what all hours say together is certain. */
  readonly #doubted = new Set<string>();
  /** What was given back where nobody can say whether it was counted. */
  #perhapsBack: { readonly hour: HourKey; readonly what: string; readonly milli: bigint }[] = [];
  /** Buckets of which it is not known for how long slots were held. */
  readonly #untimed = new Set<string>();
  #latestMs = Number.NEGATIVE_INFINITY;

  /**
   * `keptMs`: how long the store keeps an hour that has ended. `late`: where a reading counts that is behind the hour of its bucket.
   */
  constructor(keptMs: number, late: LateReadings) {
    this.#keptMs = keptMs;
    this.#late = late;
  }

  /** The store was called with this reading: by the latest of them, hours that it need not keep may be gone. */
  readAt(readingMs: number): void {
    this.#latestMs = Math.max(this.#latestMs, readingMs);
  }

  /** A bucket was made: its hour is that of the reading. */
  made({ id }: BucketKey, readingMs: number): void {
    this.#openMs.set(id, hourOf(readingMs));
  }

  /** A bucket that is there has answered a take, granted or not, a debit or a give-back: the hour of the reading is open by then. */
  opened({ id }: BucketKey, readingMs: number): void {
    this.#openMs.set(id, Math.max(this.#openMs.get(id) ?? hourOf(readingMs), hourOf(readingMs)));
  }

  /** A call ended without telling how far it came: it may have opened the hour of its reading. */
  perhapsOpened({ id }: BucketKey, readingMs: number): void {
    const openMs = this.#openMs.get(id);
    if (openMs !== undefined && hourOf(readingMs) > openMs) this.#doubted.add(id);
  }

  /** The bucket is forgotten, or deleted. */
  gone({ id }: BucketKey): void {
    this.#openMs.delete(id);
  }

  count(
    { id, entityId, resource }: BucketKey,
    amounts: readonly Amount[],
    change: {
      readonly sign: 1 | -1;
      readonly requests: number;
      readonly nowMs: number;
      readonly bypass: boolean;
      /** Soft limits that the request left below zero. */
      readonly overdrawn: readonly string[];
      /** Shadows that the request passed by; absent: none. */
      readonly passed?: readonly string[];
    },
  ): void {
    const hour = this.#hourOf({ id, entityId, resource }, change.nowMs);
    hour.requests += change.requests;
    const add = (name: string, milli: number) => addTo(hour, name, BigInt(milli));
    for (const { limit, milli } of amounts) {
      add(limit, change.sign * milli);
      if (change.bypass) add(`${limit} bypassed`, change.sign * milli);
    }
    for (const limit of change.overdrawn) add(`${limit} overdrawn`, 1000);
    for (const limit of change.passed ?? []) add(`${limit} passed by`, 1000);
  }

  /** What was counted in all hours of some entities, in millitokens by limit and bucket. */
  net(isAsked: (entityId: string) => boolean): ReadonlyMap<string, bigint> {
    const sums = new Map<string, bigint>();
    for (const { entityId, resource, milli } of this.#hours.values()) {
      for (const [what, counted] of isAsked(entityId) ? milli : []) {
        // Behind a space stands what is counted beside the tokens of a limit.
        const place = `${what} of ${entityId}/${resource}`;
        if (!what.includes(" ")) sums.set(place, (sums.get(place) ?? 0n) + counted);
      }
    }
    return sums;
  }

  /** How long slots of a bucket were held is not known: its time was wrong. */
  doubtHeld({ id }: BucketKey): void {
    this.#untimed.add(id);
  }

  /** Slots of a limit were held: so many thousandths of one, times milliseconds. */
  held(bucket: BucketKey, limit: string, milliMs: bigint, nowMs: number): void {
    addTo(this.#hourOf(bucket, nowMs), limit + HELD, milliMs);
  }

  /** It was given back to a bucket that is forgotten, and whether the store still had usage of the bucket is not known. */
  perhapsGivenBack(bucket: BucketKey, amounts: readonly Amount[], nowMs: number, bypass: boolean): void {
    const hour = { entityId: bucket.entityId, resource: bucket.resource, hourMs: this.#hourMsOf(bucket, nowMs) };
    for (const { limit, milli } of amounts) {
      for (const what of bypass ? [limit, `${limit} bypassed`] : [limit]) {
        this.#perhapsBack.push({ hour, what, milli: BigInt(milli) });
      }
    }
  }

  #hourMsOf({ id }: BucketKey, nowMs: number): number {
    const ownMs = hourOf(nowMs);
    return this.#late === "in their own hour" ? ownMs : Math.max(ownMs, this.#openMs.get(id) ?? ownMs);
  }

  #hourOf(bucket: BucketKey, nowMs: number): Hour {
    const { entityId, resource } = bucket;
    const hourMs = this.#hourMsOf(bucket, nowMs);
    const key = `${hourMs}\n${entityId}\n${resource}`;
    const hour = this.#hours.get(key) ?? {
      entityId,
      resource,
      hourMs,
      requests: 0,
      milli: new Map(),
      gross: new Map(),
    };
    this.#hours.set(key, hour);
    return hour;
  }

  /**
   * Whether the store has usage of a bucket: then what is given back is counted, also where the bucket itself is forgotten. Hours that it
   * need not keep any more go when it comes to that, so by those alone it perhaps has.
   */
  knows({ entityId, resource }: BucketKey): "surely" | "perhaps" | "not" {
    const hours = [...this.#hours.values()].filter((one) => one.entityId === entityId && one.resource === resource);
    if (hours.length === 0) return "not";
    return hours.some((hour) => this.#isKept(hour)) ? "surely" : "perhaps";
  }

  #isKept({ hourMs }: HourKey): boolean {
    return hourMs + HOUR_MS > this.#latestMs - this.#keptMs;
  }

  /** A request that is as if it had never been had left a limit below zero (`rpm overdrawn`), or passed by one (`rpm passed by`). */
  undo({ entityId, resource }: BucketKey, count: string, hourMs: number): void {
    const hour = this.#hours.get(`${hourMs}\n${entityId}\n${resource}`);
    hour?.milli.set(count, (hour.milli.get(count) ?? 0n) - 1000n);
  }

  forget(entityId: string): void {
    this.forgetWhere((hour) => hour.entityId === entityId);
  }

  forgetWhere(isForgotten: (hour: { readonly entityId: string; readonly hourMs: number }) => boolean): void {
    this.#hours = new Map([...this.#hours].filter(([, hour]) => !isForgotten(hour)));
    this.#perhapsBack = this.#perhapsBack.filter(({ hour }) => !isForgotten(hour));
  }

  /** Where hourly snapshots differ from what was applied; those of nothing at all may be there or not. */
  problems(snapshots: readonly UsageSnapshot[]): string[] {
    const [due, told, perhapsBack] = [1, 2, 3].map(() => new Map<string, bigint>()) as [Sums, Sums, Sums];
    const inexact = new Set<string>();
    const add = (sums: Sums, name: string, milli: bigint) => sums.set(name, (sums.get(name) ?? 0n) + milli);
    const nameOf = (hour: HourKey, what: string) =>
      this.#doubted.has(bucketKey(hour.entityId, hour.resource).id) ? nameIn(hour, what) : hourName(hour, what);
    const keptFromMs = this.#latestMs - this.#keptMs;
    for (const hour of this.#hours.values()) {
      if (!this.#isKept(hour)) continue;
      // Beyond 2^53 millitokens in an hour, numbers of JavaScript cannot say it any more.
      for (const [limit, gross] of hour.gross) if (gross > MOST_MILLI) inexact.add(nameOf(hour, limit));
      for (const [limit, milli] of hour.milli) add(due, nameOf(hour, limit), milli);
      const isTimed = !this.#untimed.has(bucketKey(hour.entityId, hour.resource).id);
      for (const limit of hour.milli.keys()) if (!isTimed && limit.endsWith(HELD)) inexact.add(nameOf(hour, limit));
      add(due, nameOf(hour, "requests"), BigInt(hour.requests));
    }
    for (const { hour, what, milli } of this.#perhapsBack) {
      if (this.#isKept(hour)) add(perhapsBack, nameOf(hour, what), milli);
    }
    for (const [name, milli] of perhapsBack) if (milli > MOST_MILLI) inexact.add(name);
    for (const snapshot of snapshots.filter(({ windowEndMs }) => windowEndMs > keptFromMs)) {
      const { entityId, resource, windowStartMs, counters, overdrafts, wouldRefuse, bypassed, heldMs, requests } =
        snapshot;
      const hour = { entityId, resource, hourMs: windowStartMs };
      const tell = (counts: Readonly<Record<string, number>>, what: string) => {
        for (const [limit, tokens] of Object.entries(counts)) {
          add(told, nameOf(hour, limit + what), BigInt(Math.round(tokens * 1000)));
          if (what === HELD && this.#untimed.has(bucketKey(entityId, resource).id))
            inexact.add(nameOf(hour, limit + what));
        }
      };
      tell(counters, "");
      tell(overdrafts, " overdrawn");
      tell(bypassed, " bypassed");
      tell(wouldRefuse, " passed by");
      tell(heldMs, HELD);
      add(told, nameOf(hour, "requests"), BigInt(requests));
    }
    const names = [...new Set([...due.keys(), ...told.keys()])].filter((name) => !inexact.has(name));
    return [...names].flatMap((name) => {
      const [is, must] = [told.get(name) ?? 0n, due.get(name) ?? 0n];
      const least = must - (perhapsBack.get(name) ?? 0n);
      return is >= least && is <= must ? [] : [`usage of ${name} is ${is}, not ${must}`];
    });
  }
}

type Sums = Map<string, bigint>;

interface HourKey {
  readonly entityId: string;
  readonly resource: string;
  readonly hourMs: number;
}

function addTo({ milli: counted, gross }: Hour, name: string, milli: bigint): void {
  counted.set(name, (counted.get(name) ?? 0n) + milli);
  gross.set(name, (gross.get(name) ?? 0n) + (milli < 0n ? -milli : milli));
}

function hourOf(readingMs: number): number {
  return readingMs - (readingMs % HOUR_MS);
}

function hourName({ entityId, resource, hourMs }: HourKey, what: string): string {
  return `${entityId}/${resource} at ${hourMs}, ${what}`;
}

function nameIn({ entityId, resource }: HourKey, what: string): string {
  return `${entityId}/${resource} in all hours, ${what}`;
}
