import type { Terms } from "../bucket/balance.ts";
import type { BucketState, LimitState } from "../domain/bucket/bucket-state.ts";
import { NO_SLICES, type Slice } from "../domain/bucket/holds.ts";
import { countName } from "../domain/charge/usage.ts";
import type { QuotaMarks } from "../domain/limits/kinds/kind.ts";
import { rulesOf } from "../domain/limits/kinds/table.ts";
import { isHard, type Limit, termsOf } from "../domain/limits/limit.ts";
import { limitSet } from "../domain/limits/limit-set.ts";
import type { CronCheck } from "../domain/limits/schedule.ts";
import { isLimit, isWhole, jsonIn } from "./row-damage.ts";

/** The part of a bucket that changes only with its limits, or at a boundary of theirs. All buckets that have the same share it. */
export interface Shape {
  /**
   * As it is stored: `[signature, limit, ...]`. A limit is `[name, capacity, refillAmount, refillPeriodMs, configured]` when
   * it is plain and goes by its own terms, else `[limit, capacityMilli, refillAmountMilli, refillPeriodMs, configured]`; a
   * sixth and a seventh number are `rememberUntilMs` and `resetsBefore`, if there is such a past; an eighth is what was told of a limit
   * that tells nothing at present; after it, if it is there, `countedFromMilli`, and three each the slices that a limit keeps of when it
   * counted how many are at once. The
   * signature is 0 when it follows from the limits. Where the bucket has gone through a change of stored limits, `[signature, changeNumber]` stands in
   * place of the signature. Short, because a commit writes whole pages: the more rows fit on one, the fewer it writes.
   */
  readonly text: string;
  readonly signature: string;
  /** See `SetOrigin.changeNumber`. */
  readonly changeNumber: number | undefined;
  readonly limits: readonly {
    readonly name: string;
    readonly limit: Limit;
    readonly terms: Terms;
    readonly configured: boolean;
    readonly isQuota: boolean;
    /** It counts how many are at once: what is held is part of its level. */
    readonly holdsSlots: boolean;
    /** The slots that are still held of a limit that counted how many are at once before, until they end. */
    readonly slices: readonly Slice[];
    readonly rememberUntilMs: number;
    readonly resetsBefore: number;
    /** See `QuotaMarks.countedFromMilli`. */
    readonly countedFromMilli: number | undefined;
    /** It has `notifyAt`: what was told of it changes with takes, and stands beside its level. */
    readonly isTelling: boolean;
    /** The highest percentage that was told in this period, if the limit is not telling. 0: none. */
    readonly told: number;
  }[];
  /** The names of their counts: each by its own, then for each that has slots how long they were held. */
  readonly counts: readonly { readonly name: string }[];
  readonly quotaCount: number;
  /** The places of those that are shadows. */
  readonly shadows: readonly number[];
  /** The number of those that count how many are at once. */
  readonly slotsCount: number;
  readonly tellingCount: number;
  /** Every limit is hard and drips, or is a quota by the calendar, and no slots are held of any: takes of one reading may be summed. */
  readonly isSummable: boolean;
}

type LimitRow = readonly [name: string | Limit, number, number, number, configured: 0 | 1, ...past: readonly number[]];

const SHAPES_MAX = 1_000;
const shapes = new Map<string, Shape>();

/** The shape of a state whose limits have changed. */
export function shapeOf(state: BucketState): Shape {
  const signature = state.signature === signatureOf(state.limits) ? 0 : state.signature;
  const { changeNumber } = state.origin;
  const rows: Rows = [changeNumber === undefined ? signature : [signature, changeNumber], ...state.limits.map(rowOf)];
  const text = JSON.stringify(rows);
  return shapes.get(text) ?? remembered(text, rows);
}

/** Undefined: the text is not of this form. */
export function shapeFrom(text: unknown, calendar: CronCheck): Shape | undefined {
  if (typeof text !== "string") return undefined;
  const known = shapes.get(text);
  if (known !== undefined) return known;
  const rows = rowsIn(text, calendar);
  return rows === undefined ? undefined : remembered(text, rows);
}

function remembered(text: string, rows: Rows): Shape {
  if (shapes.size >= SHAPES_MAX) shapes.clear();
  const shape = parsed(text, rows);
  shapes.set(text, shape);
  return shape;
}

function rowOf({ limit, terms, configured, rememberUntilMs, resetsBefore, told, slices, quota }: LimitState): LimitRow {
  const { name, capacity, refillAmount, refillPeriodMs } = limit;
  const flag = configured ? 1 : 0;
  const kept = slices.length === 0 || rulesOf(limit).holdsSlots ? NO_SLICES : slices;
  const toldBefore = told !== undefined && limit.notifyAt === undefined ? told : 0;
  const counted = quota?.countedFromMilli === undefined ? [] : [quota.countedFromMilli];
  const past =
    toldBefore !== 0 || kept.length + counted.length > 0
      ? [rememberUntilMs, resetsBefore, toldBefore, ...counted, ...kept.flatMap(numbersOf)]
      : rememberUntilMs === 0 && resetsBefore === 0
        ? []
        : [rememberUntilMs, resetsBefore];
  if (isPlain(limit, terms)) return [name, capacity, refillAmount, refillPeriodMs, flag, ...past];
  return [limit, terms.capacityMilli, terms.refillAmountMilli, terms.refillPeriodMs, flag, ...past];
}

