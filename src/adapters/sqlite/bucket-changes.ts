import type { Amount } from "../../domain/amounts.ts";
import {
  type BucketState,
  bringLimits,
  creditTo,
  debitFrom,
  freshBucket,
  takeFrom,
} from "../../domain/bucket-state.ts";
import type { Answer, Claim, Held, Ticket, WriteReply } from "../../ports/bucket-store.ts";
import type { BucketRow, BucketRows, NamespaceRows, Slot } from "./bucket-rows.ts";
import { shapeOf } from "./codec.ts";
import { type Counting, countedIn, emptyHour, leaving, NONE } from "./open-hour.ts";

/** A bucket that does not exist, or is full, takes any give-back alike: nothing about a take needs remembering. */
const TICKET: Ticket = Object.freeze({});

/** What a call does to the rows of one namespace, inside a transaction. Each puts all its rows or, when it throws, none. */
export interface Place {
  readonly rows: BucketRows;
  readonly namespace: NamespaceRows;
  readonly nowMs: number;
}

interface Draft {
  readonly slot: Slot;
  readonly claim: Claim;
  readonly before: BucketRow;
  readonly after: BucketRow | undefined;
}

/** All claims or none. */
export function takeAll(place: Place, claims: readonly Claim[]): readonly Answer[] {
  const drafts: Draft[] = [];
  let fitting = true;
  for (const claim of claims) {
    const slot = place.rows.slot(place.namespace, claim.bucket);
    const before = brought(latest(drafts, slot), claim, place.nowMs);
    const state = takeFrom(before.state, claim.take, place.nowMs);
    if (state === undefined) fitting = false;
    const counting: Counting = { amounts: claim.take, sign: 1, requests: 1, nowMs: place.nowMs };
    const after = state === undefined ? undefined : counted(before, state, counting);
    drafts.push({ slot, claim, before, after });
  }
  return fitting ? granted(place, drafts) : refused(place, drafts);
}

export function debit(place: Place, held: Held, amounts: readonly Amount[]): WriteReply {
  const slot = place.rows.slot(place.namespace, held.bucket);
  const before = brought(slot.row, held, place.nowMs);
  const state = debitFrom(before.state, amounts, place.nowMs);
  place.rows.put(slot, counted(before, state, { amounts, sign: 1, requests: 0, nowMs: place.nowMs }));
  return { kind: "applied", state };
}

export function credit(place: Place, held: Held, amounts: readonly Amount[]): WriteReply {
  const slot = place.rows.slot(place.namespace, held.bucket);
  if (slot.row === undefined) return { kind: "gone" };
  const state = creditTo(slot.row.state, amounts);
  place.rows.put(slot, counted(slot.row, state, { amounts, sign: -1, requests: 0, nowMs: place.nowMs }));
  return { kind: "applied", state };
}

// Two claims of one call on the same bucket see each other.
function latest(drafts: readonly Draft[], slot: Slot): BucketRow | undefined {
  for (let i = drafts.length - 1; i >= 0; i--) {
    const draft = drafts[i] as Draft;
    if (draft.slot === slot) return draft.after ?? draft.before;
  }
  return slot.row;
}

function brought(row: BucketRow | undefined, { set, origin }: Claim | Held, nowMs: number): BucketRow {
  if (row === undefined) {
    const fresh = freshBucket(set, origin, nowMs);
    return { state: fresh, shape: shapeOf(fresh), open: emptyHour(fresh.limits, nowMs), left: NONE };
  }
  const state = bringLimits(row.state, set, origin, nowMs);
  if (state === row.state) return row;
  // The counts are kept in the order of the limits, which has changed: they leave by name.
  const left = [...row.left, ...leaving(row.open, row.shape.limits)];
  return { state, shape: shapeOf(state), open: emptyHour(state.limits, row.open.hourMs), left };
}

function counted({ shape, open, left }: BucketRow, state: BucketState, counting: Counting): BucketRow {
  const next = countedIn(open, shape.limits, counting);
  return { state, shape, open: next.open, left: next.left.length === 0 ? left : [...left, ...next.left] };
}

function granted(place: Place, drafts: readonly Draft[]): readonly Answer[] {
  return drafts.map(({ slot, after }): Answer => {
    const row = after as BucketRow;
    place.rows.put(slot, row);
    return { kind: "taken", state: row.state, ticket: TICKET };
  });
}

function refused(place: Place, drafts: readonly Draft[]): readonly Answer[] {
  return drafts.map(({ slot, claim, before, after }): Answer => {
    const kind = after === undefined ? "short" : "spared";
    if (slot.row === undefined) return { kind, state: before.state };
    // Changed limits count from the moment they reach the bucket, granted or refused.
    const row = brought(slot.row, claim, place.nowMs);
    if (row !== slot.row) place.rows.put(slot, row);
    return { kind, state: row.state };
  });
}
