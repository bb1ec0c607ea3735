import { hardSlotLimits } from "../domain/bucket/slot-time.ts";
import { keyInProgress } from "../domain/lease/idempotency.ts";
import type { LeaseRecord, OnExpiry } from "../domain/lease/lease-record.ts";
import { draftText, type StoredDraft } from "../domain/lease/stored-lease.ts";
import { holdMsOf } from "../domain/limits/kinds/concurrent.ts";
import type { Outcome } from "../engine/acquire/acquiring.ts";
import type { KeyedResult } from "../engine/acquire/once-per-key.ts";
import type { PartsDraft } from "../engine/acquire/plan.ts";
import type { AcquireRequest } from "../engine/acquire/request.ts";
import { type Lease, partsOfLease } from "../engine/lease/lease.ts";
import type { LeasePart } from "../engine/lease/lease-part.ts";
import { acquireWaiting } from "../engine/outage/waiting.ts";
import type { Refusal } from "../engine/refusal/refusal.ts";
import type { DraftData, KeyMark, LeaseWrite } from "../ports/bucket-store.ts";
import type { LeaseReply } from "../ports/lease-store.ts";
import { REPEATS_MAX, type StoredLeasesDeps } from "./change-plan.ts";
import { Untold } from "./charging.ts";
import { type LeaseView, shownParts } from "./lease-view.ts";
import { type LeaseAnswer, type LeaseTerms, recordOf, type WrittenTake, writtenOf } from "./record-of.ts";

export interface Taking {
  readonly asked: AcquireRequest;
  readonly holdMs: number;
  readonly onExpiry: OnExpiry;
  readonly idempotencyKey: string | undefined;
  readonly keyOwner: string | undefined;
}

/** Takes tokens and writes the lease: in the transaction of the take, or after it if the store has none. */
export async function takeLease(
  deps: StoredLeasesDeps,
  taking: Taking,
  mark: KeyMark | undefined,
): Promise<KeyedResult<LeaseAnswer | Refusal>> {
  const draft = new Draft(taking, mark, deps);
  const outcome = await attempt(deps, taking.asked, draft);
  if (!outcome.ok) return { answer: outcome, isKept: false };
  const { lease } = outcome;
  if (lease.degraded !== false) return letThrough(deps, taking, lease);
  const made = draft.made ?? draft.make(partsOfLease(lease));
  if (!deps.leases.isWrittenByTake && draft.isWorthWriting) {
    const failed = await createLease(deps, made.write);
    if (failed !== undefined) {
      // A record that may be stored gives the tokens back at its end: do not give them back twice.
      if (failed.kind !== "unavailable" || failed.applied === "no") await lease.rollback();
      else draft.undecided?.tell();
      if (failed.kind !== "unavailable") throw keyInProgress(mark?.key ?? "");
      return answerUnavailable(deps, taking, failed.cause);
    }
  }
  draft.undecided?.tell();
  if (taking.holdMs > 0) deps.onChange(made.answer.lease);
  return { answer: made.answer, isKept: mark !== undefined };
}

/** The answer to a request that the store did not decide, or whose lease it did not write. */
export function answerUnavailable(
  deps: StoredLeasesDeps,
  taking: Taking,
  cause: unknown,
): KeyedResult<LeaseAnswer | Refusal> {
  const { acquirer } = deps;
  const outcome = acquirer.unavailable(taking.asked, [], cause);
  if (outcome.ok) return letThrough(deps, taking, outcome.lease);
  acquirer.refused(taking.asked, outcome);
  return { answer: outcome, isKept: false };
}

/** The answer to a request that was let through during an outage: there is no lease. */
function letThrough(
  { namespace }: StoredLeasesDeps,
  { asked, onExpiry }: Taking,
  lease: Lease,
): KeyedResult<LeaseAnswer> {
  const view: LeaseView = {
    leaseId: null,
    namespace,
    entityId: asked.entityId,
    resource: asked.resource,
    status: "settled",
    ...consumedOf(lease),
    degraded: lease.degraded,
    overdrawn: [],
    shadowed: [],
    bypassed: false,
    expiresAtMs: null,
    onExpiry,
    limits: [],
  };
  return { answer: { lease: view, standings: [] }, isKept: false };
}

/** What each part of a lease was charged. */
export function consumedOf(lease: Lease): Pick<LeaseView, "consumed" | "also" | "parts"> {
  return shownParts(lease.parts.map((place) => ({ ...place, consumed: lease.part(place).consumed })));
}

