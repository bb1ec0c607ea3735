import { withoutShadowed } from "../domain/bucket/bucket-questions.ts";
import type { BucketState } from "../domain/bucket/bucket-state.ts";
import { type Damage, ItemUnreadable } from "../domain/bucket/item-unreadable.ts";
import type { Amount } from "../domain/charge/amounts.ts";
import { keyInProgress } from "../domain/lease/idempotency.ts";
import type { Calendar } from "../domain/limits/schedule.ts";
import type { BatchReply, ClaimLevels, RequestReply, SeenRow } from "../ports/batch-store.ts";
import type { Answer, Claim, RenewReply, TakeReply, WriteReply } from "../ports/bucket-store.ts";
import { type BucketRecord, recordFor } from "../stored/bucket-record.ts";
import { debitAnswer, type RuleContext, type SplitClaim, takenAnswer, usageOfTake } from "../stored/bucket-rules.ts";
import { REQUESTS_COUNTER } from "../stored/open-hour.ts";
import { LEVEL_DAMAGE } from "../stored/row-damage.ts";
import type { BatchDraft, DraftBucket, KnownRows } from "./draft.ts";
import { type Call, type Part, partsOf } from "./requests.ts";
import { recordOf, type SignatureOf, shadowedAt, withLevels } from "./row-codec.ts";
import { formFrom, formOf } from "./row-form.ts";
import { renewalOf } from "./slot-moves.ts";

/** `ended`: the end of an override has to be met first. */
export type Reply = TakeReply | WriteReply | RenewReply | "ended";

type Done = Extract<BatchReply, { readonly kind: "done" }>;

/** The rows of a batch after it, by bucket id. */
export class RowsAfter {
  readonly #records = new Map<string, BucketRecord | Damage | undefined>();

  constructor(
    draft: BatchDraft,
    { rows }: Done,
    parts: { readonly signatureOf: SignatureOf; readonly calendar: Calendar },
  ) {
    for (const bucket of draft.buckets) {
      const row = rows[bucket.index];
      const found = row === null || row === undefined ? undefined : recordOfSeen(row, bucket, parts);
      this.#records.set(bucket.key.id, found);
    }
  }

  /** Undefined: there is no such bucket. */
  of({ of }: Part): BucketRecord | undefined {
    const found = this.#records.get(of.bucket.id);
    if (found === undefined || "state" in found) return found;
    throw new ItemUnreadable({ bucket: of.bucket, shard: 0 }, found);
  }

  /** Notes how the rows are, for the next batch. */
  noteIn(known: KnownRows, draft: BatchDraft, { rows }: Done): void {
    for (const { key, index, known: before } of draft.buckets) {
      const found = this.#records.get(key.id);
      const version = rows[index]?.version ?? 0;
      if (found === undefined || !("state" in found)) known.forget(key.id);
      // An answer that was overtaken by that of another lane says nothing new.
      else if (version >= (known.get(key.id)?.version ?? 0) || before === known.get(key.id)) {
        known.set(key.id, { version, record: found });
      }
    }
  }
}

function recordOfSeen(
  row: SeenRow,
  { ready, known, guessed }: DraftBucket,
  { signatureOf, calendar }: { readonly signatureOf: SignatureOf; readonly calendar: Calendar },
): BucketRecord | Damage {
  const expected = [ready && formOf(ready), known && formOf(known.record), guessed];
  const form =
    expected.find((one) => one !== undefined && signatureOf(one.text) === row.signature) ??
    formFrom(row.limitsText, calendar);
  if (form === undefined) return { attribute: "limits", value: row.limitsText, wants: "limits as JSON" };
  return recordOf(form, row, calendar) ?? { ...LEVEL_DAMAGE, value: row.tokensMilli };
}

/** The answer to a call; `again`: it has to be sent once more. */
export function answerOf(
  call: Call,
  reply: RequestReply,
  rows: RowsAfter,
  draft: BatchDraft,
  context: RuleContext,
): Reply | "again" | "clock" {
  const parts = partsOf(call);
  switch (reply.kind) {
    case "again":
      for (const part of parts) rows.of(part);
      return "again";
    case "clock":
      return "clock";
    case "stale":
      return "stale";
    case "keyLost":
      throw keyInProgress(call.kind === "take" ? (call.lease?.key?.key ?? "") : "");
    case "gone":
    case "tooDeep":
      return call.kind === "renew" ? { kind: "lost" } : { kind: reply.kind };
    case "applied":
    case "short":
      break;
  }
  if (call.kind === "renew") {
    // The row was as it was expected to be: what was worked out for it is what was done.
    const { ready } = draft.bucketOf(call.held.bucket.id);
    const renewed = ready && renewalOf(ready.state, call.held, call.amounts, context.nowMs);
    return renewed === undefined ? { kind: "lost" } : { kind: "renewed", ticket: renewed.ticket };
  }
  const states = parts.map((part, i) => {
    const levels = reply.claims[i];
    const record = rows.of(part) ?? draft.bucketOf(part.of.bucket.id).ready ?? recordFor(undefined, part.of, context);
    if (levels === null || levels === undefined) return record.state;
    return withLevels(record, levels.tokensMilli, levels.windows, levels.validUntilMs);
  });
  if (call.kind === "debit") return debitAnswer(states[0] as (typeof states)[0], call.held, call.amounts, context);
  if (call.kind === "credit") return { kind: "applied", state: states[0] as (typeof states)[0] };
  return states.map((state, i): Answer => {
    if (reply.kind === "applied")
      return takenAnswer(state, passing(state, call.claims[i] as Claim, reply.claims[i]), context);
    const isUntouched = rows.of(parts[i] as Part) === undefined;
    return { kind: reply.short[i] ? "short" : "skipped", state: isUntouched ? { ...state, untouched: true } : state };
  });
}

/** The claim without the shadows that it passed by. */
function passing(state: BucketState, claim: Claim, levels: ClaimLevels | null | undefined): SplitClaim {
  if (levels?.shadowed === undefined) return claim;
  const passed = shadowedAt(state, levels);
  // In the order of what was asked, as on every store; the row has them in that of its limits.
  const shadowed = claim.take.flatMap(({ limit }) => (passed.includes(limit) ? [limit] : []));
  return { ...claim, take: withoutShadowed(claim.take, shadowed), shadowed };
}

/** The counts of a take beside its amounts, the other way round. */
export function undoneOf(state: BucketState, claim: SplitClaim, nowMs: number): readonly Amount[] {
  const beside = usageOfTake(state, { ...claim, take: claim.bypass ? [] : claim.take }, nowMs).filter(
    ({ limit }) => !claim.take.some((one) => one.limit === limit),
  );
  return [{ limit: REQUESTS_COUNTER, milli: -1 }, ...beside.map(({ limit, milli }) => ({ limit, milli: -milli }))];
}

/** The answer to a call that others were always faster than. */
export function contended(call: Call, rowOf: (id: string) => BucketRecord | undefined, context: RuleContext): Reply {
  if (call.kind !== "take") {
    return { kind: "unavailable", applied: "no", cause: new Error("Other processes kept changing this bucket.") };
  }
  return call.claims.map((claim) => ({
    kind: "contended",
    state: recordFor(rowOf(claim.bucket.id), claim, context).state,
  }));
}

export function unavailable(call: Call, applied: "no" | "unknown", cause: unknown): Reply {
  if (call.kind === "take") return call.claims.map(() => ({ kind: "unavailable", cause }));
  return { kind: "unavailable", applied, cause };
}