function numbersOf({ place, endMs, heldMilli }: Slice): readonly number[] {
  return [place, endMs, heldMilli];
}

function slicesIn(numbers: readonly number[]): readonly Slice[] {
  if (numbers.length === 0) return NO_SLICES;
  return Array.from({ length: Math.floor(numbers.length / 3) }, (_, i) => {
    const [place, endMs, heldMilli] = numbers.slice(3 * i) as [number, number, number];
    return { place, endMs, heldMilli };
  });
}

function isPlain(limit: Limit, { capacityMilli, refillAmountMilli, refillPeriodMs }: Terms): boolean {
  if (Object.keys(limit).length > 4) return false;
  const own = termsOf(limit);
  return (
    own.capacityMilli === capacityMilli &&
    own.refillAmountMilli === refillAmountMilli &&
    own.refillPeriodMs === refillPeriodMs
  );
}

function signatureOf(limits: readonly { readonly limit: Limit; readonly configured: boolean }[]): string {
  return limitSet(limits.flatMap(({ limit, configured }) => (configured ? [limit] : []))).signature;
}

type Signature = string | 0;
type Rows = readonly [head: Signature | readonly [Signature, changeNumber: number], ...rows: LimitRow[]];

function isSignature(value: unknown): value is Signature {
  return value === 0 || typeof value === "string";
}

function isHead(value: unknown): boolean {
  if (!Array.isArray(value)) return isSignature(value);
  return value.length === 2 && isSignature(value[0]) && isWhole(value[1], 0, Number.MAX_SAFE_INTEGER);
}

function rowsIn(text: string, calendar: CronCheck): Rows | undefined {
  const found = jsonIn(text);
  if (!Array.isArray(found) || !isHead(found[0])) return undefined;
  const rows: readonly unknown[] = found.slice(1);
  return rows.every((row) => isRow(row, calendar)) ? (found as unknown as Rows) : undefined;
}

function isRow(row: unknown, calendar: CronCheck): boolean {
  if (!Array.isArray(row) || row.length < 5) return false;
  const [first, second, third, fourth, configured, ...past] = row as readonly unknown[];
  if (configured !== 0 && configured !== 1) return false;
  if (!past.every((value) => isWhole(value, 0, Number.MAX_SAFE_INTEGER))) return false;
  if (typeof first === "string") {
    return isLimit({ name: first, capacity: second, refillAmount: third, refillPeriodMs: fourth }, calendar);
  }
  const areTerms = [second, third].every((value) => isWhole(value, 0, Number.MAX_SAFE_INTEGER));
  return areTerms && isWhole(fourth, 1, Number.MAX_SAFE_INTEGER) && isLimit(first, calendar);
}

function parsed(text: string, [head, ...rows]: Rows): Shape {
  const [signature, changeNumber] = typeof head === "object" ? head : [head, undefined];
  const limits = rows.map(([first, second, third, fourth, configured, ...past]) => {
    const [rememberUntilMs = 0, resetsBefore = 0, told = 0, ...rest] = past;
    const isCounted = rest.length % 3 === 1;
    const [countedFromMilli, kept] = isCounted ? [rest[0], rest.slice(1)] : [undefined, rest];
    const isShort = typeof first === "string";
    const limit = isShort ? { name: first, capacity: second, refillAmount: third, refillPeriodMs: fourth } : first;
    const terms = isShort
      ? termsOf(limit)
      : { capacityMilli: second, refillAmountMilli: third, refillPeriodMs: fourth };
    const { marks, holdsSlots } = rulesOf(limit);
    return {
      ...{ name: limit.name, limit, terms, configured: configured === 1, rememberUntilMs, resetsBefore },
      ...{ isQuota: marks !== undefined, holdsSlots, slices: slicesIn(kept) },
      ...{ countedFromMilli },
      ...{ isTelling: limit.notifyAt !== undefined, told },
    };
  });
  const quotaCount = limits.filter(({ isQuota }) => isQuota).length;
  const slotsCount = limits.filter(({ holdsSlots }) => holdsSlots).length;
  const tellingCount = limits.filter(({ isTelling }) => isTelling).length;
  const held = limits.flatMap(({ name, holdsSlots }) => (holdsSlots ? [{ name: countName("heldMs", name) }] : []));
  const counts = [...limits.map(({ name }) => ({ name })), ...held];
  const shown = signature === 0 ? signatureOf(limits) : signature;
  const isSummable = limits.every(
    ({ limit, holdsSlots, slices }) =>
      isHard(limit) && !holdsSlots && slices.length === 0 && !rulesOf(limit).opensWindow,
  );
  const shadows = limits.flatMap(({ limit }, i) => (limit.shadow ? [i] : []));
  return {
    text,
    signature: shown,
    changeNumber,
    limits,
    counts,
    quotaCount,
    slotsCount,
    tellingCount,
    isSummable,
    shadows,
  };
}

/** The marks of a quota as its numbers say them, and its shape. */
export function marksOf(
  marks: Omit<QuotaMarks, "countedFromMilli">,
  { countedFromMilli }: Pick<Shape["limits"][number], "countedFromMilli">,
): QuotaMarks {
  return countedFromMilli === undefined ? marks : { ...marks, countedFromMilli };
}
