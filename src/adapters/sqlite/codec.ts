import type { Terms } from "../../bucket/balance.ts";
import { type BucketState, bucketState, type LimitState } from "../../domain/bucket-state.ts";
import type { CronCheck } from "../../domain/calendar.ts";
import { rulesOf } from "../../domain/kinds/table.ts";
import { type Limit, termsOf } from "../../domain/limit.ts";
import { limitSet } from "../../domain/limit-set.ts";
import type { OpenHour } from "./open-hour.ts";
import { isLimit, isWhole, jsonIn } from "./row-damage.ts";

/** What of a bucket changes only with its limits, or at a boundary of theirs: shared by all buckets that have the same. */
export interface Shape {
  /**
   * As it is stored: `[signature, limit, ...]`. A limit is `[name, capacity, refillAmount, refillPeriodMs, configured]` when
   * it is plain and goes by its own terms, else `[limit, capacityMilli, refillAmountMilli, refillPeriodMs, configured]`; a
   * sixth and a seventh number are `rememberUntilMs` and `resetsBefore`, if there is such a past. The signature is 0 when it follows from the limits. Short, because a commit writes whole pages: the more rows fit on one,
   * the fewer it writes. Where the bucket has gone through a change of stored limits, `[signature, changedMs]` stands in place of
   * the signature.
   */
  readonly text: string;
  readonly signature: string;
  /** See `SetOrigin.changedMs`. */
  readonly changedMs: number | undefined;
  readonly limits: readonly {
    readonly name: string;
    readonly limit: Limit;
    readonly terms: Terms;
    readonly configured: boolean;
    readonly isQuota: boolean;
    readonly rememberUntilMs: number;
    readonly resetsBefore: number;
  }[];
  /** Doubles in the level. */
  readonly length: number;
}

/**
 * The other part, as stored: little-endian doubles, which hold every safe integer exactly.
 *
 *     epochMs, asOfMs, generation | NaN, requests, validUntilMs, then per limit: tokensMilli, remainder, counted | NaN,
 *     and for a quota: windowStartMs | NaN, topUpMilli, resets
 *
 * Doubles rather than text: they are read and written without parsing, and the row keeps its size, so that SQLite
 * overwrites it in place.
 */
const HEAD = 5;
const PER_LIMIT = 3;
const PER_QUOTA = 3;
const DOUBLE = 8;

type LimitRow = readonly [name: string | Limit, number, number, number, configured: 0 | 1, ...past: readonly number[]];

const SHAPES_MAX = 1_000;
const shapes = new Map<string, Shape>();

