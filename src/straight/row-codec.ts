import { type BucketState, bucketState, type LimitState } from "../domain/bucket/bucket-state.ts";
import { type Damage, ItemUnreadable } from "../domain/bucket/item-unreadable.ts";
import type { Calendar } from "../domain/limits/calendar.ts";
import { rulesOf } from "../domain/limits/kinds/table.ts";
import { MILLI_MAX } from "../domain/limits/limit-numbers.ts";
import { metNumber } from "../domain/limits/limit-set.ts";
import type { ClaimLevels, SeenRow, StraightLevel, StraightRow, VersionedRow } from "../ports/batch-store.ts";
import { type BucketRecord, isSound } from "../stored/bucket-record.ts";
import { NONE } from "../stored/open-hour.ts";
import { LEVEL_DAMAGE } from "../stored/row-damage.ts";
import { marksOf } from "../stored/shape.ts";
import { beginningOf, formFrom, formOf, type RowForm, slicesIn } from "./row-form.ts";
import { marksIn, withRowMark } from "./row-marks.ts";

/** A short text that stands for the limits of a row. */
export type SignatureOf = (text: string) => string;

/** A record as a store keeps it. What leaves it for the table of usage is not in it. */
export function rowOf(record: BucketRecord, signatureOf: SignatureOf): StraightRow {
  const { state, open } = record;
  const { text } = formOf(record);
  const { epochMs, renewAtMs, validUntilMs, writtenMs, origin } = state;
  return {
    signature: signatureOf(text),
    limitsText: text,
    epochMs,
    renewAtMs,
    validUntilMs: orNever(validUntilMs),
    writtenMs: writtenMs ?? null,
    asOfMs: origin.asOfMs,
    generation: origin.generation,
    metNumber: metNumber(origin),
    hourMs: open.hourMs,
    requests: open.requests,
    levels: [
      ...state.limits.map((limit, i) => levelOf(limit, open.counted[i] as number)),
      ...state.limits.flatMap(sliceLevels),
    ],
  };
}

/** Slots that are held, as levels that are never short and count nothing. */
function sliceLevels(limit: LimitState): readonly StraightLevel[] {
  return limit.slices.map(({ endMs, heldMilli }) => ({
    ...{
      name: `${limit.name}@${endMs}`,
      capacityMilli: MILLI_MAX,
      refillAmountMilli: 0,
      refillPeriodMs: 1_000,
      soft: true,
    },
    ...{
      windowMs: SLICE,
      tokensMilli: heldMilli,
      remainder: 0,
      countedMilli: null,
      windowStartMs: null,
      topUpMilli: 0,
    },
    resets: beginningOf(limit),
  }));
}

function levelOf({ name, limit, terms, tokensMilli, remainder, quota }: LimitState, counted: number): StraightLevel {
  const rules = rulesOf(limit);
  return {
    name,
    capacityMilli: terms.capacityMilli,
    refillAmountMilli: terms.refillAmountMilli,
    refillPeriodMs: terms.refillPeriodMs,
    soft: limit.soft === true,
    windowMs: rules.opensWindow ? rules.lengthMs(limit, terms) : 0,
    tokensMilli,
    remainder,
    countedMilli: Number.isNaN(counted) ? null : counted,
    windowStartMs: quota?.windowStartMs ?? null,
    topUpMilli: quota?.topUpMilli ?? 0,
    resets: quota?.resets ?? 0,
  };
}

/** The numbers of a row that its limits do not tell. */
interface RowNumbers extends Omit<SeenRow, "limitsText" | "signature" | "version"> {}

function numbersOf({ levels, ...row }: VersionedRow): RowNumbers {
  return {
    ...row,
    tokensMilli: levels.map((level) => level.tokensMilli),
    remainders: levels.map((level) => level.remainder),
    countedMilli: levels.map((level) => level.countedMilli),
    windows: levels.map((level) => level.windowStartMs),
    topUpsMilli: levels.map((level) => level.topUpMilli),
    resets: levels.map((level) => level.resets),
  };
}

