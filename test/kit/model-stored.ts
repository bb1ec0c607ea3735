import type { Terms } from "../../src/bucket/balance.ts";
import type { Limit } from "../../src/domain/limits/limit.ts";
import type { SetOrigin } from "../../src/domain/limits/limit-set.ts";
import type { ModelLimit } from "./model.ts";
import type { StoredSlice } from "./model-holds.ts";
import { floorOf } from "./model-terms.ts";

/** A bucket as a store has it. */
export interface StoredBucket {
  readonly epochMs: number;
  readonly limits: readonly StoredLimit[];
  readonly origin: SetOrigin;
  readonly validUntilMs: number;
}

export interface StoredLimit {
  readonly name: string;
  readonly limit: Limit;
  readonly configured: boolean;
  readonly tokensMilli: number;
  readonly remainder: number;
  readonly terms: Terms;
  readonly quota:
    | {
        readonly windowStartMs: number | undefined;
        readonly topUpMilli: number;
        readonly resets: number;
        readonly countedFromMilli?: number;
      }
    | undefined;
  /** Slots that are held; absent: none. */
  readonly slices?: readonly StoredSlice[];
}

/** What a stored limit goes by, in words to be compared with those of the model. */
function storedTerms({ limit, terms, quota }: StoredLimit): string {
  return shown(limit, {
    brim: String(terms.capacityMilli),
    refill: String(terms.refillAmountMilli),
    periodMs: terms.refillPeriodMs,
    toppedUp: String(quota?.topUpMilli ?? 0),
    windowStartMs: quota?.windowStartMs,
  });
}

function modelTerms(model: ModelLimit): string {
  return shown(model.limit, {
    brim: String(model.brimMilli),
    refill: String(model.terms.refill),
    periodMs: model.terms.periodMs,
    toppedUp: String(model.toppedUpMilli),
    windowStartMs: model.windowStartMs,
  });
}

function shown(limit: object, terms: object): string {
  return JSON.stringify({ limit, ...terms });
}

/** What a stored limit holds, worked out from its parts. */
export function storedMilli(
  { tokensMilli, remainder, terms }: StoredLimit,
  epochMs: number,
  readingMs: number,
): bigint {
  const elapsed = BigInt(Math.max(readingMs, epochMs) - epochMs);
  const dripped = (elapsed * BigInt(terms.refillAmountMilli) + BigInt(remainder)) / BigInt(terms.refillPeriodMs);
  const level = BigInt(tokensMilli) + dripped;
  const capacity = BigInt(terms.capacityMilli);
  if (level > capacity) return capacity;
  return level;
}

/** What is wrong with one limit that a store has, seen at a reading; `model` agrees with it first on what only the store can say. */
export function problemsOf(
  limit: StoredLimit,
  model: ModelLimit | undefined,
  { configured, epochMs, readingMs }: { configured: boolean; epochMs: number; readingMs: number },
): string[] {
  const { name } = limit;
  if (model === undefined) return [`there is a limit ${name} that nobody brought`];
  const problems: string[] = [];
  if (limit.configured !== configured) {
    problems.push(`the limit ${name} is ${limit.configured ? "" : "not "}configured`);
  }
  problems.push(...model.held.problems(limit.slices ?? []).map((problem) => `of ${name} ${problem}`));
  const held = storedMilli(limit, epochMs, readingMs);
  model.agreeOn(limit.quota?.windowStartMs, held, readingMs);
  const [is, due] = [storedTerms(limit), modelTerms(model)];
  if (is !== due) return [...problems, `the limit ${name} goes by ${is}, not by ${due}`];
  const level = model.levelMilli(readingMs);
  const apart = held - level;
  if (apart < -1n || apart > 1n) {
    problems.push(`${name} holds ${apart} millitokens more than the model's ${level}`);
  }
  return problems;
}

/** Whether so much could be taken from a limit at a reading, with a millitoken to spare. */
export function surelyHolds(model: ModelLimit, milli: number, readingMs: number, leavePercent: number): boolean {
  if (model.limit.soft || model.limit.shadow) return true;
  const level = model.levelMilli(readingMs);
  // A full limit holds its brim to the millitoken, and slots are whole.
  const spare = level === model.brimMilli || model.limit.holdMs !== undefined ? 0n : 1n;
  return level >= BigInt(milli) + floorOf(model, leavePercent) + spare;
}