/** The shape of a state whose limits have changed. */
export function shapeOf(state: BucketState): Shape {
  const signature = state.signature === signatureOf(state.limits) ? 0 : state.signature;
  const { changedMs } = state.origin;
  const rows: Rows = [changedMs === undefined ? signature : [signature, changedMs], ...state.limits.map(rowOf)];
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

/** The bytes are good until the next call: they are copied when they are bound. */
export function encoded(state: BucketState, open: OpenHour, shape: Shape): Uint8Array {
  const { limits, origin } = state;
  const scratch = scratchFor(shape.length);
  const { view } = scratch;
  view.setFloat64(0, state.epochMs, true);
  view.setFloat64(DOUBLE, origin.asOfMs, true);
  view.setFloat64(2 * DOUBLE, origin.generation ?? Number.NaN, true);
  view.setFloat64(3 * DOUBLE, open.requests, true);
  view.setFloat64(4 * DOUBLE, state.validUntilMs, true);
  let at = HEAD * DOUBLE;
  for (let i = 0; i < limits.length; i++) {
    const { tokensMilli, remainder, quota } = limits[i] as LimitState;
    view.setFloat64(at, tokensMilli, true);
    view.setFloat64(at + DOUBLE, remainder, true);
    view.setFloat64(at + 2 * DOUBLE, open.counted[i] as number, true);
    at += PER_LIMIT * DOUBLE;
    if (quota === undefined) continue;
    view.setFloat64(at, quota.windowStartMs ?? Number.NaN, true);
    view.setFloat64(at + DOUBLE, quota.topUpMilli, true);
    view.setFloat64(at + 2 * DOUBLE, quota.resets, true);
    at += PER_QUOTA * DOUBLE;
  }
  return scratch.bytes;
}

/** Undefined: the bytes are not those of a bucket of this shape. */
export function decoded(
  shape: Shape,
  bytes: Uint8Array,
  hourMs: number,
): { readonly state: BucketState; readonly open: OpenHour } | undefined {
  if (!(bytes instanceof Uint8Array) || bytes.byteLength !== shape.length * DOUBLE) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const generation = view.getFloat64(2 * DOUBLE, true);
  const limits: LimitState[] = [];
  const counted: number[] = [];
  let at = HEAD * DOUBLE;
  for (const { name, limit, terms, configured, isQuota, rememberUntilMs, resetsBefore } of shape.limits) {
    const tokensMilli = view.getFloat64(at, true);
    const remainder = view.getFloat64(at + DOUBLE, true);
    counted.push(view.getFloat64(at + 2 * DOUBLE, true));
    at += PER_LIMIT * DOUBLE;
    const quota = isQuota ? quotaAt(view, at) : undefined;
    if (isQuota) at += PER_QUOTA * DOUBLE;
    const part = undefined;
    limits.push({ name, limit, terms, configured, tokensMilli, remainder, quota, part, rememberUntilMs, resetsBefore });
  }
  const state = bucketState({
    epochMs: view.getFloat64(0, true),
    limits,
    signature: shape.signature,
    origin: {
      asOfMs: view.getFloat64(DOUBLE, true),
      generation: Number.isNaN(generation) ? null : generation,
      ...(shape.changedMs === undefined ? {} : { changedMs: shape.changedMs }),
    },
    validUntilMs: view.getFloat64(4 * DOUBLE, true),
  });
  const open = { hourMs, requests: view.getFloat64(3 * DOUBLE, true), counted };
  return isSound(state, open) ? { state, open } : undefined;
}

/** Whether all numbers are such that can be worked with. */
function isSound({ epochMs, limits, origin, validUntilMs }: BucketState, { requests, counted }: OpenHour): boolean {
  if (!Number.isSafeInteger(epochMs) || !Number.isSafeInteger(requests)) return false;
  if (Number.isNaN(origin.asOfMs) || Number.isNaN(validUntilMs)) return false;
  for (let i = 0; i < limits.length; i++) {
    const { tokensMilli, remainder, quota } = limits[i] as LimitState;
    const count = counted[i] as number;
    if (!Number.isSafeInteger(tokensMilli) || !Number.isSafeInteger(remainder) || remainder < 0) return false;
    if (!Number.isSafeInteger(count) && !Number.isNaN(count)) return false;
    if (quota === undefined) continue;
    const { windowStartMs = 0, topUpMilli, resets } = quota;
    if (![windowStartMs, topUpMilli, resets].every(Number.isSafeInteger) || topUpMilli < 0) return false;
  }
  return true;
}

function quotaAt(view: DataView, at: number): LimitState["quota"] {
  const windowStartMs = view.getFloat64(at, true);
  return {
    windowStartMs: Number.isNaN(windowStartMs) ? undefined : windowStartMs,
    topUpMilli: view.getFloat64(at + DOUBLE, true),
    resets: view.getFloat64(at + 2 * DOUBLE, true),
  };
}

function rowOf({ limit, terms, configured, rememberUntilMs, resetsBefore }: LimitState): LimitRow {
  const { name, capacity, refillAmount, refillPeriodMs } = limit;
  const flag = configured ? 1 : 0;
  const past = rememberUntilMs === 0 && resetsBefore === 0 ? [] : [rememberUntilMs, resetsBefore];
  if (isPlain(limit, terms)) return [name, capacity, refillAmount, refillPeriodMs, flag, ...past];
  return [limit, terms.capacityMilli, terms.refillAmountMilli, terms.refillPeriodMs, flag, ...past];
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
type Rows = readonly [head: Signature | readonly [Signature, changedMs: number], ...rows: LimitRow[]];

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
  const [signature, changedMs] = typeof head === "object" ? head : [head, undefined];
  const limits = rows.map(([first, second, third, fourth, configured, rememberUntilMs = 0, resetsBefore = 0]) => {
    const isShort = typeof first === "string";
    const limit = isShort ? { name: first, capacity: second, refillAmount: third, refillPeriodMs: fourth } : first;
    const terms = isShort
      ? termsOf(limit)
      : { capacityMilli: second, refillAmountMilli: third, refillPeriodMs: fourth };
    const isQuota = rulesOf(limit).marks !== undefined;
    return { name: limit.name, limit, terms, configured: configured === 1, isQuota, rememberUntilMs, resetsBefore };
  });
  const quotas = limits.filter(({ isQuota }) => isQuota).length;
  const length = HEAD + PER_LIMIT * limits.length + PER_QUOTA * quotas;
  return { text, signature: signature === 0 ? signatureOf(limits) : signature, changedMs, limits, length };
}

interface Scratch {
  readonly bytes: Uint8Array;
  readonly view: DataView;
}

const scratches: Scratch[] = [];

function scratchFor(length: number): Scratch {
  let scratch = scratches[length];
  if (scratch === undefined) {
    const bytes = new Uint8Array(length * DOUBLE);
    scratch = { bytes, view: new DataView(bytes.buffer) };
    scratches[length] = scratch;
  }
  return scratch;
}