/** The record of a row whose limits are known; undefined: its numbers are damaged. */
export function recordOf(form: RowForm, row: RowNumbers, calendar: Calendar | undefined): BucketRecord | undefined {
  const { shape, slices } = form;
  const marks = marksIn(row.marks);
  const limits = shape.limits.map(({ name, limit, terms, configured, isQuota, ...past }, i): LimitState => {
    const quota = {
      windowStartMs: row.windows[i] ?? undefined,
      topUpMilli: row.topUpsMilli[i] as number,
      resets: row.resets[i] as number,
    };
    const held: LimitState = {
      name,
      limit,
      terms,
      configured,
      tokensMilli: row.tokensMilli[i] as number,
      remainder: row.remainders[i] as number,
      quota: isQuota ? marksOf(quota, past) : undefined,
      slices: slicesIn(form, i, row.tokensMilli),
      part: undefined,
      rememberUntilMs: past.rememberUntilMs,
      resetsBefore: past.resetsBefore,
    };
    if (past.isTelling) return calendar === undefined ? held : withRowMark(held, marks, row.epochMs, calendar);
    return past.told === 0 ? held : { ...held, told: past.told };
  });
  const state = bucketState({
    epochMs: row.epochMs,
    limits,
    signature: shape.signature,
    origin: {
      asOfMs: row.asOfMs,
      generation: row.generation,
      ...(shape.changeNumber === undefined ? {} : { changeNumber: shape.changeNumber }),
    },
    validUntilMs: row.validUntilMs ?? Number.POSITIVE_INFINITY,
    ...(row.writtenMs === null ? {} : { writtenMs: row.writtenMs }),
  });
  const counted = limits.map((_, i) => row.countedMilli[i] ?? Number.NaN);
  const open = { hourMs: row.hourMs, requests: row.requests, counted };
  const isWhole = row.tokensMilli.length === limits.length + slices.length && Number.isSafeInteger(row.hourMs);
  return isWhole && isSound(state, open) ? { state, shape, open, left: NONE } : undefined;
}

/** The record of a stored row; throws `ItemUnreadable` where it is damaged. */
export function recordOfRow(
  row: VersionedRow,
  bucket: { readonly entityId: string; readonly resource: string },
  calendar: Calendar,
): BucketRecord {
  const damaged = (damage: Damage) => new ItemUnreadable({ bucket, shard: 0 }, damage);
  const form = formFrom(row.limitsText, calendar);
  if (form === undefined) {
    throw damaged({ attribute: "limits", value: row.limitsText, wants: "limits as JSON" });
  }
  const record = recordOf(form, numbersOf(row), calendar);
  if (record === undefined) throw damaged({ ...LEVEL_DAMAGE, value: row.levels.map((level) => level.tokensMilli) });
  return record;
}

/** The state that a claim left, on a record as the batch left it. */
export function withLevels(
  record: BucketRecord,
  tokensMilli: readonly number[],
  windows: readonly (number | null)[] | undefined,
  validUntilMs: number | null | undefined,
): BucketState {
  const { state } = record;
  const form = formOf(record);
  const limits = state.limits.map((limit, i): LimitState => {
    const quota =
      limit.quota === undefined || windows === undefined
        ? limit.quota
        : { ...limit.quota, windowStartMs: windows[i] ?? undefined };
    return { ...limit, tokensMilli: tokensMilli[i] as number, quota, slices: slicesIn(form, i, tokensMilli) };
  });
  const until = validUntilMs === undefined ? state.validUntilMs : (validUntilMs ?? Number.POSITIVE_INFINITY);
  return bucketState({ ...state, limits, validUntilMs: until });
}

/** The names of the shadows that would have refused a claim. */
export function shadowedAt(
  { limits }: BucketState,
  { shadowed = [] }: Pick<ClaimLevels, "shadowed">,
): readonly string[] {
  return shadowed.map((place) => (limits[place] as LimitState).name);
}
/** In place of the length of a window, so that a store knows what is held from what is left. */
const SLICE = -1;

function orNever(ms: number): number | null {
  return Number.isFinite(ms) ? ms : null;
}
