import { type BucketKey, bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { availableMilli, type BucketState, findLimit, type LimitState } from "../../src/domain/bucket/bucket-state.ts";
import type { Amount } from "../../src/domain/charge/amounts.ts";
import { kindOf, rulesOf } from "../../src/domain/limits/kinds/table.ts";
import type { Calendar } from "../../src/domain/limits/schedule.ts";
import type { ThresholdEvent } from "../../src/ports/events.ts";
import type { Journal } from "./journal.ts";
import { shownKey } from "./operation.ts";

/** One percentage of one limit: of a quota in one period. */
interface Kept {
  /** When it was first taken from: takes are reported in the order in which their requests were decided. */
  readonly fromMs: number;
  /** How often it could be told: beginnings in which it was reached, or of what refills crossings. */
  may: number;
  told: number;
  /** Beginnings in which it was reached. */
  readonly beginnings: Set<string>;
  /** Beginnings in which its taker may have believed that it was: others had given back what it did not know of. */
  readonly estimated: Set<string>;
  /** It may be reached anew. */
  isArmed: boolean;
  /** It may be told anew: meanwhile the limit was a quota, whose marks replace those of what refills. */
  mayBeArmed: boolean;
  /** How often it was reached in such a case. */
  perhaps: number;
  /** Under which rule it refilled last. */
  rule: string;
}

/**
 * How a bucket was taken from. `marks`: its state has the marks that it left; `isEstimated`: it was not shown to the taker; `isHeard`: the taker
 * knew that some limit has percentages.
 */
interface Taking {
  readonly nowMs: number;
  readonly marks: boolean;
  readonly isEstimated?: boolean;
  readonly isHeard?: boolean;
}

/**
 * How often each percentage of each limit was reached, by what takes left, and how often it was told. It knows no marks: it goes by
 * levels, by the ends of periods, and by the number that tells beginnings within one apart.
 */
export class ThresholdLedger {
  readonly #journal: Journal;
  readonly #calendar: Calendar;
  readonly #kept = new Map<string, Kept>();
  /** What was told and is not booked yet: where it belongs is known once the take that told it is reported. */
  #heard: ThresholdEvent[] = [];
  /** The session that last had an end: one that becomes longer or shorter while it lasts is the same, whatever its end. */
  readonly #sessions = new Map<string, number>();
  /** Buckets that were in shards: what one of them left says nothing of the whole. */
  readonly #split = new Set<string>();

  constructor(journal: Journal, calendar: Calendar) {
    this.#journal = journal;
    this.#calendar = calendar;
  }

  /** A take or a debit was applied, and left the bucket in this state. */
  took(
    { id }: BucketKey,
    state: BucketState,
    amounts: readonly Amount[],
    { nowMs, marks, isEstimated = false, isHeard = true }: Taking,
  ): void {
    if (state.shards !== undefined || state.limits.some(({ part }) => part !== undefined)) this.#split.add(id);
    this.#forgets(id, state);
    this.#goesBy(id, state);
    if (!marks) this.#shown(id, state, nowMs);
    for (const { limit: name, milli } of amounts) {
      const held = findLimit(state, name);
      const { notifyAt } = held?.limit ?? {};
      if (held === undefined || notifyAt === undefined || held.terms.capacityMilli === 0) continue;
      const capacity = BigInt(held.terms.capacityMilli);
      const after = capacity - BigInt(availableMilli(state, held, nowMs));
      const before = after - BigInt(milli) < 0n ? 0n : after - BigInt(milli);
      const isLow = (percent: number) => before * 100n <= capacity * BigInt(Math.max(0, percent - 10));
      // Also those that are not asked for at present: they may be again.
      const { hasPeriods } = rulesOf(held.limit);
      if (!hasPeriods)
        this.#seen(id, name, (kept, percent) => {
          if (isLow(percent)) kept.isArmed = true;
        });
      else
        this.#seen(id, name, (kept) => {
          kept.mayBeArmed = true;
        });
      const endMs = this.#endOf(held, Math.max(nowMs, state.epochMs));
      // Nothing is used of a session that has not begun. What has no end is kept for the rules that refill.
      if (hasPeriods && endMs === undefined) continue;
      const period = this.#periodOf(id, held, endMs);
      // Takes of one transaction are told together: what is of another period belongs to a take that is reported next.
      this.#book(({ limit, entityId, resource, resetsAtMs }) => {
        return limit === name && bucketKey(entityId, resource).id === id && resetsAtMs === endMs;
      });
      for (const percent of notifyAt) {
        const isReached = after * 100n >= capacity * BigInt(percent);
        const kept = this.#of(id, name, percent, period, Math.max(nowMs, state.epochMs));
        if ((isEstimated || !isHeard) && hasPeriods) kept.estimated.add(`${held.quota?.resets}`);
        if (hasPeriods) this.#inPeriod(kept, held, isReached && isHeard);
        else refilling(kept, held, isReached, isLow(percent));
        if (isReached) this.#journal.count("thresholds reached by takes");
        if (marks && isReached && (held.told ?? 0) < percent) {
          this.#journal.violation(`${shownKey(id)}: ${percent} % of ${name} are used, and not marked`);
        }
      }
    }
  }

  /**
   * A change of limits, too, may leave so much used that a percentage is reached. Whoever looks at the bucket then tells it: also somebody whose
   * take was before the change, and whose answer was lost.
   */
  #shown(bucketId: string, state: BucketState, nowMs: number): void {
    for (const held of state.limits) {
      const { notifyAt = [] } = held.limit;
      const endMs = this.#endOf(held, Math.max(nowMs, state.epochMs));
      const capacity = BigInt(held.terms.capacityMilli);
      if (endMs === undefined || capacity === 0n) continue;
      const used = capacity - BigInt(availableMilli(state, held, nowMs));
      for (const percent of notifyAt) {
        if (used * 100n < capacity * BigInt(percent)) continue;
        const period = this.#periodOf(bucketId, held, endMs);
        this.#of(bucketId, held.name, percent, period, Math.max(nowMs, state.epochMs)).estimated.add(
          `${held.quota?.resets}`,
        );
      }
    }
  }

  heard(event: ThresholdEvent): void {
    this.#journal.count("thresholds told");
    this.#heard.push(event);
  }

  #book(isDue: (event: ThresholdEvent) => boolean): void {
    for (const { entityId, resource, limit, percent, resetsAtMs, atMs } of this.#heard.filter(isDue)) {
      const { id } = bucketKey(entityId, resource);
      const sinceMs = this.#sessions.get([id, limit, resetsAtMs].join("\t"));
      this.#of(id, limit, percent, sinceMs === undefined ? resetsAtMs : `since ${sinceMs}`, atMs).told++;
    }
    this.#heard = this.#heard.filter((event) => !isDue(event));
  }

  /** By what a period is known: its end, of a session its beginning. */
  #periodOf(bucketId: string, { name, quota }: LimitState, endMs: number | undefined): number | string | undefined {
    if (quota?.windowStartMs === undefined) return endMs;
    this.#sessions.set([bucketId, name, endMs].join("\t"), quota.windowStartMs);
    return `since ${quota.windowStartMs}`;
  }

  /** What was told too often. `all`: of what it is asked whether everything that was reached was told. */
  problems(all: "everything" | "quotas" | "none"): string[] {
    this.#book(() => true);
    return [...this.#kept].flatMap(([key, { may, told, beginnings, estimated, perhaps }]) => {
      const [bucketId = "", name, percent] = key.split("\t");
      if (this.#split.has(bucketId)) return [];
      const what = `${shownKey(bucketId)}: ${percent} % of ${name}`;
      const believed = [...estimated].filter((beginning) => !beginnings.has(beginning)).length;
      if (told > may + perhaps + believed) return [`${what} was told ${told} times, and reached ${may} times`];
      const isAsked = all === "everything" || (all === "quotas" && beginnings.size > 0);
      if (!isAsked || told >= may || this.#isBelowTold(key)) return [];
      if (all === "quotas" && this.#isBeforeTold(key)) return [];
      return [`${what} was reached ${may} times, and told ${told} times`];
    });
  }

  /** Where other percentages were asked for meanwhile: those below one that was told count as told with it. */
  #isBelowTold(key: string): boolean {
    const [bucketId, name, percent, endMs] = key.split("\t");
    return [...this.#kept].some(([other, { told }]) => {
      const [itsBucket, itsName, its, itsEnd] = other.split("\t");
      const isSame = itsBucket === bucketId && itsName === name && itsEnd === endMs;
      return isSame && told > 0 && Number(its) > Number(percent);
    });
  }

  /**
   * A later period of the limit, or a later rule, was told already: who is late with a mark beside its take cannot see any more whether another told
   * it, and tells nothing. Where the epoch of a bucket was set back, the later one may have the earlier instant: it was reported later, or has the
   * higher number.
   */
  #isBeforeTold(key: string): boolean {
    const [bucketId, name, , period] = key.split("\t");
    const own = this.#kept.get(key);
    const rank = [...this.#kept.keys()].indexOf(key);
    return [...this.#kept].some(([other, kept], i) => {
      const [itsBucket, itsName, , its] = other.split("\t");
      if (itsBucket !== bucketId || itsName !== name || its === period || kept.told === 0) return false;
      return i > rank || own === undefined || kept.fromMs >= own.fromMs || numberOf(kept) > numberOf(own);
    });
  }

  #inPeriod(kept: Kept, { quota }: LimitState, isReached: boolean): void {
    if (isReached) kept.beginnings.add(`${quota?.resets}`);
    // A session that has not begun has no end, as slots have none.
    kept.may = Math.max(kept.may, kept.beginnings.size);
  }

  /** Each percentage of what refills. */
  #seen(bucketId: string, name: string, each: (kept: Kept, percent: number) => void): void {
    for (const [key, kept] of this.#kept) {
      const [itsBucket, itsName, percent, endMs] = key.split("\t");
      if (itsBucket === bucketId && itsName === name && endMs === "") each(kept, Number(percent));
    }
  }

  /** A limit that was left out, and had all there is, is forgotten with its mark: it begins anew when it comes back. */
  #forgets(bucketId: string, state: BucketState): void {
    for (const [key, kept] of this.#kept) {
      const [itsBucket, itsName = "", , endMs] = key.split("\t");
      if (itsBucket === bucketId && endMs === "" && findLimit(state, itsName) === undefined) kept.isArmed = true;
    }
  }

  /** A limit that went by another rule meanwhile has no mark any more, also where nobody took from it then. */
  #goesBy(bucketId: string, { limits }: BucketState): void {
    for (const held of limits) {
      if (rulesOf(held.limit).hasPeriods) continue;
      this.#seen(bucketId, held.name, (kept) => {
        if (kept.rule !== ruleOf(held)) kept.mayBeArmed = true;
      });
    }
  }

  #endOf({ limit, quota }: LimitState, atMs: number): number | undefined {
    const rules = rulesOf(limit);
    if (!rules.hasPeriods || quota === undefined || rules.isClosed(quota)) return undefined;
    return rules.endMs(limit, quota, atMs, this.#calendar);
  }

  #of(bucketId: string, name: string, percent: number, period: number | string | undefined, fromMs: number): Kept {
    const key = [bucketId, name, percent, period ?? ""].join("\t");
    let kept = this.#kept.get(key);
    if (kept === undefined) {
      kept = {
        fromMs,
        may: 0,
        told: 0,
        beginnings: new Set(),
        estimated: new Set(),
        isArmed: true,
        rule: "",
        mayBeArmed: false,
        perhaps: 0,
      };
      this.#kept.set(key, kept);
    }
    return kept;
  }
}

/** Once for each time that it was reached since it was seen ten points below. */
function refilling(kept: Kept, held: LimitState, isReached: boolean, isLow: boolean): void {
  const rule = ruleOf(held);
  if (isLow || rule !== kept.rule) kept.isArmed = true;
  kept.rule = rule;
  if (!isReached || !(kept.isArmed || kept.mayBeArmed)) return;
  if (kept.isArmed) kept.may++;
  else kept.perhaps++;
  kept.isArmed = false;
  kept.mayBeArmed = false;
}

/** The number of its beginning tells whether it went by another rule meanwhile. */
function ruleOf({ limit, quota, resetsBefore }: LimitState): string {
  return `${kindOf(limit)} ${quota?.resets ?? resetsBefore}`;
}

/** The number of the last beginning in which it was reached. */
function numberOf({ beginnings }: Kept): number {
  return Math.max(...Array.from(beginnings, Number));
}
