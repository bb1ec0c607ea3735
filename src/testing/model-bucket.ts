import type { Amount } from "../domain/amounts.ts";
import type { BucketState, LimitState } from "../domain/bucket-state.ts";
import type { LimitSet, SetOrigin } from "../domain/limit-set.ts";
import { ModelLimit, type WriteKind } from "./model.ts";

/**
 * The model of one bucket: which limits it must have, and what each of them must hold, after the writes it was told of.
 * `problems` compares it with the bucket that a store has.
 */
export class ModelBucket {
  readonly #limits = new Map<string, ModelLimit>();
  #configured: ReadonlySet<string> = new Set();
  #set: LimitSet;
  #origin: SetOrigin;
  #epochMs: number;

  /** A bucket that nobody has taken from: full. */
  constructor(set: LimitSet, origin: SetOrigin, atMs: number) {
    this.#set = set;
    this.#origin = origin;
    this.#epochMs = atMs;
    this.#adopt(set, atMs);
  }

  /** Limits that come with a claim: they replace those on the bucket, unless the bucket's are newer. True when they did. */
  bring(set: LimitSet, origin: SetOrigin, atMs: number): boolean {
    if (sameLimits(set, this.#set)) return false;
    if (!newer(origin, this.#origin)) {
      for (const [i, { name }] of set.limits.entries()) {
        if (!this.#limits.has(name)) this.#limits.set(name, new ModelLimit(set.terms[i]!, this.#epochMs));
      }
      return false;
    }
    this.#set = set;
    this.#origin = origin;
    this.#moveEpoch(atMs);
    this.#adopt(set, this.#epochMs);
    return true;
  }

  write(kind: WriteKind, amounts: readonly Amount[], readingMs: number): void {
    for (const { limit, milli } of amounts) this.#limits.get(limit)?.write(kind, milli, readingMs);
  }

  /**
   * What is wrong with the bucket that the store has, seen at a reading; empty when nothing is. It learns from it where the
   * store has moved the epoch to: that may be any reading of the write, and never back.
   */
  problems(state: BucketState, readingMs: number): string[] {
    const problems: string[] = [];
    if (state.epochMs !== this.#epochMs) {
      if (state.epochMs < this.#epochMs || state.epochMs > readingMs) {
        problems.push(`the epoch went from ${this.#epochMs} to ${state.epochMs} at ${readingMs}`);
      }
      this.#moveEpoch(state.epochMs);
    }
    for (const limit of state.limits) problems.push(...this.#problemsOf(limit, state.epochMs, readingMs));
    for (const [name, limit] of this.#limits) {
      if (state.limits.some((other) => other.name === name)) continue;
      // A limit that nobody asks for any more may be forgotten once it is full: it would start full again.
      const missing = BigInt(limit.terms.capacityMilli) - limit.levelMilli(readingMs);
      if (this.#configured.has(name)) problems.push(`the limit ${name} is missing`);
      else if (missing > 1n) problems.push(`the limit ${name} was forgotten while ${missing} of it were missing`);
      this.#limits.delete(name);
    }
    return problems;
  }

  /** Where the promise is broken, now that these amounts were granted with this reading; empty when it is kept. */
  overAdmissions(amounts: readonly Amount[], readingMs: number): string[] {
    return amounts.flatMap(({ limit }) => {
      const over = -(this.#limits.get(limit)?.slackMilli(readingMs) ?? 0n);
      return over > 0n ? [`${over} millitokens of ${limit} were granted above capacity and refill`] : [];
    });
  }

  /** Whether every amount could be taken at a reading, with a millitoken to spare: then a refusal is wrong. */
  surelyFits(amounts: readonly Amount[], readingMs: number): boolean {
    return amounts.every(({ limit, milli }) => {
      const model = this.#limits.get(limit);
      if (model === undefined) return true;
      const level = model.levelMilli(readingMs);
      // A full limit holds its capacity to the millitoken.
      const spare = level === BigInt(model.terms.capacityMilli) ? 0n : 1n;
      return level >= BigInt(milli) + spare;
    });
  }

  /** Whether the bucket is full at a reading, to the millitoken: then it equals one that does not exist. */
  isFull(readingMs: number): boolean {
    return [...this.#limits.values()].every(
      (limit) => limit.levelMilli(readingMs) >= BigInt(limit.terms.capacityMilli) - 1n,
    );
  }

  #problemsOf(limit: LimitState, epochMs: number, readingMs: number): string[] {
    const { name, terms } = limit;
    const model = this.#limits.get(name);
    if (model === undefined) return [`there is a limit ${name} that nobody brought`];
    const problems: string[] = [];
    if (limit.configured !== this.#configured.has(name)) {
      problems.push(`the limit ${name} is ${limit.configured ? "" : "not "}configured`);
    }
    const { capacityMilli, refillAmountMilli, refillPeriodMs } = model.terms;
    if (
      terms.capacityMilli !== capacityMilli ||
      terms.refillAmountMilli !== refillAmountMilli ||
      terms.refillPeriodMs !== refillPeriodMs
    ) {
      const [is, due] = [terms, model.terms].map((all) => JSON.stringify(all));
      return [...problems, `the limit ${name} goes by ${is}, not by ${due}`];
    }
    const apart = storedMilli(limit, epochMs, readingMs) - model.levelMilli(readingMs);
    if (apart < -1n || apart > 1n) {
      problems.push(`${name} holds ${apart} millitokens more than the model's ${model.levelMilli(readingMs)}`);
    }
    return problems;
  }

  #adopt(set: LimitSet, atMs: number): void {
    this.#configured = new Set(set.limits.map(({ name }) => name));
    for (const [i, { name }] of set.limits.entries()) {
      const known = this.#limits.get(name);
      if (known === undefined) this.#limits.set(name, new ModelLimit(set.terms[i]!, atMs));
      else known.change(set.terms[i]!, atMs);
    }
  }

  #moveEpoch(toMs: number): void {
    this.#epochMs = Math.max(this.#epochMs, toMs);
    for (const limit of this.#limits.values()) limit.moveEpoch(this.#epochMs);
  }
}

/** What a stored limit holds, worked out from its parts. */
function storedMilli({ tokensMilli, remainder, terms }: LimitState, epochMs: number, readingMs: number): bigint {
  const elapsed = BigInt(Math.max(readingMs, epochMs) - epochMs);
  const dripped = (elapsed * BigInt(terms.refillAmountMilli) + BigInt(remainder)) / BigInt(terms.refillPeriodMs);
  const level = BigInt(tokensMilli) + dripped;
  const capacity = BigInt(terms.capacityMilli);
  if (level > capacity) return capacity;
  return level;
}

function newer(next: SetOrigin, last: SetOrigin): boolean {
  return next.generation === null || last.generation === null
    ? next.asOfMs >= last.asOfMs
    : next.generation >= last.generation;
}

function sameLimits(one: LimitSet, other: LimitSet): boolean {
  return JSON.stringify(one.limits) === JSON.stringify(other.limits);
}
