/** A limit as the promise speaks of it. Amounts in whole tokens. */
export interface Rule {
  readonly name: string;
  readonly capacity: number;
  readonly refill: number;
  readonly periodMs: number;
  /** Of a calendar quota: its periods are so long, from midnight in UTC on. */
  readonly everyMs?: number;
  /** Of a session quota: the length of its window. */
  readonly sessionMs?: number;
}

/** A rule as it stands on the bucket. What was taken in one era is given back in the same or not at all. */
interface InForce {
  readonly rule: Rule;
  era: object;
}

/** One millitoken, in units: a multiple of every refill period, so that a millisecond of refill is whole. */
const MILLI = 25_200_000;

const DRIPS = {};

/** No bucket's time is ahead of the clock by more: a millisecond for each write of one happening. */
const AHEAD_MAX_MS = 100;

/**
 * The most that one limit of a bucket may hold, written from the promise alone. It is not forgotten by being lowered,
 * changed or left out: only when it is full, and every rule it went by since would have filled it too. Time is that of one
 * clock. Where shards of a bucket go by different rules, the more generous counts; so it is a bound and not a level.
 */
export class PromisedLimit {
  #rules: InForce[];
  /** On which part of the shards it is not: where it was not, it begins anew. */
  #missing = 0;
  /** The least that it held when full, since it was on every shard. */
  #leastTokens = Number.POSITIVE_INFINITY;
  #atMs: number;
  /** By so much the time of its shards is ahead of that, and what has dripped in by it. */
  #aheadMs = 0;
  #aheadUnits = 0;
  #units: number;
  #toppedUp = 0;
  #windowEndMs: number | undefined;
  /** When the last of the rules that were replaced would have filled it. */
  #filledAtMs = Number.NEGATIVE_INFINITY;
  /** When they would have, had it been empty: until then a session that comes about by a change has begun with it. */
  #countsUntilMs = Number.NEGATIVE_INFINITY;
  /** What nobody can say of: debts that other shards do not pay, give-backs that may land later. */
  #doubtUnits = 0;
  /** What was cut off by a lower rule while something is under way that may have come before. */
  #cutUnits = 0;
  /** When its last window ended. */
  #endedMs = Number.NEGATIVE_INFINITY;
  /** How often it began to go by another rule. */
  #changes = 0;
  /** It holds just what the promise says, as far as is known: it has gone by one rule since it began. */
  #isExact = true;

  constructor(rules: readonly Rule[], atMs: number) {
    this.#atMs = atMs;
    this.#rules = different(rules).map((rule) => ({ rule, era: eraOf(rule) }));
    this.#units = this.#brimUnits;
  }

