import { isDeepStrictEqual } from "node:util";
import type { Balance, Terms } from "../src/bucket/balance.ts";
import { divFloor } from "../src/bucket/integers.ts";
import { dripMs, levelMilli, rebase } from "../src/bucket/level.ts";
import { credit, debit, take } from "../src/bucket/take.ts";
import { Limit } from "../src/domain/limits/limit.ts";

/** A case of `bucket.json`: integers are decimal text, times to wait are seconds. Either `out` or `raises`. */
export interface BucketVector {
  readonly id: string;
  readonly fn: string;
  readonly in: Readonly<Record<string, unknown>>;
  readonly out?: unknown;
  readonly raises?: string;
}

export function isBucketFn(fn: string): boolean {
  return Object.hasOwn(FUNCTIONS, fn);
}

/** What differs between the recorded answer and ours, as a sentence; `undefined` when nothing does. */
export function checkBucketVector(vector: BucketVector): string | undefined {
  let got: unknown;
  try {
    got = (FUNCTIONS[vector.fn] as VectorFunction)(vector.in);
  } catch (error) {
    return vector.raises === undefined ? `expected ${JSON.stringify(vector.out)}, got the error ${error}` : undefined;
  }
  if (vector.raises !== undefined) return `expected an error (${vector.raises}), got ${JSON.stringify(got)}`;
  return agrees(vector.out, got, "") ? undefined : `expected ${JSON.stringify(vector.out)}, got ${JSON.stringify(got)}`;
}

type Input = BucketVector["in"];
type VectorFunction = (input: Input) => unknown;

const FUNCTIONS: Readonly<Record<string, VectorFunction>> = {
  refill_bucket: (input) => {
    const { balance, terms } = atNow(input, input.now_ms);
    return { new_tokens_milli: text(levelMilli(balance, terms, 0)) };
  },

  try_consume: (input) => {
    const { balance, terms } = atNow(input, input.now_ms);
    const neededMilli = integer(input.requested) * 1000;
    const level = levelMilli(balance, terms, 0);
    const left = take(balance, terms, 0, neededMilli);
    return {
      success: left !== undefined,
      new_tokens_milli: text(left ?? level),
      available: text(tokensDown(level)),
      retry_after_seconds: left === undefined ? seconds(dripMs(neededMilli - level, terms)) : 0,
    };
  },

  force_consume: (input) => {
    const { balance, terms } = atNow(input, input.now_ms);
    const amountMilli = integer(input.amount) * 1000;
    const left = debit(balance, terms, 0, Math.max(0, amountMilli));
    if (left === undefined) throw new Error(`A debit of ${amountMilli} millitokens leaves a debt that is not exact.`);
    return {
      new_tokens_milli: text(amountMilli >= 0 ? left : credit({ ...balance, tokensMilli: left }, -amountMilli)),
    };
  },

  calculate_retry_after: (input) => {
    const terms = termsOf({ ...input, capacity_milli: "0" });
    return seconds(dripMs(integer(input.deficit_milli), terms));
  },

  calculate_available: (input) => {
    const { balance, terms } = atNow(input, input.now_ms);
    return text(tokensDown(levelMilli(balance, terms, 0)));
  },

  calculate_time_until_available: (input) => {
    const { balance, terms } = atNow(input, input.now_ms);
    return seconds(dripMs(integer(input.needed) * 1000 - levelMilli(balance, terms, 0), terms));
  },

  would_refill_satisfy: (input) => {
    const consume = input.consume as Readonly<Record<string, unknown>>;
    const asked = (input.buckets as readonly Input[]).filter((bucket) =>
      Object.hasOwn(consume, String(bucket.limit_name)),
    );
    const statuses = asked.map((bucket) => status(bucket, integer(consume[String(bucket.limit_name)]), input.now_ms));
    return { would_satisfy: statuses.every(({ exceeded }) => !exceeded), statuses };
  },
};

function status(bucket: Input, requested: number, nowMs: unknown) {
  const { balance, terms } = atNow(bucket, nowMs);
  const level = levelMilli(balance, terms, 0);
  const exceeded = take(balance, terms, 0, requested * 1000) === undefined;
  const periodSeconds = divFloor(terms.refillPeriodMs, 1000);
  // A status shows a limit, so that it must be one: this refuses reserved names and terms that round to nothing.
  const limit = Limit.custom(String(bucket.limit_name), {
    capacity: tokensDown(terms.capacityMilli),
    refillAmount: tokensDown(terms.refillAmountMilli),
    refillPeriodMs: periodSeconds * 1000,
  });
  return {
    limit_name: limit.name,
    available: text(tokensDown(level)),
    requested: text(requested),
    exceeded,
    retry_after_seconds: exceeded ? seconds(dripMs(requested * 1000 - level, terms)) : 0,
    capacity: text(limit.capacity),
    refill_amount: text(limit.refillAmount),
    refill_period_seconds: text(periodSeconds),
    deficit: text(Math.max(0, requested - tokensDown(level))),
  };
}

/** The bucket told from now. A now before the last refill counts as the last refill. */
function atNow(input: Input, nowMs: unknown): { readonly balance: Balance; readonly terms: Terms } {
  const terms = termsOf(input);
  const elapsedMs = integer(nowMs) - integer(input.last_refill_ms);
  return { balance: rebase({ tokensMilli: integer(input.tokens_milli), remainder: 0 }, terms, elapsedMs), terms };
}

function termsOf(input: Input): Terms {
  return {
    capacityMilli: integer(input.capacity_milli),
    refillAmountMilli: integer(input.refill_amount_milli),
    refillPeriodMs: integer(input.refill_period_ms),
  };
}

function integer(value: unknown): number {
  const number = typeof value === "string" && /^-?\d+$/.test(value) ? Number(value) : Number.NaN;
  if (!Number.isSafeInteger(number))
    throw new RangeError(`${JSON.stringify(value)} is no safe integer in decimal text`);
  return number === 0 ? 0 : number;
}

function text(number: number): string {
  return String(number);
}

function seconds(ms: number): number {
  // The recorded function divides by the amount, which fails where nothing drips in; "never" has no number there.
  if (!Number.isFinite(ms)) throw new RangeError("nothing drips in: there is no time to wait");
  return ms / 1000;
}

/** Equal as the note of the file says: all exactly, but times to wait to within a millisecond, and not the stored time. */
function agrees(expected: unknown, got: unknown, key: string): boolean {
  if (key === "new_last_refill_ms") return true;
  if (typeof expected === "number" && typeof got === "number") {
    return Math.abs(Math.round(expected * 1000) - Math.round(got * 1000)) <= 1;
  }
  if (Array.isArray(expected) && Array.isArray(got)) {
    return expected.length === got.length && expected.every((item, i) => agrees(item, got[i], ""));
  }
  if (!isRecord(expected) || !isRecord(got)) return isDeepStrictEqual(expected, got);
  return Object.keys({ ...expected, ...got }).every((name) => agrees(expected[name], got[name], name));
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whole tokens as the original shows them: always rounded down, also a debt. */
function tokensDown(milli: number): number {
  return divFloor(milli, 1000);
}
