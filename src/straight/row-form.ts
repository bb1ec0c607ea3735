import type { LimitState } from "../domain/bucket/bucket-state.ts";
import { NO_SLICES, type Slice, type SliceName } from "../domain/bucket/holds.ts";
import type { CronCheck } from "../domain/limits/schedule.ts";
import type { BucketRecord } from "../stored/bucket-record.ts";
import { isWhole, jsonIn } from "../stored/row-damage.ts";
import { type Shape, shapeFrom } from "../stored/shape.ts";

/**
 * The part of a row that changes only with its limits, or when slots are held until another instant: rows with the same text have the same levels
 * in the same order. Slots that are held until one instant are a level of their own, behind those of the limits, so that a store moves
 * them as it moves tokens; when they end is part of the text, and so of the signature that takes and give-backs compare.
 */
export interface RowForm {
  /** That of the shape; where slots are held, `[limit, beginning, place, endMs, ...]` of each limit in a second line. */
  readonly text: string;
  readonly shape: Shape;
  /** In the order of their levels. */
  readonly slices: readonly SliceLevel[];
}

/** Slots of one limit, by its place among the limits, that are held until one instant. */
interface SliceLevel {
  readonly limit: number;
  readonly place: number;
  readonly endMs: number;
}

const NONE: readonly SliceLevel[] = Object.freeze([]);

/** The form of a row that a record is kept as. */
export function formOf({ shape, state }: Pick<BucketRecord, "shape" | "state">): RowForm {
  const { limits } = state;
  for (let i = 0; i < limits.length; i++) {
    if ((limits[i] as LimitState).slices.length > 0) return withSlices(shape, limits);
  }
  return plainForm(shape);
}

/** Undefined: the text is not of this form. */
export function formFrom(text: unknown, calendar: CronCheck): RowForm | undefined {
  if (typeof text !== "string") return undefined;
  const line = text.indexOf("\n");
  const shape = shapeFrom(line < 0 ? text : text.slice(0, line), calendar);
  if (shape === undefined || line < 0) return shape && plainForm(shape);
  const rows = jsonIn(text.slice(line + 1));
  if (!Array.isArray(rows) || !rows.every((row) => isRow(row, shape))) return undefined;
  return {
    text,
    shape,
    slices: rows.flatMap(([limit, , ...ends]: readonly number[]) => levelsIn(limit as number, ends)),
  };
}

/** The slices of a limit, of the tokens of all levels of a row. */
export function slicesIn({ shape, slices }: RowForm, limit: number, tokensMilli: readonly number[]): readonly Slice[] {
  if (slices.length === 0) return NO_SLICES;
  const own: Slice[] = [];
  for (const [i, { limit: of, place, endMs }] of slices.entries()) {
    if (of === limit) own.push({ place, endMs, heldMilli: tokensMilli[shape.limits.length + i] as number });
  }
  return own.length === 0 ? NO_SLICES : own;
}

/** The level of a row that is that of a limit's slice. */
export function levelAt({ shape, slices }: RowForm, limit: number, { place, endMs }: SliceName): number {
  const at = slices.findIndex((one) => one.limit === limit && one.place === place && one.endMs === endMs);
  return shape.limits.length + at;
}

/** The number that tells the beginnings of a limit apart: a hold of before is not given back into what begins after. */
export function beginningOf({ quota, resetsBefore }: LimitState): number {
  return quota?.resets ?? resetsBefore;
}

const plainForms = new WeakMap<Shape, RowForm>();

function plainForm(shape: Shape): RowForm {
  let form = plainForms.get(shape);
  if (form === undefined) {
    form = { text: shape.text, shape, slices: NONE };
    plainForms.set(shape, form);
  }
  return form;
}

function withSlices(shape: Shape, limits: readonly LimitState[]): RowForm {
  const slices: SliceLevel[] = [];
  const rows: number[][] = [];
  for (const [limit, state] of limits.entries()) {
    if (state.slices.length === 0) continue;
    rows.push([limit, beginningOf(state), ...state.slices.flatMap(({ place, endMs }) => [place, endMs])]);
    for (const { place, endMs } of state.slices) slices.push({ limit, place, endMs });
  }
  return { text: `${shape.text}\n${JSON.stringify(rows)}`, shape, slices };
}

function levelsIn(limit: number, ends: readonly number[]): readonly SliceLevel[] {
  const levels: SliceLevel[] = [];
  for (let i = 0; i < ends.length; i += 2) {
    levels.push({ limit, place: ends[i] as number, endMs: ends[i + 1] as number });
  }
  return levels;
}

function isRow(row: unknown, { limits }: Shape): boolean {
  if (!Array.isArray(row) || row.length < 4 || row.length % 2 !== 0) return false;
  return row.every((value) => isWhole(value, 0, Number.MAX_SAFE_INTEGER)) && (row[0] as number) < limits.length;
}
