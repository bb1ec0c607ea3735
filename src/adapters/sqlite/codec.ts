import { type BucketState, bucketState, type LimitState } from "../../domain/bucket/bucket-state.ts";
import { NO_SLICES, SLICES_MAX, type Slice } from "../../domain/bucket/holds.ts";
import type { QuotaMarks } from "../../domain/limits/kinds/kind.ts";
import { isSound } from "../../stored/bucket-record.ts";
import type { OpenHour } from "../../stored/open-hour.ts";
import { marksOf, type Shape } from "../../stored/shape.ts";

/**
 * The part of a bucket that its shape does not tell, as stored: little-endian doubles, which hold every safe integer exactly.
 *
 *     epochMs, asOfMs, generation | NaN, requests, validUntilMs, then per limit: tokensMilli, remainder, counted | NaN,
 *     and for a quota: windowStartMs | NaN, topUpMilli, resets
 *     and for a limit on how many are at once: how long slots of it were held in the hour | NaN,
 *     then endMs | NaN, heldMilli of the slice at each of its places
 *     and for a limit with `notifyAt`: the highest percentage that was told, or 0
 *
 * Doubles rather than text: they are read and written without parsing, and the row keeps its size, so that SQLite
 * overwrites it in place.
 */
const HEAD = 5;
const PER_LIMIT = 3;
const PER_QUOTA = 3;
const PER_SLICE = 2;
const PER_SLOTS = 1 + PER_SLICE * SLICES_MAX;
const DOUBLE = 8;

function lengthOf({ limits, quotaCount, slotsCount, tellingCount }: Shape): number {
  const slots = PER_SLOTS * slotsCount;
  return HEAD + PER_LIMIT * limits.length + PER_QUOTA * quotaCount + slots + tellingCount;
}

/** The bytes are good until the next call: they are copied when they are bound. */
export function encoded(state: BucketState, open: OpenHour, shape: Shape): Uint8Array {
  const { limits, origin } = state;
  const scratch = scratchFor(lengthOf(shape));
  const { view } = scratch;
  view.setFloat64(0, state.epochMs, true);
  view.setFloat64(DOUBLE, origin.asOfMs, true);
  view.setFloat64(2 * DOUBLE, origin.generation ?? Number.NaN, true);
  view.setFloat64(3 * DOUBLE, open.requests, true);
  view.setFloat64(4 * DOUBLE, state.validUntilMs, true);
  let at = HEAD * DOUBLE;
  let heldCount = limits.length;
  for (let i = 0; i < limits.length; i++) {
    const { tokensMilli, remainder, quota, slices, limit, told } = limits[i] as LimitState;
    view.setFloat64(at, tokensMilli, true);
    view.setFloat64(at + DOUBLE, remainder, true);
    view.setFloat64(at + 2 * DOUBLE, open.counted[i] as number, true);
    at += PER_LIMIT * DOUBLE;
    if (quota !== undefined) {
      view.setFloat64(at, quota.windowStartMs ?? Number.NaN, true);
      view.setFloat64(at + DOUBLE, quota.topUpMilli, true);
      view.setFloat64(at + 2 * DOUBLE, quota.resets, true);
      at += PER_QUOTA * DOUBLE;
      if (shape.limits[i]?.holdsSlots) {
        view.setFloat64(at, open.counted[heldCount++] as number, true);
        at = writeSlices(view, at + DOUBLE, slices);
      }
    }
    if (limit.notifyAt === undefined) continue;
    view.setFloat64(at, told ?? 0, true);
    at += DOUBLE;
  }
  return scratch.bytes;
}

/** Undefined: the bytes are not those of a bucket of this shape. */
export function decoded(
  shape: Shape,
  bytes: Uint8Array,
  hourMs: number,
): { readonly state: BucketState; readonly open: OpenHour } | undefined {
  if (!(bytes instanceof Uint8Array) || bytes.byteLength !== lengthOf(shape) * DOUBLE) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const generation = view.getFloat64(2 * DOUBLE, true);
  const limits: LimitState[] = [];
  const counted: number[] = [];
  const held: number[] = [];
  let at = HEAD * DOUBLE;
  for (const { name, limit, terms, configured, isQuota, holdsSlots, isTelling, told, ...past } of shape.limits) {
    const { rememberUntilMs, resetsBefore } = past;
    const tokensMilli = view.getFloat64(at, true);
    const remainder = view.getFloat64(at + DOUBLE, true);
    counted.push(view.getFloat64(at + 2 * DOUBLE, true));
    at += PER_LIMIT * DOUBLE;
    const quota = isQuota ? marksOf(quotaAt(view, at), past) : undefined;
    if (isQuota) at += PER_QUOTA * DOUBLE;
    if (holdsSlots) held.push(view.getFloat64(at, true));
    const slices = holdsSlots ? slicesAt(view, at + DOUBLE) : past.slices;
    if (holdsSlots) at += PER_SLOTS * DOUBLE;
    const part = undefined;
    const state = {
      ...{ name, limit, terms, configured, tokensMilli, remainder, quota, slices, part },
      ...{ rememberUntilMs, resetsBefore },
    };
    const mark = isTelling ? view.getFloat64(at, true) : told;
    if (isTelling) at += DOUBLE;
    limits.push(mark === 0 ? state : { ...state, told: mark });
  }
  const state = bucketState({
    epochMs: view.getFloat64(0, true),
    limits,
    signature: shape.signature,
    origin: {
      asOfMs: view.getFloat64(DOUBLE, true),
      generation: Number.isNaN(generation) ? null : generation,
      ...(shape.changeNumber === undefined ? {} : { changeNumber: shape.changeNumber }),
    },
    validUntilMs: view.getFloat64(4 * DOUBLE, true),
  });
  const open = { hourMs, requests: view.getFloat64(3 * DOUBLE, true), counted: [...counted, ...held] };
  return isSound(state, open) ? { state, open } : undefined;
}

function quotaAt(view: DataView, at: number): QuotaMarks {
  const windowStartMs = view.getFloat64(at, true);
  return {
    windowStartMs: Number.isNaN(windowStartMs) ? undefined : windowStartMs,
    topUpMilli: view.getFloat64(at + DOUBLE, true),
    resets: view.getFloat64(at + 2 * DOUBLE, true),
  };
}

/** Answers where the next limit begins. */
function writeSlices(view: DataView, from: number, slices: readonly Slice[]): number {
  const end = from + PER_SLICE * SLICES_MAX * DOUBLE;
  for (let at = from; at < end; at += DOUBLE) view.setFloat64(at, Number.NaN, true);
  for (const { place, endMs, heldMilli } of slices) {
    view.setFloat64(from + PER_SLICE * place * DOUBLE, endMs, true);
    view.setFloat64(from + (PER_SLICE * place + 1) * DOUBLE, heldMilli, true);
  }
  return end;
}

function slicesAt(view: DataView, from: number): readonly Slice[] {
  const slices: Slice[] = [];
  for (let place = 0; place < SLICES_MAX; place++) {
    const endMs = view.getFloat64(from + PER_SLICE * place * DOUBLE, true);
    if (Number.isNaN(endMs)) continue;
    slices.push({ place, endMs, heldMilli: view.getFloat64(from + (PER_SLICE * place + 1) * DOUBLE, true) });
  }
  return slices.length === 0 ? NO_SLICES : slices;
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
