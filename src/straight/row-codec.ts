import { type BucketState, bucketState } from "../domain/bucket/bucket-state.ts";
import { type Damage, ItemUnreadable } from "../domain/bucket/item-unreadable.ts";
import type { LimitState } from "../domain/bucket/limit-state.ts";
import { markText, periodOf, withMark } from "../domain/bucket/mark-keeper.ts";
import { rulesOf } from "../domain/limits/kinds/table.ts";
import { MILLI_MAX } from "../domain/limits/limit-numbers.ts";
import { metNumber } from "../domain/limits/limit-set.ts";
import type { Calendar, CronCheck } from "../domain/limits/schedule.ts";
import type {
  ClaimLevels,
  DraftedLease,
  SeenRow,
  StraightLevel,
  StraightRow,
  VersionedRow,
} from "../ports/batch-store.ts";
import type { LeaseWrite } from "../ports/bucket-store.ts";
import type { LeaseForm } from "../ports/lease-store.ts";
import { type BucketRecord, isSound } from "../stored/bucket-record.ts";
import { NONE } from "../stored/open-hour.ts";
import { LEVEL_DAMAGE } from "../stored/row-damage.ts";
import { marksOf } from "../stored/shape.ts";
import { beginningOf, formFrom, formOf, type RowForm, slicesIn } from "./row-form.ts";

/** The marks of a row: by limit what was told of it, and the number of the process that wrote it. */
type RowMarks = Readonly<Record<string, readonly [mark: string, number: string]>>;

/** The marks of a row; none where it has none, or what is there is damaged: then they are told anew. */
export function marksIn(text: string | null): RowMarks {
  if (text === null) return {};
  try {
    const found = JSON.parse(text) as unknown;
    return typeof found === "object" && found !== null ? (found as RowMarks) : {};
  } catch {
    return {};
  }
}

/** The marks with another one of one limit. */
export function marksWith(
  text: string | null,
  limit: string,
  { percent, period, number }: { readonly percent: number; readonly period: string; readonly number: string },
): string {
  return JSON.stringify({ ...marksIn(text), [limit]: [markText({ percent, period }), number] });
}

/** A limit with what its row says was told of it, in the period of the epoch. */
function withRowMark(held: LimitState, marks: RowMarks, epochMs: number, calendar: Calendar): LimitState {
  const mark = marks[held.name]?.[0];
  return mark === undefined ? held : withMark(held, mark, epochMs, calendar);
}

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

/** Slots that are held are a level that is never short and counts nothing. */
const SLICE_LEVEL = {
  capacityMilli: MILLI_MAX,
  refillAmountMilli: 0,
  refillPeriodMs: 1_000,
  soft: true,
  // In place of the length of a window, so that a store knows what is held from what is left.
  windowMs: -1,
  remainder: 0,
  countedMilli: null,
  windowStartMs: null,
  topUpMilli: 0,
};

function sliceLevels(limit: LimitState): readonly StraightLevel[] {
  const resets = beginningOf(limit);
  return limit.slices.map(({ endMs, heldMilli }) => ({
    ...SLICE_LEVEL,
    name: `${limit.name}@${endMs}`,
    tokensMilli: heldMilli,
    resets,
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
  // The last claim of a batch leaves what the row has.
  const isPlain = !state.untouched && form.slices.length === 0 && windows === undefined && validUntilMs === undefined;
  if (isPlain && state.limits.every((limit, i) => limit.tokensMilli === tokensMilli[i])) return state;
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

function orNever(ms: number): number | null {
  return Number.isFinite(ms) ? ms : null;
}

/** The record and the answer that a draft stands for, as a take has written it down. */
export function draftedWrite(
  { buckets, nowMs, ...draft }: DraftedLease,
  form: LeaseForm,
  calendar: CronCheck,
): LeaseWrite {
  const foundBy = (id: string) => buckets.find(({ key }) => key.id === id) as DraftedLease["buckets"][number];
  const stateOf = (id: string): BucketState => {
    const { key, row, levels } = foundBy(id);
    const form = formFrom(row.limitsText ?? "", calendar);
    const record = form && recordOf(form, row, undefined);
    if (record === undefined) {
      throw new ItemUnreadable({ bucket: key, shard: 0 }, { ...LEVEL_DAMAGE, value: row.tokensMilli });
    }
    return withLevels(record, levels.tokensMilli, levels.windows, levels.validUntilMs);
  };
  const shadowedOf = (id: string) => shadowedAt(stateOf(id), foundBy(id).levels);
  return form.writeOf(draft, { nowMs, stateOf, shadowedOf });
}

/** The marks of what was told of the limits of a copied bucket, by a number that no process has. */
export function copiedMarks(
  { state: { limits, epochMs } }: { readonly state: BucketState },
  calendar: Calendar,
): string | null {
  let marks: string | null = null;
  for (const held of limits) {
    if (held.told === undefined || held.limit.notifyAt === undefined) continue;
    const mark = { percent: held.told, period: periodOf(held, epochMs, calendar), number: "0" };
    marks = marksWith(marks, held.name, mark);
  }
  return marks;
}
