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

/**
 * The most that one limit of a bucket may hold, written from the promise alone. It is not forgotten by being lowered,
 * changed or left out: only when it is full, and every rule it went by since would have filled it too. Time is that of one
 * clock. Where shards of a bucket go by different rules, the more generous counts; so it is a bound and not a level.
 */
export class PromisedLimit {
  #rules: InForce[];
  /** It is not there, or not on every shard: where it was not, it begins anew. */
  #isMissing = false;
  #atMs: number;
  #units: number;
  #toppedUp = 0;
  #windowEndMs: number | undefined;
  /** When the last of the rules that were replaced would have filled it. */
  #filledAtMs = Number.NEGATIVE_INFINITY;
  /** When they would have, had it been empty: until then a session that comes about by a change has begun with it. */
  #countsUntilMs = Number.NEGATIVE_INFINITY;
  /** What nobody can say of: debts that other shards do not pay, give-backs that may land later. */
  #doubtUnits = 0;

  constructor(rules: readonly Rule[], atMs: number) {
    this.#atMs = atMs;
    this.#rules = rules.map((rule) => ({ rule, era: eraOf(rule) }));
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

  /**
   * What it goes by from now on, on any of the shards; none: it is not there. `isEverywhere`: every shard has it. True where
   * it had been forgotten.
   */
  goBy(rules: readonly Rule[], nowMs: number, isEverywhere: boolean): boolean {
    this.advance(nowMs);
    const mayBegin = this.#isMissing && this.#isForgettable;
    this.#isMissing = rules.length === 0 || !isEverywhere;
    if (rules.length === 0 || (sameRules(rules, this.#rules) && !mayBegin)) return false;
    if (!mayBegin) {
      this.#replace(rules);
      return false;
    }
    this.#rules = rules.map((rule) => ({ rule, era: eraOf(rule) }));
    this.#begin();
    return true;
  }

  advance(toMs: number): void {
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
   * Its shards are ahead of the clock one by one, as each of them is written at one instant: while some have begun another
   * period, what is left of the last one may be taken from the others.
   */
  runAhead(toMs: number): void {
    const [left, eras] = [Math.max(0, this.#units), this.eras];
    this.advance(toMs);
    if (this.eras.some((era) => !eras.includes(era))) this.#doubtUnits += left;
  }

  /** Something was granted: how much of it is more than there may have been, in millitokens; 0 when nothing is. */
  take(milli: number, roundingMilli: number): number {
    const overUnits = milli * MILLI - this.#units - this.#doubtUnits - roundingMilli * MILLI;
    this.#spend(milli);
    return milli === 0 ? 0 : Math.max(0, Math.ceil(overUnits / MILLI));
  }

  debit(milli: number, isPaidByAll: boolean): void {
    this.#spend(milli);
    if (!isPaidByAll) this.#doubtUnits += milli * MILLI;
  }

  /** `isCertain`: it was applied now, and not perhaps later. */
  giveBack(milli: number, eras: readonly object[], isCertain: boolean): void {
    if (!this.eras.some((era) => eras.includes(era))) return;
    if (isCertain) this.#units = Math.min(this.#brimUnits, this.#units + milli * MILLI);
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
    this.#begin();
  }

  #begin(): void {
    this.#toppedUp = 0;
    this.#windowEndMs = undefined;
    this.#filledAtMs = Number.NEGATIVE_INFINITY;
    this.#countsUntilMs = Number.NEGATIVE_INFINITY;
    this.#doubtUnits = 0;
    this.#units = this.#brimUnits;
  }

  #replace(rules: readonly Rule[]): void {
    const before = this.#rules;
    const gone = before.filter(({ rule }) => !rules.some((one) => isSame(one, rule)));
    for (const { rule } of gone) {
      this.#filledAtMs = Math.max(this.#filledAtMs, this.#fullAtMs(rule));
      this.#countsUntilMs = Math.max(this.#countsUntilMs, this.#fullFromEmptyMs(rule));
    }
    const wasClosed = before.every(({ rule }) => rule.sessionMs !== undefined) && this.#windowEndMs === undefined;
    const startMs = this.#windowEndMs === undefined ? undefined : this.#windowEndMs - sessionOf(before);
    this.#rules = rules.map((rule) => {
      const known = before.find((one) => isSame(one.rule, rule)) ?? before.find((one) => isOneKind(one.rule, rule));
      return { rule, era: known?.era ?? eraOf(rule) };
    });
    if (rules.every(({ refill }) => refill > 0)) this.#toppedUp = 0;
    this.#units = Math.min(this.#units, this.#brimUnits);
    const sessionMs = sessionOf(this.#rules);
    this.#windowEndMs = undefined;
    if (sessionMs === 0) return;
    // A session that nobody has begun is full, whatever it holds from now on.
    if (wasClosed && this.#filledAtMs <= this.#atMs) this.#units = this.#brimUnits;
    else if (startMs !== undefined && startMs + sessionMs <= this.#atMs) this.#renew((rule) => rule.sessionMs);
    else if (startMs !== undefined || this.#units < this.#brimUnits || this.#countsUntilMs > this.#atMs)
      this.#windowEndMs = (startMs ?? this.#atMs) + sessionMs;
  }

  #spend(milli: number): void {
    this.#units -= milli * MILLI;
    if (milli > 0) this.#openWindow();
  }

  #openWindow(): void {
    const sessionMs = sessionOf(this.#rules);
    if (sessionMs > 0) this.#windowEndMs ??= this.#atMs + sessionMs;
  }

  #renew(concerns: (rule: Rule) => unknown): void {
    this.#toppedUp = 0;
    this.#windowEndMs = undefined;
    this.#units = this.#brimUnits;
    for (const one of this.#rules) if (concerns(one.rule)) one.era = eraOf(one.rule);
  }

  #drip(ms: number): void {
    const perMs = Math.max(...this.#rules.map(({ rule }) => unitsPerMs(rule)));
    const room = this.#brimUnits - this.#units;
    if (perMs === 0 || room <= 0) return;
    this.#units += Math.min(room, Math.min(ms, Math.ceil(room / perMs)) * perMs);
  }

  get #isForgettable(): boolean {
    const isFull = this.#units >= this.#brimUnits - MILLI;
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
