import type { Limit } from "../../src/domain/limits/limit.ts";
import type { Calendar } from "../../src/domain/limits/schedule.ts";
import { type HeldSlots, ModelStanding, type SlotWrite } from "./model-holds.ts";
import {
  divisor,
  floorDiv,
  goneOn,
  isSamePeriod,
  leastLeft,
  type Mark,
  type ModelPeriod,
  type ModelSeed,
  NO_PAST,
  type Past,
  type PastDoubt,
  PERIODS_MS,
  pastAt,
  pastUntil,
  pastWith,
  periodBegun,
  periodEnd,
  ruleOf,
  UNKNOWN_PAST,
  type WriteKind,
} from "./model-period.ts";
import {
  capacityMost,
  exactTerms,
  type InForce,
  inForceAt,
  isSameAmount,
  lesser,
  MOST,
  type ModelPart,
  owedMost,
  partOf,
  windowChangeAfter,
} from "./model-terms.ts";

/**
 * The slow, obvious limiter: nothing is rounded, nothing is summed up. It keeps the list of all that was taken and asks,
 * for each entry, how much can be left if the bucket was full just then. What the promise of the acquire protocol says for
 * every run of writes is here the definition of the level; that is what makes it an oracle. Time is walked from one
 * boundary to the next: at a window's the terms change, at a reset the list is thrown away.
 */
export class ModelLimit extends ModelStanding {
  readonly #calendar: Calendar;
  readonly #periodsMs: readonly number[];
  /** One millitoken in units: a multiple of every refill period, so that a millisecond of refill is whole. */
  readonly #unitsPerMilli: bigint;
  /** Of a bucket that is split up: which part this is. */
  readonly #part: ModelPart | undefined;
  #limit: Limit;
  #marks: Mark[] = [];
  #inForce: InForce;
  #drippedBefore = 0n;
  #sinceMs: number;
  #taken = 0n;
  #toppedUp = 0n;
  #period: ModelPeriod;
  /** Of a quota: the capacity that its period has, whatever windows came since; what was used and cut off is counted from it. */
  #capacity: bigint;
  /** A session that came about while only the store knows to the millitoken whether an earlier rule counts still. */
  #pastDoubt: PastDoubt | undefined;
  /** Whether a session has begun depends on a fraction of a millitoken: when its window opened if it is the other way. */
  #otherStart: { windowStartMs: number | undefined } | undefined;

  /** Nobody has taken from it: full. */
  constructor(limit: Limit, atMs: number, calendar: Calendar, periodsMs = PERIODS_MS, part?: ModelPart) {
    super(atMs);
    this.#calendar = calendar;
    this.#part = part;
    this.#periodsMs = periodsMs;
    this.#unitsPerMilli = periodsMs.map(BigInt).reduce((all, one) => (all * one) / divisor(all, one), 1n);
    this.#limit = limit;
    this.#sinceMs = atMs;
    this.#inForce = this.#inForceAt(atMs);
    this.#period = this.#begun();
    this.#capacity = this.#inForce.capacity;
    this.#mark(atMs, this.#inForce.capacity, false);
  }

