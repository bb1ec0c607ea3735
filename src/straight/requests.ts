import type { Amount } from "../domain/amounts.ts";
import { quotaPinOf, type Ticket } from "../domain/give-back.ts";
import { rulesOf } from "../domain/kinds/table.ts";
import type { SourcedLimits } from "../domain/limited-bucket.ts";
import type { BatchClaim, BatchPin } from "../ports/batch-store.ts";
import type { CallContext, Claim, Held, LeaseDraft } from "../ports/bucket-store.ts";
import {
  type BucketRecord,
  brought,
  creditedToNone,
  forGiveBack,
  type RecordContext,
  roomToCount,
} from "../stored/bucket-record.ts";
import { countedOf, type Planner } from "../stored/bucket-rules.ts";
import type { Shape } from "../stored/shape.ts";

/** A call on buckets, before it is known what the rows are. */
export type Call =
  | {
      readonly kind: "take";
      readonly claims: readonly Claim[];
      readonly by: Planner;
      readonly generation: number | undefined;
      readonly lease: LeaseDraft | undefined;
    }
  | { readonly kind: "debit"; readonly held: Held; readonly amounts: readonly Amount[] }
  | {
      readonly kind: "credit";
      readonly held: Held;
      readonly amounts: readonly Amount[];
      /** What usage counts further: of a request that is as if it had never been. */
      readonly undone: readonly Amount[];
    };

/** One bucket of a call. */
export interface Part {
  readonly of: Claim | Held;
  readonly amounts: readonly Amount[];
  /** What usage counts, but for overdrafts: those only the store sees. */
  readonly counted: readonly Amount[];
  readonly undone: readonly Amount[];
}

const NOTHING: readonly Amount[] = [];
const NOTHING_PASSES: readonly number[] = [];

export function partsOf(call: Call): readonly Part[] {
  if (call.kind === "take") {
    return call.claims.map((claim) => ({
      of: claim,
      amounts: claim.take,
      counted: countedOf(claim.take, claim.bypass),
      undone: NOTHING,
    }));
  }
  const undone = call.kind === "credit" ? call.undone : NOTHING;
  return [{ of: call.held, amounts: call.amounts, counted: countedOf(call.amounts, call.held.bypass), undone }];
}

/**
 * The record as the row must be for a part of a call: what differs from the row is brought to it. Undefined: there is none, and
 * none is made for a credit.
 */
export function readyFor(
  record: BucketRecord | undefined,
  kind: Call["kind"],
  { of, counted }: Part,
  context: RecordContext,
): BucketRecord | undefined {
  if (kind !== "credit") return roomToCount(brought(record, of, context), { amounts: counted, sign: 1 }, context);
  if (record === undefined) return undefined;
  return roomToCount(forGiveBack(record, of as Held, context), { amounts: counted, sign: -1 }, context);
}

/** A part of a call on a row that is as this record is. `shape`: the limits that are expected of the row. */
export function claimOf(
  bucket: number,
  kind: Call["kind"],
  part: Part,
  row: { readonly record: BucketRecord | undefined; readonly shape: Shape; readonly signature: string },
  context: RecordContext,
): BatchClaim {
  const { of, amounts } = part;
  const { record, shape, signature } = row;
  const isCredit = kind === "credit";
  const judgedMs = Math.max(context.nowMs, record?.state.epochMs ?? context.nowMs);
  const sign = isCredit ? -1 : 1;
  const strays = context.countsUsage
    ? part.counted.filter(({ limit, milli }) => milli !== 0 && at(shape, limit) < 0)
    : [];
  return {
    bucket,
    signature,
    changedMs: isCredit ? -1 : (of.origin.changedMs ?? -1),
    origin: isCredit ? undefined : decisiveOrigin(of, record),
    amounts: placed(shape, amounts),
    bypass: of.bypass,
    leavePercent: kind === "take" ? ((of as Claim).leavePercent ?? 0) : 0,
    shadows: kind === "take" && !of.bypass ? shape.shadows : NOTHING_PASSES,
    pins: isCredit ? pinsOf(shape, amounts, (of as Held).ticket, judgedMs, context) : undefined,
    judgedMs,
    strays: [
      ...strays.map(({ limit, milli }) => ({ limit, milli: sign * milli })),
      ...(context.countsUsage ? part.undone : NOTHING),
    ],
    lost: isCredit ? creditedToNone(of as Held, amounts, {}, context)[0] : undefined,
  };
}

/** An older claim goes by the limits of the bucket; that was decided for this origin of theirs, and no other. */
function decisiveOrigin({ set }: SourcedLimits, record: BucketRecord | undefined): BatchClaim["origin"] {
  if (record === undefined || record.state.signature === set.signature) return undefined;
  const { asOfMs, generation } = record.state.origin;
  return { asOfMs, generation };
}

function placed(shape: Shape, amounts: readonly Amount[]): readonly (number | null)[] {
  const places: (number | null)[] = shape.limits.map(() => null);
  for (const { limit, milli } of amounts) {
    const i = at(shape, limit);
    if (i >= 0) places[i] = (places[i] ?? 0) + milli;
  }
  return places;
}

/** In which period each limit was taken from: the row must still be in that one. */
function pinsOf(
  shape: Shape,
  amounts: readonly Amount[],
  ticket: Ticket,
  judgedMs: number,
  { calendar: _ }: RecordContext,
): BatchClaim["pins"] {
  const pins: (BatchPin | "skip" | undefined)[] = shape.limits.map(() => undefined);
  for (const { limit: name } of amounts) {
    const i = at(shape, name);
    const held = shape.limits[i];
    if (held === undefined) continue;
    const pin = quotaPinOf(ticket, name);
    if (!held.isQuota) {
      pins[i] = pin === undefined ? undefined : "skip";
      continue;
    }
    const marks = { windowStartMs: pin?.windowStartMs, topUpMilli: 0, resets: pin?.resets ?? 0 };
    const isOf = pin !== undefined && rulesOf(held.limit).isOf(held.limit, marks, pin, judgedMs);
    pins[i] = isOf ? { resets: marks.resets, windowStartMs: marks.windowStartMs ?? null } : "skip";
  }
  return pins;
}

function at({ limits }: Shape, name: string): number {
  for (let i = 0; i < limits.length; i++) if (limits[i]?.name === name) return i;
  return -1;
}

/** The place in time of a call. */
export type CallTime = Pick<CallContext, "nowMs" | "timeoutMs" | "signal">;