  /** In millitokens, rounded down. */
  get mostMilli(): number {
    return Math.floor((this.#units + this.#doubtUnits) / MILLI);
  }

  get capacityMilli(): number {
    return Math.floor(this.#brimUnits / MILLI);
  }

  /** By which a give-back is known to belong to what is here. */
  get eras(): readonly object[] {
    return this.#rules.map(({ era }) => era);
  }

  get changes(): number {
    return this.#changes;
  }

  /** Of a quota: what its period must hold, to the millitoken; undefined where nobody can say. */
  get exactMilli(): number | undefined {
    const [only, ...more] = this.#rules;
    const isQuota = only?.rule.refill === 0 && more.length === 0;
    // When a window ends depends on the bucket's time, which may be ahead of the clock.
    if (only?.rule.sessionMs !== undefined && this.#windowEndMs === undefined) return undefined;
    return isQuota && this.#isExact && !this.#isMissing && this.#doubtUnits === 0 ? this.mostMilli : undefined;
  }

  /** What a give-back of these eras, made now, adds: all of it, nothing, or one of both. */
  takesBack(eras: readonly object[], changes: number): "all" | "nothing" | "either" {
    const own = this.eras;
    // A window of the bucket may end a little later than that of the clock.
    if (this.#atMs < this.#endedMs + AHEAD_MAX_MS) return "either";
    if (!own.some((era) => eras.includes(era))) return changes === this.#changes ? "nothing" : "either";
    const isOne = new Set([...own, ...eras]).size === 1;
    return isOne && changes === this.#changes ? "all" : "either";
  }

  /**
   * What it goes by from now on, on each of the shards that have it; none: it is not there. True where it had been forgotten.
   */
  goBy(rules: readonly Rule[], nowMs: number, shards: number): boolean {
    this.advance(nowMs);
    const mayBegin = this.#isMissing && this.#isForgettable;
    const missing = this.#missing;
    this.#missing = 1 - rules.length / shards;
    this.#leastTokens = Math.min(
      missing === 0 ? Number.POSITIVE_INFINITY : this.#leastTokens,
      ...this.#rules.map(({ rule }) => rule.capacity),
    );
    this.#heardOf(missing - this.#missing, rules);
    if (rules.length === 0 || (sameRules(rules, this.#rules) && !mayBegin)) return false;
    if (!mayBegin) {
      this.#replace(rules);
      return false;
    }
    // Where some shard had it still, or it may not have been full, it need not have begun anew.
    const isAnew = missing === 1 && this.#doubtUnits === 0 && this.#missing === 0;
    this.#rules = different(rules).map((rule) => ({ rule, era: eraOf(rule) }));
    this.#begin();
    this.#changes++;
    this.#isExact = isAnew;
    return true;
  }

  /** Shards that hear of the limit only now begin with their share of what it is by now, not of what it was. */
  #heardOf(part: number, rules: readonly Rule[]): void {
    const tokens = Math.max(0, ...rules.map(({ capacity }) => capacity - this.#leastTokens));
    if (part > 0) this.#doubtUnits += part * tokens * 1000 * MILLI;
  }

  advance(toMs: number): void {
    this.#catchUp(toMs - this.#atMs);
    while (this.#atMs < toMs) {
      const nextMs = Math.min(this.#nextResetMs, toMs);
      this.#drip(nextMs - this.#atMs);
      this.#atMs = nextMs;
      if (this.#windowEndMs !== undefined && nextMs >= this.#windowEndMs) this.#renew(({ sessionMs }) => sessionMs);
      if (this.#rules.some(({ rule: { everyMs } }) => everyMs !== undefined && nextMs % everyMs === 0)) {
        this.#renew(({ everyMs }) => everyMs !== undefined && nextMs % everyMs === 0);
      }
    }
  }

  /**
   * Writes at one instant tell the bucket from a millisecond later each: its time is ahead of the clock by so much, shard by
   * shard. What drips in by then may be taken now; and while some shards have begun another period, what is left of the last
   * one may be taken from the others.
   */
  runAhead(toMs: number): void {
    if (this.#nextResetMs <= toMs) {
      const left = Math.max(0, this.#units);
      this.advance(toMs);
      this.#doubtUnits += left;
      this.#isExact = false;
      return;
    }
    const aheadMs = Math.max(0, toMs - this.#atMs);
    // By the rule that it went by when it came to be ahead.
    this.#aheadUnits += Math.max(0, aheadMs - this.#aheadMs) * this.#unitsPerMs;
    this.#aheadMs = aheadMs;
  }

  /** Something was granted: how much of it is more than there may have been, in millitokens; 0 when nothing is. */
  take(milli: number, roundingMilli: number): number {
    const mostUnits = this.#units + this.#doubtUnits + this.#aheadUnits + this.#cutUnits;
    const overUnits = milli * MILLI - mostUnits - roundingMilli * MILLI;
    // It may have been taken before that was cut off.
    const before = Math.min(this.#cutUnits, milli * MILLI);
    this.#cutUnits -= before;
    this.#units += before;
    if (before > 0) this.#isExact = false;
    this.#spend(milli);
    return milli === 0 ? 0 : Math.max(0, Math.ceil(overUnits / MILLI));
  }

  /** The bucket is in shards from now on: what is given back to one of them does not pay what the others owe. */
  split(): void {
    this.#doubtUnits += Math.max(0, -this.#units);
  }

  /** Nothing is under way: what was cut off is gone. */
  settle(): void {
    this.#cutUnits = 0;
  }

  debit(milli: number, isPaidByAll: boolean): void {
    this.#spend(milli);
    if (!isPaidByAll) this.#doubtUnits += milli * MILLI;
  }

  /**
   * `isCertain`: it was applied now, and not perhaps later. `isApart`: its shards may have begun the same period at different
   * times, and one of them may know it for its own.
   */
  giveBack(milli: number, eras: readonly object[], isCertain: boolean, isApart: boolean): void {
    const isOf = this.eras.some((era) => eras.includes(era));
    if (!isOf && !isApart) return;
    if (isOf && isCertain) this.#units = Math.min(this.#brimUnits, this.#units + milli * MILLI);
    else this.#doubtUnits += milli * MILLI;
  }

  topUp(milli: number): void {
    if (this.#rules.some(({ rule }) => rule.refill === 0)) this.#toppedUp += milli * MILLI;
    this.#units = Math.min(this.#brimUnits, this.#units + milli * MILLI);
    if (milli > 0) this.#openWindow();
  }

  /** An operator began anew. */
  reset(): void {
    for (const one of this.#rules) one.era = eraOf(one.rule);
    // A window is known by the millisecond in which it opened: by the same one, if it was forgotten in between.
    if (this.#windowEndMs !== undefined) this.#endedMs = this.#atMs;
    this.#begin();
    // What was taken before is told from what is taken after to the end of the period.
    for (const { rule } of this.#rules) {
      if (rule.everyMs !== undefined) this.#filledAtMs = Math.max(this.#filledAtMs, this.#fullFromEmptyMs(rule));
    }
  }

  #begin(): void {
    this.#toppedUp = 0;
    this.#windowEndMs = undefined;
    this.#filledAtMs = Number.NEGATIVE_INFINITY;
    this.#countsUntilMs = Number.NEGATIVE_INFINITY;
    this.#doubtUnits = 0;
    this.#isExact = true;
    this.#units = this.#brimUnits;
  }

  #replace(rules: readonly Rule[]): void {
    const before = this.#rules;
    const brimUnits = this.#brimUnits;
    this.#changes++;
    this.#isExact = false;
    // What had dripped in by the time of the shards is there, and the new rule counts from then on.
    this.#units = Math.min(this.#units + this.#aheadUnits, Math.max(this.#units, this.#brimUnits));
    this.#aheadUnits = 0;
    this.#aheadMs = 0;
    const gone = before.filter(({ rule }) => !rules.some((one) => isSame(one, rule)));
    for (const { rule } of gone) {
      this.#filledAtMs = Math.max(this.#filledAtMs, this.#fullAtMs(rule));
      this.#countsUntilMs = Math.max(this.#countsUntilMs, this.#fullFromEmptyMs(rule));
    }
    const wasClosed = before.every(({ rule }) => rule.sessionMs !== undefined) && this.#windowEndMs === undefined;
    const startMs = this.#windowEndMs === undefined ? undefined : this.#windowEndMs - sessionOf(before);
    this.#rules = different(rules).map((rule) => {
      const known = before.find((one) => isSame(one.rule, rule)) ?? before.find((one) => isOneKind(one.rule, rule));
      return { rule, era: known?.era ?? eraOf(rule) };
    });
    if (rules.every(({ refill }) => refill > 0)) this.#toppedUp = 0;
    // A quota keeps what was used. Where shards go by different amounts, only some of them lose by a lower one.
    const areQuotas = [...before, ...this.#rules].every(({ rule }) => rule.refill === 0);
    const gained = areQuotas ? this.#brimUnits - brimUnits : 0;
    const isOne = before.length === 1 && this.#rules.length === 1;
    const kept = this.#units + (isOne ? gained : Math.max(0, gained));
    const units = Math.min(kept, this.#brimUnits);
    this.#cutUnits += Math.max(0, this.#units - units);
    this.#units = units;
    const sessionMs = sessionOf(this.#rules);
    this.#windowEndMs = undefined;
    if (sessionMs === 0) return;
    // A session that nobody has begun is full, whatever it holds from now on.
    if (wasClosed && this.#filledAtMs <= this.#atMs) this.#units = this.#brimUnits;
    else if (startMs !== undefined && startMs + sessionMs <= this.#atMs) this.#renew((rule) => rule.sessionMs);
    else if (startMs !== undefined || this.#units < this.#brimUnits || this.#countsUntilMs > this.#atMs)
      this.#windowEndMs = (startMs ?? this.#atMs) + sessionMs;
  }

  /** The clock comes closer to the time of the shards. */
  #catchUp(ms: number): void {
    if (this.#aheadMs === 0 || ms <= 0) return;
    const left = Math.max(0, this.#aheadMs - ms);
    this.#aheadUnits = Math.ceil((this.#aheadUnits * left) / this.#aheadMs);
    this.#aheadMs = left;
  }

  get #isMissing(): boolean {
    return this.#missing > 0;
  }

  #spend(milli: number): void {
    this.#units -= milli * MILLI;
    if (milli > 0) this.#openWindow();
  }

  #openWindow(): void {
    const sessionMs = sessionOf(this.#rules);
    if (sessionMs === 0 || this.#windowEndMs !== undefined) return;
    if (this.#atMs < this.#endedMs + AHEAD_MAX_MS) this.#isExact = false;
    this.#windowEndMs = this.#atMs + sessionMs;
  }

  #renew(concerns: (rule: Rule) => unknown): void {
    this.#toppedUp = 0;
    if (this.#windowEndMs !== undefined) this.#endedMs = this.#windowEndMs;
    this.#windowEndMs = undefined;
    this.#units = this.#brimUnits;
    this.#isExact = this.#rules.length === 1;
    for (const one of this.#rules) if (concerns(one.rule)) one.era = eraOf(one.rule);
  }

  get #unitsPerMs(): number {
    return Math.max(...this.#rules.map(({ rule }) => unitsPerMs(rule)));
  }

  #drip(ms: number): void {
    const perMs = this.#unitsPerMs;
    const room = this.#brimUnits - this.#units;
    if (perMs === 0 || room <= 0) return;
    this.#units += Math.min(room, Math.min(ms, Math.ceil(room / perMs)) * perMs);
  }

  get #isForgettable(): boolean {
    // What may be full may have been forgotten.
    const isFull = this.#units + this.#doubtUnits >= this.#brimUnits - MILLI;
    return isFull && this.#toppedUp === 0 && this.#windowEndMs === undefined && this.#filledAtMs <= this.#atMs;
  }

  /** When it would be full by a rule, from what it holds now. */
  #fullAtMs(rule: Rule): number {
    const missing = rule.capacity * 1000 * MILLI - this.#units;
    if (missing <= MILLI) return this.#atMs;
    if (rule.everyMs !== undefined) return (Math.floor(this.#atMs / rule.everyMs) + 1) * rule.everyMs;
    if (rule.sessionMs !== undefined) return this.#windowEndMs ?? this.#atMs;
    return this.#atMs + Math.ceil(missing / unitsPerMs(rule)) - 1;
  }

  #fullFromEmptyMs(rule: Rule): number {
    if (rule.everyMs !== undefined) return (Math.floor(this.#atMs / rule.everyMs) + 1) * rule.everyMs;
    if (rule.sessionMs !== undefined) return this.#windowEndMs ?? this.#atMs;
    const missing = rule.capacity * 1000 * MILLI - Math.min(0, this.#units);
    return this.#atMs + Math.ceil(missing / unitsPerMs(rule));
  }

  get #nextResetMs(): number {
    let nextMs = this.#windowEndMs ?? Number.POSITIVE_INFINITY;
    for (const { rule } of this.#rules) {
      const { everyMs } = rule;
      if (everyMs !== undefined) nextMs = Math.min(nextMs, (Math.floor(this.#atMs / everyMs) + 1) * everyMs);
    }
    return nextMs;
  }

  get #brimUnits(): number {
    return Math.max(...this.#rules.map(({ rule }) => rule.capacity)) * 1000 * MILLI + this.#toppedUp;
  }
}

export function isSame(a: Rule, b: Rule): boolean {
  const isTerms = a.capacity === b.capacity && a.refill === b.refill && (a.refill === 0 || a.periodMs === b.periodMs);
  return isTerms && a.everyMs === b.everyMs && a.sessionMs === b.sessionMs;
}

/** Full again by the same clock: what was taken under the one is given back under the other. */
function isOneKind(a: Rule, b: Rule): boolean {
  return a.everyMs === b.everyMs && (a.sessionMs === undefined) === (b.sessionMs === undefined);
}

/** What several shards go by alike, once. */
function different(rules: readonly Rule[]): Rule[] {
  return rules.filter((rule, i) => rules.findIndex((one) => isSame(one, rule)) === i);
}

function sameRules(rules: readonly Rule[], inForce: readonly InForce[]): boolean {
  const isAmong = (rule: Rule) => inForce.some((one) => isSame(one.rule, rule));
  return rules.every(isAmong) && inForce.every((one) => rules.some((rule) => isSame(one.rule, rule)));
}

function sessionOf(rules: readonly InForce[]): number {
  return Math.max(0, ...rules.map(({ rule }) => rule.sessionMs ?? 0));
}

// What drips has no periods: a give-back counts when it is applied, whichever lease it comes from.
function eraOf({ refill }: Rule): object {
  return refill > 0 ? DRIPS : {};
}

function unitsPerMs({ refill, periodMs }: Rule): number {
  return refill === 0 ? 0 : (refill * 1000 * MILLI) / periodMs;
}