  /** One that goes on from how a store has it; what it holds is what its period allows from now on. */
  static seeded(seed: ModelSeed, atMs: number, calendar: Calendar): ModelLimit {
    const { limit, part, tokensMilli, remainder, toppedUpMilli, countedFromMilli, windowStartMs, before } = seed;
    const model = new ModelLimit(limit, atMs, calendar, PERIODS_MS, part);
    if (countedFromMilli !== undefined) model.#capacity = BigInt(countedFromMilli);
    model.#toppedUp = BigInt(toppedUpMilli);
    model.past = UNKNOWN_PAST;
    const begun = model.#begun();
    const same = before.filter(({ rule, untilMs }) => rule === begun.rule && untilMs === begun.untilMs);
    model.#period = { ...begun, ...goneOn(same), windowStartMs, allowed: BigInt(tokensMilli) };
    const fraction = (BigInt(remainder) * model.#unitsPerMilli) / BigInt(model.#inForce.periodMs);
    const brim = BigInt(tokensMilli) * model.#unitsPerMilli + fraction;
    model.#marks = [{ dripped: model.#dripped(atMs), brim, takenBefore: 0n, spends: true }];
    return model;
  }

  /** What earlier rules have to say if this one is replaced now. */
  get pastIfChanged(): Past {
    const [level, { windowStartMs }] = [this.levelMilli(this.epochMs), this.#period];
    const held = { level, brim: this.brimMilli, inForce: this.#inForce, windowStartMs };
    return pastWith(this.past, this.#limit, held, this.epochMs, this.#calendar);
  }

  /** It goes on in the place of a limit of another kind. */
  goOn(held: HeldSlots, past: Past): void {
    [this.held, this.past] = [held, past];
    this.#period = { ...this.#period, began: "changed", byHand: this.epochMs };
  }

  /** As it is configured. */
  get limit(): Limit {
    return this.#limit;
  }

  /** In force now. */
  get terms(): InForce {
    return this.#inForce;
  }

  /** The brim, in millitokens: the capacity in force and what was bought on top. */
  get brimMilli(): bigint {
    return lesser(this.#inForce.capacity + this.#toppedUp, MOST);
  }

  /** Of this period. */
  get toppedUpMilli(): bigint {
    return this.#toppedUp;
  }

  /** Of a session quota: when its window opened. */
  get windowStartMs(): number | undefined {
    return this.#period.windowStartMs;
  }

  /** The period that something taken now belongs to; undefined for what drips. */
  get period(): ModelPeriod | undefined {
    return this.#resets ? this.#period : undefined;
  }

  /** Whether what was taken in that period, or from what drips, belongs here still. */
  isOf(taken: ModelPeriod | undefined): "yes" | "no" | "either" {
    return isSamePeriod(this.period, taken);
  }

  /** When time will do something other than drip. */
  get nextBoundaryMs(): number {
    return Math.min(this.#nextResetMs, windowChangeAfter(this.#limit, this.epochMs, this.#calendar));
  }

  /** Takes, debits and give-backs in the order in which the store applied them; `readingMs` is the writer's clock. */
  write(kind: WriteKind, milli: number, readingMs: number, _slot?: SlotWrite): void {
    const amount = BigInt(kind === "credit" ? -milli : milli);
    this.#period.granted += amount;
    if (kind !== "credit") this.#open(milli, readingMs);
    if (kind !== "credit" && this.#limit.soft && this.levelMilli(readingMs) - amount < -owedMost(this.#part)) {
      this.#period.isUncounted = true;
      return;
    }
    if (kind !== "credit") this.#mark(readingMs, this.brimMilli, true);
    this.#taken += amount * this.#unitsPerMilli;
  }

  /** The limit is another one from now on: a quota keeps what was used, of others what is there stays, as far as there is room in both. */
  change(limit: Limit): void {
    const [before, brim, wasQuota] = [this.#limit, this.brimMilli, this.#resets];
    const level = this.levelMilli(this.epochMs);
    const [{ windowStartMs }, byHand] = [this.#period, this.period?.byHand ?? 0];
    this.past = this.pastIfChanged;
    const past = pastAt(this.past, this.epochMs);
    const wasClosed = before.resetAfterMs !== undefined && windowStartMs === undefined;
    this.#drippedBefore = this.#dripped(this.epochMs);
    this.#sinceMs = this.epochMs;
    this.#limit = limit;
    this.#inForce = this.#inForceAt(this.epochMs);
    if (limit.resetAfterMs !== undefined && wasClosed && past === "gone") {
      this.#renew(this.epochMs);
      return;
    }
    if (!this.#resets) this.#toppedUp = 0n;
    const isOther = !wasQuota || !isSameAmount(before, limit);
    const gained = wasQuota && this.#resets && isOther ? this.#inForce.capacity - this.#capacity : 0n;
    if (isOther) this.#capacity = this.#inForce.capacity;
    const left = lesser(lesser(level, brim) + gained, this.brimMilli);
    const isForgiven = before.soft && !limit.soft && left < 0n;
    this.#period.allowed += gained;
    if (ruleOf(before) !== ruleOf(limit)) {
      // It began in the middle of something else: until its first reset there is what it held then, to the millitoken.
      const allowed = isForgiven ? 0n : left + 1n;
      this.#period = { ...this.#begun(), began: "changed", allowed, byHand: Math.max(this.epochMs, byHand + 1) };
    }
    if (limit.soft) this.#period.unbounded = true;
    this.#mark(this.epochMs, brim, false);
    this.#taken -= gained * this.#unitsPerMilli;
    this.#mark(this.epochMs, this.brimMilli, false);
    // Debt of a soft limit was never a reason to refuse; it is not one when the limit is hard.
    const isTooDeep = gained < 0n && left < -owedMost(this.#part) && !isForgiven;
    if (isTooDeep) this.#period.isUncounted = true;
    if (isForgiven || isTooDeep) this.#marks = [];
    if (isForgiven || isTooDeep) this.#mark(this.epochMs, isForgiven ? 0n : -owedMost(this.#part), false);
    if (limit.resetAfterMs === undefined) return;
    if (this.#nextResetMs <= this.epochMs) this.#renew(this.epochMs);
    // What is not full has begun, and so has what an earlier rule has something to say to.
    else if (this.levelMilli(this.epochMs) < this.brimMilli || this.#toppedUp > 0n || past !== "gone") {
      this.#period.windowStartMs ??= this.epochMs;
    }
    if (past === "doubtful" && this.#toppedUp === 0n && windowStartMs === undefined) {
      this.#pastDoubt = { wasClosed, granted: this.#period.granted, atMs: this.epochMs };
    }
    const missing = this.brimMilli - level;
    if (ruleOf(before) === "drip" && (missing === 0n || missing === 1n)) {
      this.#otherStart = { windowStartMs: this.windowStartMs === undefined ? this.epochMs : undefined };
    }
  }

  /** Whether only the store can say how it stands, until it was looked at. */
  get isDoubted(): boolean {
    return this.#pastDoubt !== undefined || this.#otherStart !== undefined;
  }

  /** A store may round what drips by a millitoken: so it knows a session that was full, or not, but for that, by either. */
  agreeOn(windowStartMs: number | undefined, storedMilli: bigint, readingMs: number): void {
    const other = this.#otherStart;
    this.#otherStart = undefined;
    if (this.#pastDoubt !== undefined) this.#agreeOnPast(this.#pastDoubt, windowStartMs, storedMilli, readingMs);
    this.#pastDoubt = undefined;
    if (other !== undefined && other.windowStartMs === windowStartMs) this.#period.windowStartMs = windowStartMs;
  }

  // There is doubt only where nothing had been bought before.
  #agreeOnPast(past: PastDoubt, windowStartMs: number | undefined, storedMilli: bigint, readingMs: number): void {
    const { wasClosed, atMs } = past;
    const period = this.#period;
    const granted = period.granted - past.granted;
    const bought = this.#toppedUp;
    if (wasClosed && storedMilli > this.levelMilli(readingMs) + 1n) {
      this.#renew(this.epochMs);
      const { allowed, unbounded } = this.#period;
      // What was taken since is of this period: leases know it by the object.
      this.#period = Object.assign(period, { allowed, unbounded, granted: 0n, windowStartMs: undefined });
      this.topUp(Number(bought), readingMs);
      if (granted > 0n) this.write("take", Number(granted), readingMs);
    }
    const starts = granted > 0n || bought > 0n ? [atMs, Math.max(readingMs, this.epochMs)] : [atMs, undefined];
    if (starts.includes(windowStartMs)) this.#period.windowStartMs = windowStartMs;
  }

  /** Time has acted up to an instant, and earlier readings count as that one. */
  advance(toMs: number): void {
    while (this.epochMs < toMs) {
      const nextMs = this.nextBoundaryMs;
      const resets = nextMs === this.#nextResetMs;
      this.epochMs = Math.min(nextMs, toMs);
      this.held.end(this.epochMs);
      if (nextMs > toMs) return;
      const brim = this.brimMilli;
      this.#drippedBefore = this.#dripped(nextMs);
      this.#sinceMs = nextMs;
      this.#inForce = this.#inForceAt(nextMs);
      const closed = this.#limit.resetAfterMs !== undefined && this.windowStartMs === undefined;
      if (resets || closed) this.#renew(nextMs);
      else this.#mark(nextMs, lesser(brim, this.brimMilli), false);
    }
  }

  /** A purchase: a quota gains exactly that, and its brim rises; what drips has no room above it. */
  topUp(milli: number, readingMs: number): void {
    if (milli === 0) return;
    const amount = BigInt(milli);
    const units = amount * this.#unitsPerMilli;
    if (!this.#resets) {
      const room = this.brimMilli * this.#unitsPerMilli - this.#left(readingMs, () => true);
      if (room > 0n) this.#taken -= lesser(room, units);
      return;
    }
    this.#mark(readingMs, this.brimMilli, false);
    this.#taken -= units;
    this.#toppedUp += amount;
    this.#period.allowed += amount;
    this.#open(milli, readingMs);
  }

  /** It held no more than this at a reading: somebody cut off what was above. */
  cut(toMilli: bigint, readingMs: number): void {
    this.#mark(readingMs, toMilli, false);
  }

  /** Full for everybody, also for a clock that is behind: an operator begins anew, or the request that opened it never was. */
  begin(by: "hand" | "undoing"): void {
    const { byHand } = this.#period;
    this.#renew(this.epochMs);
    this.#period.byHand = !this.#resets ? 0 : by === "hand" ? byHand + 1 : byHand;
    // The count tells what was taken before from what is taken after, so it is kept to the end of the period.
    this.past = by === "hand" && this.#limit.reset ? pastUntil(this.#period.untilMs) : NO_PAST;
  }

  /** What the limit holds at a reading, rounded down to millitokens; negative in debt. */
  levelMilli(readingMs: number): bigint {
    const left = this.#left(readingMs, () => true);
    if (left >= this.brimMilli * this.#unitsPerMilli) return this.brimMilli;
    return floorDiv(left, this.#unitsPerMilli);
  }

  /** How much a limit that drips has room for at an instant, after all windows until then; it stays as it is. */
  roomMilli(atMs: number): bigint {
    const ahead = new ModelLimit(this.#limit, this.epochMs, this.#calendar, this.#periodsMs, this.#part);
    ahead.#marks = [...this.#marks];
    ahead.#inForce = this.#inForce;
    ahead.#drippedBefore = this.#drippedBefore;
    ahead.#sinceMs = this.#sinceMs;
    ahead.#taken = this.#taken;
    ahead.advance(atMs);
    return ahead.brimMilli - ahead.levelMilli(atMs);
  }

  /**
   * How far the writes so far stay below the promise at a reading, in millitokens; negative: over-admitted. Of what drips: the least, over
   * every take or debit so far, of the capacity in force at that one + r(reading) - r(of that one) - (taken + debited - given back from it
   * on), with r through all windows between. Of a quota: what its period allows, less what was granted in it.
   */
  slackMilli(readingMs: number): bigint {
    if (this.#limit.soft) return 0n;
    if (this.#resets) return this.#period.unbounded ? 0n : this.#period.allowed - this.#period.granted;
    // Rounded up: the promise is to the next millitoken.
    return -floorDiv(-this.#left(readingMs, (mark) => mark.spends), this.#unitsPerMilli);
  }

  /** Whether one that is born in its place, now or in any of its windows, could break no promise. */
  isForgettable(readingMs: number): boolean {
    // A clock behind the epoch counts as the epoch.
    const isPast = this.past.filledAtMs <= Math.max(readingMs, this.epochMs);
    if (!isPast && this.levelMilli(readingMs) < this.past.brim) return false;
    if (this.held.milliAfter(Math.max(readingMs, this.epochMs)) > 0n) return false;
    if (this.#limit.resetAfterMs !== undefined) return this.windowStartMs === undefined || this.#mayBeClosed;
    const least = capacityMost(this.#limit, this.#part) - 1n;
    // All of it is there in the window of now, and nothing is out: the other windows find it full, too.
    const isUntouched = () => this.levelMilli(readingMs) >= this.brimMilli - 1n && this.#period.granted <= 0n;
    if (this.#resets) return this.#toppedUp === 0n && (this.levelMilli(readingMs) >= least || isUntouched());
    const spent = this.#marks.some(({ spends }) => spends);
    return !spent || this.#left(readingMs, (mark) => mark.spends) >= least * this.#unitsPerMilli;
  }

  /** Whether a store may have this session full and closed, where only the store can say so. */
  get #mayBeClosed(): boolean {
    const [past, other] = [this.#pastDoubt, this.#otherStart];
    if (this.#toppedUp > 0n || (past !== undefined && this.#period.granted > past.granted)) return false;
    if (other !== undefined && other.windowStartMs === undefined) return true;
    return past !== undefined && (past.wasClosed || this.levelMilli(this.epochMs) >= this.brimMilli);
  }

  get #resets(): boolean {
    return this.#limit.reset !== undefined || this.#limit.resetAfterMs !== undefined;
  }

  get #nextResetMs(): number {
    return periodEnd(this.#limit, this.#period, this.epochMs, this.#calendar);
  }

  #begun(): ModelPeriod {
    return periodBegun(this.#limit, this.brimMilli, this.epochMs, this.#calendar);
  }

  /** Nothing of what was before counts any more. */
  #renew(atMs: number): void {
    this.#otherStart = undefined;
    this.#marks = [];
    this.#taken = 0n;
    this.#toppedUp = 0n;
    this.#period = this.#begun();
    this.#capacity = this.#inForce.capacity;
    this.#mark(atMs, this.#inForce.capacity, false);
  }

  #open(milli: number, readingMs: number): void {
    if (this.#limit.resetAfterMs === undefined || milli === 0) return;
    const windowStartMs = Math.max(readingMs, this.epochMs);
    if (this.#otherStart !== undefined) this.#otherStart.windowStartMs ??= windowStartMs;
    this.#period.windowStartMs ??= windowStartMs;
  }

  #left(readingMs: number, counts: (mark: Mark) => boolean): bigint {
    return leastLeft(this.#marks, counts, this.#dripped(readingMs), this.#taken);
  }

  #mark(readingMs: number, brimMilli: bigint, spends: boolean): void {
    const dripped = this.#dripped(readingMs);
    this.#marks.push({ dripped, brim: brimMilli * this.#unitsPerMilli, takenBefore: this.#taken, spends });
  }

  #dripped(readingMs: number): bigint {
    const { refill, periodMs } = this.#inForce;
    const passedMs = Math.max(readingMs, this.epochMs) - this.#sinceMs;
    return this.#drippedBefore + (BigInt(passedMs) * refill * this.#unitsPerMilli) / BigInt(periodMs);
  }

  #inForceAt(atMs: number): InForce {
    return exactTerms(partOf(inForceAt(this.#limit, atMs, this.#calendar), this.#part), this.#unitsPerMilli);
  }
}
