import type { Amount } from "../../src/domain/charge/amounts.ts";
import type { Limit } from "../../src/domain/limits/limit.ts";
import type { LimitSet, SetOrigin } from "../../src/domain/limits/limit-set.ts";
import type { Calendar } from "../../src/domain/limits/schedule.ts";
import type { ModelLimit } from "./model.ts";
import type { SlotWrite } from "./model-holds.ts";
import { instantOf, isNewer, numbersUpTo, sameLimits } from "./model-origin.ts";
import { type ModelPeriod, periodsSetBack } from "./model-period.ts";
import { changedModel, newLimit, pastsKept, seededLimit } from "./model-slots.ts";
import { problemsOf, type StoredBucket, storedMilli, surelyHolds } from "./model-stored.ts";
import type { ModelPart } from "./model-terms.ts";

export type { ModelPeriod } from "./model-period.ts";

/** In which period of each quota something was taken. */
export type ModelPins = ReadonlyMap<string, ModelPeriod>;

/**
 * The model of one bucket: which limits it must have, and what each of them must hold, after the writes it was told of.
 * `problems` compares it with the bucket that a store has.
 */
export class ModelBucket {
  readonly #calendar: Calendar;
  readonly #limits = new Map<string, ModelLimit>();
  readonly #loose = new Set<string>();
  /**
   * Limits that were full when they were left out for a while: the store may have forgotten them then, or not. One for each time,
   * the one that was never forgotten first.
   */
  readonly #perhaps = new Map<string, readonly ModelLimit[]>();
  /** How many resets the store last counted of each quota, and in which period: by that it tells one beginning from another. */
  readonly #resets = new Map<string, { readonly count: number; readonly ids: ModelPeriod["ids"] | undefined }>();
  /** Of a bucket that is split up: which part this is. */
  readonly #part: ModelPart | undefined;
  #configured: ReadonlySet<string> = new Set();
  #set: LimitSet;
  #origin: SetOrigin;
  /** The newest change of stored limits that it has gone through, where one is known: its number, and its instant. */
  #changeNumber: number | undefined;
  #changedMs: number | undefined;
  #epochMs: number;
  /** A call that changed nothing may have moved the epoch so far. */
  reachedMs: number = Number.NEGATIVE_INFINITY;

  /** A bucket that nobody has taken from: full. */
  constructor(set: LimitSet, origin: SetOrigin, atMs: number, calendar: Calendar, part?: ModelPart) {
    this.#calendar = calendar;
    this.#part = part;
    this.#set = set;
    this.#origin = origin;
    this.#met(origin);
    this.#epochMs = atMs;
    this.#adopt(set);
  }

  /** One that goes on from what a store has, where nobody can say by single writes how it came about. */
  static seeded(
    state: StoredBucket,
    part: ModelPart | undefined,
    before: readonly ModelBucket[],
    calendar: Calendar,
  ): ModelBucket {
    const periodsOf = (name: string) => before.flatMap((one) => one.limit(name)?.period ?? []);
    return ModelBucket.#seeded(state, part, periodsOf, calendar);
  }

  /**
   * One whose epoch was set back: how much it holds is the store's to say. A period that was under way then, too, goes on. Where it was
   * another one then, that has ended: what goes on in its place is no period that anything was taken from.
   */
  static setBack(
    state: StoredBucket,
    part: ModelPart | undefined,
    before: ModelBucket,
    calendar: Calendar,
  ): ModelBucket {
    const { epochMs } = state;
    const periodsOf = (name: string) => periodsSetBack(before.limit(name), epochMs, calendar);
    return pastsKept(ModelBucket.#seeded(state, part, periodsOf, calendar), before);
  }

  static #seeded(
    state: StoredBucket,
    part: ModelPart | undefined,
    periodsOf: (name: string) => readonly ModelPeriod[],
    calendar: Calendar,
  ): ModelBucket {
    const { epochMs, origin } = state;
    const configured = state.limits.filter((held) => held.configured).map(({ limit }) => limit);
    const model = new ModelBucket(
      { limits: configured, signature: "", isByName: true, isBeyondRates: false },
      origin,
      epochMs,
      calendar,
      part,
    );
    for (const held of state.limits) {
      model.#limits.set(held.name, seededLimit(held, part, periodsOf(held.name), epochMs, calendar));
    }
    return model;
  }

  /** Up to when time has acted on it. */
  get epochMs(): number {
    return this.#epochMs;
  }

