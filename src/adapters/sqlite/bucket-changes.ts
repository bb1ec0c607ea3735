import type { LimitedBucket } from "../../domain/bucket/limited-bucket.ts";
import type { ThresholdListeners } from "../../domain/bucket/mark-keeper.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import type { Answer, Claim, Held, RenewReply, WriteReply } from "../../ports/bucket-store.ts";
import type { Debited } from "../../ports/lease-change.ts";
import {
  type BucketRecord,
  brought,
  creditedTo,
  creditedToNone,
  debitedFrom,
  type OperatedRecord,
  type RecordContext,
  renewedIn,
  resetRecord,
  type TakenRecord,
  takenFrom,
  toppedUpRecord,
} from "../../stored/bucket-record.ts";
import {
  debitAnswer,
  earlierOnSame,
  type Planner,
  type SlotsBack,
  takenAnswer,
  toldBy,
} from "../../stored/bucket-rules.ts";
import type { BucketRows, NamespaceRows, Slot } from "./bucket-rows.ts";

/** What a call does to the rows of one namespace, inside a transaction. Each puts all its rows or, when it throws, none. */
export interface RowsContext extends RecordContext {
  readonly rows: BucketRows;
  readonly namespace: NamespaceRows;
  /** They are told after the commit. */
  readonly thresholds: ThresholdListeners;
}

/** All claims or none. */
export function takeAll(context: RowsContext, claims: readonly Claim[], by: Planner): readonly Answer[] {
  if (claims.length === 1) return [takeOnly(context, claims[0] as Claim, by)];
  const slots: Slot[] = [];
  const drafts: TakenRecord[] = [];
  let fitting = true;
  for (let i = 0; i < claims.length; i++) {
    const claim = claims[i] as Claim;
    const slot = context.rows.slotFor(context.namespace, claim);
    const earlier = drafts[earlierOnSame(claims, i)];
    const draft = takenFrom(earlier === undefined ? slot.row : (earlier.after ?? earlier.before), claim, by, context);
    if (draft.after === undefined) fitting = false;
    slots.push(slot);
    drafts.push(draft);
  }
  return claims.map((claim, i) => {
    const [slot, draft] = [slots[i] as Slot, drafts[i] as TakenRecord];
    return fitting
      ? granted(context, slot, draft, draft.after as BucketRecord)
      : refused(context, slot, claim, draft.before, draft.after === undefined ? "short" : "skipped");
  });
}

/** The same for one claim, as most are, without the lists that several need. */
function takeOnly(context: RowsContext, claim: Claim, by: Planner): Answer {
  const slot = context.rows.slotFor(context.namespace, claim);
  const draft = takenFrom(slot.row, claim, by, context);
  const { before, after } = draft;
  if (after === undefined) return refused(context, slot, claim, before, "short");
  return granted(context, slot, draft, after);
}

export function debit(context: RowsContext, held: Held, amounts: readonly Amount[]): Debited {
  const slot = slotOf(context, held);
  const { written, after: row } = debitedFrom(slot.row, held, amounts, context);
  if (row === undefined) return { kind: "tooDeep" };
  context.rows.put(slot, row);
  tellLater(context, held, amounts, written, row);
  return debitAnswer(row.state, held, amounts, context);
}

export function renew(context: RowsContext, held: Held, amounts: readonly Amount[]): RenewReply {
  const slot = slotOf(context, held);
  const renewed = slot.row && renewedIn(slot.row, held, amounts, context);
  if (renewed === undefined) return { kind: "lost" };
  context.rows.put(slot, renewed.record);
  return { kind: "renewed", ticket: renewed.ticket };
}

export function credit(context: RowsContext, held: Held, amounts: readonly Amount[], slots: SlotsBack): WriteReply {
  const slot = slotOf(context, held);
  if (slot.row === undefined) {
    for (const count of creditedToNone(held, amounts, slots, context)) context.rows.countForgotten(slot, count);
    return { kind: "gone" };
  }
  const row = creditedTo(slot.row, held, amounts, slots, context);
  context.rows.put(slot, row);
  return { kind: "applied", state: row.state };
}

export function topUp(context: RowsContext, of: LimitedBucket, amounts: readonly Amount[]): OperatedRecord {
  const slot = slotOf(context, of);
  return operated(context, slot, toppedUpRecord(slot.row, of, amounts, context));
}

export function reset(context: RowsContext, of: LimitedBucket, limits: readonly string[] | undefined): OperatedRecord {
  // Of everything: then it does not matter what it held, nor whether that can be read.
  const slot = limits === undefined ? context.rows.slotToReplace(context.namespace, of.bucket) : slotOf(context, of);
  return operated(context, slot, resetRecord(slot.row, of, limits, context));
}

function slotOf({ rows, namespace }: RowsContext, { bucket }: LimitedBucket): Slot {
  return rows.slot(namespace, bucket);
}

function operated({ rows }: RowsContext, slot: Slot, done: OperatedRecord): OperatedRecord {
  if (done.kind === "done") rows.put(slot, done.record);
  return done;
}

function granted(context: RowsContext, slot: Slot, { written, claim }: TakenRecord, row: BucketRecord): Answer {
  context.rows.put(slot, row);
  if (!row.state.plain) tellLater(context, claim, claim.take, written, row);
  return takenAnswer(row.state, claim, context);
}

/** What was reached is told once it is committed; where it is not, nobody hears of it. */
function tellLater(
  context: RowsContext,
  of: Pick<Claim, "bucket" | "bypass">,
  amounts: readonly Amount[],
  before: BucketRecord,
  after: BucketRecord,
): void {
  const told = toldBy({ before: before.state, after: after.state, amounts }, of, context);
  if (told !== undefined) context.rows.afterCommit(() => context.thresholds.tell(told));
}

/** Changed limits count from the moment they reach the bucket, granted or refused. A bucket that is not there stays so. */
function refused(
  context: RowsContext,
  slot: Slot,
  claim: Claim,
  before: BucketRecord,
  kind: "short" | "skipped",
): Answer {
  if (slot.row === undefined) return { kind, state: before.state };
  const row = brought(slot.row, claim, context);
  if (row !== slot.row) context.rows.put(slot, row);
  return { kind, state: row.state };
}