/** One attempt, or several if the request waits. An attempt that was begun is finished, whatever the signal says. */
function attempt({ acquirer, engine }: StoredLeasesDeps, asked: AcquireRequest, draft: Draft): Promise<Outcome> {
  const { signal, ...unaborted } = asked;
  const drafted = draft.isWorthWriting ? draft : undefined;
  signal?.throwIfAborted();
  if (asked.wait === undefined) return acquirer.attempt(unaborted, undefined, drafted);
  return acquireWaiting(
    {
      room: acquirer.room,
      publisher: acquirer.publisher,
      attempt: (_, waiting) => acquirer.attempt(unaborted, waiting, drafted),
      peek: (_, waiting) => acquirer.peek(unaborted, waiting),
      refused: (_, refusal, waitedMs) => acquirer.refused(unaborted, refusal, waitedMs),
    },
    engine.clock,
    asked,
  );
}

/** Undefined once it is stored. The store answers a repeat of a write that was applied unseen as stored. */
async function createLease(
  { leases, engine }: StoredLeasesDeps,
  write: LeaseWrite,
): Promise<Exclude<LeaseReply, { kind: "stored" }> | undefined> {
  for (let repeats = 0; ; repeats++) {
    const reply = await leases.create(write, engine.clock.now());
    // No other lease has this id: an earlier attempt stored the record, its answer was lost, and the lease has changed since.
    if (reply.kind === "stored" || reply.kind === "conflict") return undefined;
    const isUnknown = reply.kind === "unavailable" && reply.applied === "unknown";
    if (isUnknown && repeats < REPEATS_MAX) continue;
    // After a lost answer, the earlier attempt may have been applied.
    return repeats > 0 && reply.kind === "unavailable" ? { ...reply, applied: "unknown" } : reply;
  }
}

/** The record of a take; made once, inside its transaction or after it. */
class Draft implements PartsDraft {
  readonly key: KeyMark | undefined;
  readonly undecided: Untold | undefined;
  made: WrittenTake | undefined;
  readonly #taking: Taking;
  readonly #deps: StoredLeasesDeps;
  #drawn: Pick<LeaseRecord, "leaseId" | "writer"> | undefined;

  constructor(taking: Taking, key: KeyMark | undefined, deps: StoredLeasesDeps) {
    this.key = key;
    this.undecided = deps.leases.isWrittenByTake ? undefined : new Untold();
    this.#taking = taking;
    this.#deps = deps;
  }

  /** A take that is charged at once and has no key needs no record. */
  get isWorthWriting(): boolean {
    return this.#taking.holdMs > 0 || this.key !== undefined;
  }

  writeOf(parts: readonly LeasePart[]): LeaseWrite {
    this.made = this.make(parts);
    return this.made.write;
  }

  dataOf(parts: readonly LeasePart[]): DraftData {
    const { asked, holdMs } = this.#taking;
    const record = recordOf(parts, this.#termsAt(parts));
    return {
      leaseId: holdMs > 0 ? record.leaseId : undefined,
      ...{ entityId: asked.entityId, resource: record.resources[0]?.resource ?? asked.resource },
      ...{ holdMs: shortestHold(parts, holdMs), text: draftText({ record, ...this.#rest }) },
    };
  }

  make(parts: readonly LeasePart[]): WrittenTake {
    return writtenOf(recordOf(parts, this.#termsAt(parts)), this.#rest, parts, this.#deps.engine.calendar);
  }

  /** Drawn once for the draft. A take that is charged at once is not stored and needs no ids. */
  get #ids(): Pick<LeaseRecord, "leaseId" | "writer"> {
    const { random } = this.#deps.engine;
    if (this.#taking.holdMs === 0) return { leaseId: "", writer: "" };
    // Twice 64 bits.
    this.#drawn ??= { leaseId: `l_${random.id()}${random.id()}`, writer: random.id() };
    return this.#drawn;
  }

  get #rest(): Omit<StoredDraft, "record"> {
    return { holdMs: this.#taking.holdMs, namespace: this.#deps.namespace, key: this.key };
  }

  #termsAt(parts: readonly LeasePart[]): LeaseTerms {
    const { asked, holdMs, onExpiry, idempotencyKey } = this.#taking;
    const nowMs = parts[0]?.takenAtMs ?? this.#deps.engine.clock.now();
    return {
      ...this.#ids,
      ...{ entityId: asked.entityId, openedAtMs: nowMs, onExpiry, requestId: asked.requestId, idempotencyKey },
      ...(asked.leavePercent ? { leavePercent: asked.leavePercent } : {}),
      // At least 1: a take that is charged at once has no hold.
      expiresAtMs: nowMs + Math.max(1, shortestHold(parts, holdMs)),
    };
  }
}

/** The hold to ask for: at most that of any slots. The tickets say how long the slots are really held. */
function shortestHold(parts: readonly LeasePart[], holdMs: number): number {
  let shortestMs = holdMs;
  for (const { demands } of parts) {
    for (const { set, take, bypass } of demands) {
      if (bypass) continue;
      for (const limit of hardSlotLimits(set.limits, take)) shortestMs = Math.min(shortestMs, holdMsOf(limit));
    }
  }
  return shortestMs;
}