  /** The limits that it goes by. */
  get set(): LimitSet {
    return this.#set;
  }

  /** Of the limits that it was last told of; with the newest change that it has gone through, also by limits before these. */
  get origin(): SetOrigin {
    return this.#changeNumber === undefined ? this.#origin : { ...this.#origin, changeNumber: this.#changeNumber };
  }

  /** The number of the newest change of stored limits that it has gone through. */
  get metNumber(): number {
    return this.#changeNumber ?? numbersUpTo(this.#origin.asOfMs);
  }

  /** Its instant. */
  get metMs(): number {
    return this.#changedMs ?? this.#origin.asOfMs;
  }

  #met({ changeNumber, changes }: SetOrigin): void {
    this.#changeNumber = changeNumber;
    this.#changedMs = changes?.at(-1)?.fromMs ?? (changeNumber === undefined ? undefined : instantOf(changeNumber));
  }

  /** Of its limits. */
  get names(): readonly string[] {
    return [...this.#limits.keys()];
  }

  /** All of them. */
  get limits(): readonly ModelLimit[] {
    return [...this.#limits.values()];
  }

  /** The limit of this name; undefined where there is none. */
  limit(name: string): ModelLimit | undefined {
    return this.#limits.get(name);
  }

  /** Every way in which a limit may stand. */
  candidates(name: string): readonly ModelLimit[] {
    return this.#candidates(name);
  }

  /** Whether only the store can say how a limit stands, until it was looked at. */
  isDoubted(name: string): boolean {
    return this.#perhaps.has(name) || this.#limits.get(name)?.isDoubted === true;
  }

  /**
   * Limits that come with a claim: they replace those on the bucket, unless the bucket's are newer. True when they did. Changes of
   * stored limits count each from its own instant; none from before `heldMs`, when something was taken by the limits of before.
   */
  bring(set: LimitSet, origin: SetOrigin, atMs: number, heldMs: number = Number.NEGATIVE_INFINITY): boolean {
    const { changeNumber, changes = [] } = origin;
    const { metNumber } = this;
    if (changeNumber !== undefined && changeNumber > metNumber) {
      const nowMs = Math.max(atMs, this.#epochMs);
      const writtenMs = Math.max(this.#epochMs, heldMs);
      for (const change of changes) {
        if (change.number <= metNumber) continue;
        this.advance(Math.min(nowMs, Math.max(change.fromMs, writtenMs)));
        this.#replace(change.set);
      }
      this.advance(nowMs);
      this.#replace(set);
      this.#origin = origin;
      this.#met(origin);
      return true;
    }
    this.cross(atMs);
    if (sameLimits(set, this.#set)) return false;
    if (isNewer(origin, this.origin)) {
      this.#set = set;
      this.#origin = origin;
      if (this.#changeNumber === undefined) this.#met(origin);
      this.advance(atMs);
      this.#adopt(set);
      return true;
    }
    for (const limit of set.limits) {
      if (this.#limits.has(limit.name)) continue;
      this.advance(atMs);
      this.#limits.set(limit.name, this.#full(limit));
    }
    return false;
  }

  /** The limits that it goes by were read later than it was told. */
  readAsOf(asOfMs: number): void {
    this.#origin = { ...this.#origin, asOfMs };
  }

  /** Time has acted up to an instant, and earlier readings count as that one. */
  advance(toMs: number): void {
    this.#epochMs = Math.max(this.#epochMs, toMs);
    const all = [...this.#limits.values(), ...[...this.#perhaps.values()].flat()];
    for (const limit of all) limit.advance(this.#epochMs);
  }

  /** Where time does something other than drip, the bucket is told from the first reading after it. */
  cross(atMs: number): void {
    if (atMs >= this.nextBoundaryMs) this.advance(atMs);
  }

  /** The periods that the amounts were taken in. */
  spend(kind: "take" | "debit", amounts: readonly Amount[], readingMs: number, slot?: SlotWrite): ModelPins {
    const pins = new Map<string, ModelPeriod>();
    for (const { limit: name, milli } of amounts) {
      for (const model of this.#candidates(name)) model.write(kind, milli, readingMs, slot);
      const { period } = this.#limits.get(name) ?? {};
      if (period !== undefined) pins.set(name, period);
    }
    return pins;
  }

  /** Gives back, each amount into the period it was taken in; when that is over, it adds nothing: says how many came late. */
  giveBack(amounts: readonly Amount[], pins: ModelPins, readingMs: number, ends?: ReadonlyMap<string, number>): number {
    this.cross(readingMs);
    let late = 0;
    for (const { limit: name, milli } of amounts) {
      const ofPeriod = this.#candidates(name).filter((limit) => limit.isOf(pins.get(name)) === "yes");
      for (const limit of ofPeriod) limit.write("credit", milli, readingMs, { endMs: ends?.get(name) });
      if (ofPeriod.length === 0) late++;
    }
    return late;
  }

  /** As an operator does. */
  topUp(amounts: readonly Amount[], readingMs: number): void {
    for (const { limit, milli } of amounts) {
      for (const model of this.#candidates(limit)) model.topUp(milli, readingMs);
    }
  }

  /** As an operator does. */
  resetByHand(names: readonly string[] | undefined, readingMs: number): void {
    // One that was left out on the way is reset with the others where the store remembered it.
    for (const name of new Set([...this.#limits.keys(), ...this.#perhaps.keys()])) {
      // It may have been forgotten just before, with nothing left to reset.
      if (!this.#configured.has(name) && this.#limits.get(name)?.isForgettable(readingMs)) this.#loose.add(name);
      if (names !== undefined && !names.includes(name)) continue;
      for (const model of this.#candidates(name)) {
        // What is at once still runs: it is forgotten only where it is named.
        if (names === undefined && model.limit.holdMs !== undefined) continue;
        if (names !== undefined) model.held.clear();
        model.begin("hand");
      }
    }
  }

  /**
   * What is wrong with the bucket that the store has, seen at a reading; empty when nothing is. It learns from it where the
   * store has moved the epoch to: that may be any reading of the write, and never back. `isEnd`: limits with an end may end then, so that the
   * store may have a boundary there.
   */
  problems(state: StoredBucket, readingMs: number, isEnd: (atMs: number) => boolean = () => false): string[] {
    const problems: string[] = [];
    if (state.epochMs !== this.#epochMs) {
      if (state.epochMs < this.#epochMs || state.epochMs > Math.max(readingMs, this.reachedMs)) {
        problems.push(`the epoch went from ${this.#epochMs} to ${state.epochMs} at ${readingMs}`);
      }
      this.advance(state.epochMs);
    }
    // What is stored is a straight line only up to the next boundary.
    const atMs = Math.min(readingMs, state.validUntilMs - 1);
    this.#remembered(state, atMs);
    for (const limit of state.limits) {
      const model = this.#limits.get(limit.name);
      const configured = this.#configured.has(limit.name);
      problems.push(...problemsOf(limit, model, { configured, epochMs: state.epochMs, readingMs: atMs }));
    }
    for (const [name, limit] of this.#limits) {
      if (state.limits.some((other) => other.name === name)) continue;
      // A limit that nobody asks for any more may be forgotten once it is full: it would start full again.
      if (this.#configured.has(name)) problems.push(`the limit ${name} is missing`);
      else if (!limit.isForgettable(atMs) && !this.#loose.has(name)) {
        const missing = limit.brimMilli - limit.levelMilli(atMs);
        problems.push(`the limit ${name} was forgotten while ${missing} of it were missing, or spent in its period`);
      }
      this.#limits.delete(name);
    }
    this.#loose.clear();
    const { nextBoundaryMs } = this;
    const isBoundary = state.validUntilMs < nextBoundaryMs && isEnd(state.validUntilMs);
    if (state.validUntilMs !== nextBoundaryMs && !isBoundary) {
      problems.push(`the next boundary is ${nextBoundaryMs}, not ${state.validUntilMs}`);
    }
    return problems;
  }

  /** Where the promise is broken, now that these amounts were granted with this reading; empty when it is kept. */
  overAdmissions(amounts: readonly Amount[], readingMs: number): string[] {
    return amounts.flatMap(({ limit: name, milli }) => {
      const limit = this.#limits.get(name);
      const over = -(limit?.slackMilli(readingMs) ?? 0n);
      // In debt, nothing is granted to whoever asks for nothing.
      if (over <= 0n || milli === 0) return [];
      return limit?.period === undefined
        ? [`${over} millitokens of ${name} were granted above capacity and refill`]
        : [`${over} millitokens of ${name} were granted above what its period allows`];
    });
  }

  /** Whether every amount could be taken at a reading, with a millitoken to spare: then a refusal is wrong. */
  surelyFits(amounts: readonly Amount[], readingMs: number, leavePercent: number): boolean {
    return amounts.every(({ limit, milli }) =>
      // It is certain only where it fits in all.
      this.#candidates(limit).every((model) => surelyHolds(model, milli, readingMs, leavePercent)),
    );
  }

  /** Whether the bucket equals one that does not exist, at a reading. */
  isForgettable(readingMs: number): boolean {
    this.cross(readingMs);
    return [...this.#limits.values()].every((limit) => limit.isForgettable(readingMs));
  }

  /** When time will do something other than drip. */
  get nextBoundaryMs(): number {
    return Math.min(Infinity, ...Array.from(this.#limits.values(), (limit) => limit.nextBoundaryMs));
  }

  /** Every way in which a limit may stand: the store may have forgotten it while it was left out, or have remembered it. */
  #candidates(name: string): readonly ModelLimit[] {
    return [this.#limits.get(name) ?? [], this.#perhaps.get(name) ?? []].flat();
  }

  /** Of limits that may have been forgotten on the way: those that the store remembered instead. */
  #remembered(state: StoredBucket, atMs: number): void {
    for (const [name, perhaps] of this.#perhaps) {
      const stored = state.limits.find((limit) => limit.name === name);
      if (stored === undefined) continue;
      const held = storedMilli(stored, state.epochMs, atMs);
      const isNear = (model: ModelLimit | undefined) =>
        model !== undefined &&
        JSON.stringify(model.limit) === JSON.stringify(stored.limit) &&
        model.windowStartMs === stored.quota?.windowStartMs &&
        [-1n, 0n, 1n].includes(held - model.levelMilli(atMs));
      const counted = this.#resets.get(name);
      const isCounted = stored.quota !== undefined && stored.quota.resets === counted?.count;
      // After a reset, or a window that ended, both count from 0: then only what it holds tells which of them it is.
      const isOfNow = counted?.count !== 0 || perhaps[0]?.period?.ids === counted.ids;
      const isKnown = isCounted && (isOfNow || isNear(perhaps[0]));
      const begun = this.#limits.get(name);
      if (!isKnown && isNear(begun)) {
        // It stands alike whether the store forgot it or not; what earlier rules have to say, only the store knows.
        for (const other of perhaps.filter(isNear)) begun?.mayRemember(other);
        continue;
      }
      const near = isKnown ? undefined : perhaps.find(isNear);
      const remembered = near ?? (isKnown || begun === undefined ? perhaps[0] : undefined);
      if (remembered === undefined) continue;
      // What was taken by this write was taken in the period of the one that was remembered.
      const { ids, byHand } = remembered.period ?? {};
      if (begun?.period !== undefined && ids !== undefined) Object.assign(begun.period, { ids, byHand });
      this.#limits.set(name, remembered);
    }
    this.#perhaps.clear();
    this.#resets.clear();
    for (const { name, quota } of state.limits) {
      if (quota === undefined) continue;
      this.#resets.set(name, { count: quota.resets, ids: this.#limits.get(name)?.period?.ids });
    }
  }

  /** Other limits from the epoch on. What is left out and full is forgotten: it would begin full again. */
  #replace(set: LimitSet): void {
    if (sameLimits(set, this.#set)) return;
    this.#set = set;
    this.#adopt(set);
    for (const [name, limit] of this.#limits) {
      if (this.#configured.has(name) || !limit.isForgettable(this.#epochMs)) continue;
      this.#limits.delete(name);
      this.#perhaps.set(name, [...(this.#perhaps.get(name) ?? []), limit]);
    }
  }

  #adopt(set: LimitSet): void {
    this.#configured = new Set(set.limits.map(({ name }) => name));
    for (const limit of set.limits) {
      const known = this.#limits.get(limit.name);
      const changed = (one: ModelLimit) => changedModel(one, limit, this.#calendar, this.#part);
      const perhaps = (this.#perhaps.get(limit.name) ?? []).flatMap(changed);
      const [first, ...others] = known === undefined ? [this.#full(limit)] : changed(known);
      this.#limits.set(limit.name, first);
      if (perhaps.length + others.length > 0) this.#perhaps.set(limit.name, [...perhaps, ...others]);
    }
  }

  #full(limit: Limit): ModelLimit {
    return newLimit(limit, this.#epochMs, this.#calendar, this.#part);
  }
}
