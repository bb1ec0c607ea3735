import type { Terms } from "../../bucket/balance.ts";
import { type BucketState, bucketState, type LimitState } from "../../domain/bucket-state.ts";
import type { OpenHour } from "./open-hour.ts";

/** What of a bucket changes only with its limits: shared by all buckets that have the same ones. */
export interface Shape {
  /** As it is stored: `[signature, [name, capacityMilli, refillAmountMilli, refillPeriodMs, configured], ...]`. */
  readonly text: string;
  readonly signature: string;
  readonly limits: readonly { readonly name: string; readonly terms: Terms; readonly configured: boolean }[];
  readonly epochAgeMaxMs: number;
}

/**
 * The other part, as stored: little-endian doubles, which hold every safe integer exactly.
 *
 *     epochMs, asOfMs, generation | NaN, requests, then per limit: tokensMilli, remainder, counted | NaN
 *
 * Doubles rather than text: they are read and written without parsing, and the row keeps its size, so that SQLite
 * overwrites it in place.
 */
const HEAD = 4;
const PER_LIMIT = 3;
const DOUBLE = 8;

type LimitRow = readonly [string, number, number, number, 0 | 1];

const SHAPES_MAX = 1_000;
const shapes = new Map<string, Shape>();

/** The shape of a state whose limits have changed. */
export function shapeOf(state: BucketState): Shape {
  const rows = state.limits.map(({ name, terms, configured }): LimitRow => {
    return [name, terms.capacityMilli, terms.refillAmountMilli, terms.refillPeriodMs, configured ? 1 : 0];
  });
  return shapeFrom(JSON.stringify([state.signature, ...rows]));
}

export function shapeFrom(text: string): Shape {
  let shape = shapes.get(text);
  if (shape === undefined) {
    if (shapes.size >= SHAPES_MAX) shapes.clear();
    shape = parsed(text);
    shapes.set(text, shape);
  }
  return shape;
}

/** The bytes are good until the next call: they are copied when they are bound. */
export function encoded(state: BucketState, open: OpenHour): Uint8Array {
  const { limits, origin } = state;
  const scratch = scratchFor(limits.length);
  const { view } = scratch;
  view.setFloat64(0, state.epochMs, true);
  view.setFloat64(DOUBLE, origin.asOfMs, true);
  view.setFloat64(2 * DOUBLE, origin.generation ?? Number.NaN, true);
  view.setFloat64(3 * DOUBLE, open.requests, true);
  let at = HEAD * DOUBLE;
  for (let i = 0; i < limits.length; i++) {
    const limit = limits[i] as LimitState;
    view.setFloat64(at, limit.tokensMilli, true);
    view.setFloat64(at + DOUBLE, limit.remainder, true);
    view.setFloat64(at + 2 * DOUBLE, open.counted[i] as number, true);
    at += PER_LIMIT * DOUBLE;
  }
  return scratch.bytes;
}

export function decoded(
  shape: Shape,
  bytes: Uint8Array,
  hourMs: number,
): { readonly state: BucketState; readonly open: OpenHour } {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const generation = view.getFloat64(2 * DOUBLE, true);
  const limits: LimitState[] = [];
  const counted: number[] = [];
  let at = HEAD * DOUBLE;
  for (const { name, terms, configured } of shape.limits) {
    const tokensMilli = view.getFloat64(at, true);
    const remainder = view.getFloat64(at + DOUBLE, true);
    limits.push({ name, terms, configured, tokensMilli, remainder });
    counted.push(view.getFloat64(at + 2 * DOUBLE, true));
    at += PER_LIMIT * DOUBLE;
  }
  const state: BucketState = {
    epochMs: view.getFloat64(0, true),
    limits,
    signature: shape.signature,
    origin: { asOfMs: view.getFloat64(DOUBLE, true), generation: Number.isNaN(generation) ? null : generation },
    epochAgeMaxMs: shape.epochAgeMaxMs,
  };
  return { state, open: { hourMs, requests: view.getFloat64(3 * DOUBLE, true), counted } };
}

function parsed(text: string): Shape {
  const [signature, ...rows] = JSON.parse(text) as [string, ...LimitRow[]];
  const limits = rows.map(([name, capacityMilli, refillAmountMilli, refillPeriodMs, configured]) => ({
    name,
    terms: { capacityMilli, refillAmountMilli, refillPeriodMs },
    configured: configured === 1,
  }));
  const full = limits.map((limit) => ({ ...limit, tokensMilli: limit.terms.capacityMilli, remainder: 0 }));
  const { epochAgeMaxMs } = bucketState({
    epochMs: 0,
    limits: full,
    signature,
    origin: { asOfMs: 0, generation: null },
  });
  return { text, signature, limits, epochAgeMaxMs };
}

interface Scratch {
  readonly bytes: Uint8Array;
  readonly view: DataView;
}

const scratches: Scratch[] = [];

function scratchFor(limits: number): Scratch {
  let scratch = scratches[limits];
  if (scratch === undefined) {
    const bytes = new Uint8Array((HEAD + PER_LIMIT * limits) * DOUBLE);
    scratch = { bytes, view: new DataView(bytes.buffer) };
    scratches[limits] = scratch;
  }
  return scratch;
}
