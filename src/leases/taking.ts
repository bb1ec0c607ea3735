import { hardSlotLimits } from "../domain/bucket/hold-time.ts";
import { keyInProgress } from "../domain/lease/idempotency.ts";
import type { LeaseRecord, OnExpiry } from "../domain/lease/lease-record.ts";
import { draftText, type StoredDraft } from "../domain/lease/stored-draft.ts";
import { holdMsOf } from "../domain/limits/kinds/concurrent.ts";
import type { Outcome } from "../engine/acquire/outcome.ts";
import type { PartsDraft } from "../engine/acquire/plan.ts";
import type { AcquireRequest } from "../engine/acquire/request.ts";
import { type Lease, partsOfLease } from "../engine/lease/lease.ts";
import type { LeasePart } from "../engine/lease/lease-part.ts";
import { acquireWaiting } from "../engine/outage/waiting.ts";
import type { Refusal } from "../engine/refusal/refusal.ts";
import type { DraftData } from "../ports/bucket-store.ts";
import type { LeaseReply } from "../ports/lease-store.ts";
import type { KeyMark, LeaseWrite } from "../ports/lease-write.ts";
import { REPEATS_MAX } from "./change-plan.ts";
import { type LeaseAnswer, type WrittenTake, writtenOf } from "./draft-form.ts";
import type { LeaseView } from "./lease-view.ts";
import type { KeyedResult } from "./once.ts";
import { draftedRecord, type LeaseTerms, recordOf } from "./record-of.ts";
import type { StoredLeasesDeps } from "./stored-leases-deps.ts";
import { Untold } from "./untold.ts";

export interface Taking {
  readonly asked: AcquireRequest;
  readonly holdMs: number;
  readonly onExpiry: OnExpiry;
  readonly idempotencyKey: string | undefined;
  readonly keyOwner: string | undefined;
}

/** Takes tokens and writes down the lease: after the take, or in its transaction where the store has one. */
export class LeaseTaking {
  readonly #deps: StoredLeasesDeps;

  constructor(deps: StoredLeasesDeps) {
    this.#deps = deps;
  }

  async take(taking: Taking, mark: KeyMark | undefined): Promise<KeyedResult<LeaseAnswer | Refusal>> {
    const draft = new Draft(taking, mark, this.#deps);
    const outcome = await this.#attempt(taking.asked, draft);
    if (!outcome.ok) return { answer: outcome, isKept: false };
    const { lease } = outcome;
    if (lease.degraded !== false) return this.#letThrough(taking, lease);
    const made = draft.made ?? draft.make(partsOfLease(lease));
    if (!this.#deps.leases.isWrittenByTake && draft.isWorthWriting) {
      const failed = await this.#stored(made.write);
      if (failed !== undefined) return this.#notStored(taking, lease, failed, draft);
    }
    draft.undecided?.tell();
    if (taking.holdMs > 0) this.#deps.onChange(made.answer.lease);
    return { answer: made.answer, isKept: mark !== undefined };
  }

  /** The answer to work that the store did not decide, or whose lease it did not write. */
  unavailable(taking: Taking, cause: unknown): KeyedResult<LeaseAnswer | Refusal> {
    const { acquirer } = this.#deps;
    const outcome = acquirer.unavailable(taking.asked, [], cause);
    if (outcome.ok) return this.#letThrough(taking, outcome.lease);
    acquirer.refused(taking.asked, outcome);
    return { answer: outcome, isKept: false };
  }

  /** Of work that was let through during an outage: there is no lease. */
  #letThrough({ asked, onExpiry }: Taking, lease: Lease): KeyedResult<LeaseAnswer> {
    const also = lease.resources.slice(1).map((name) => [name, lease.resource(name).consumed] as const);
    const view: LeaseView = {
      ...{ leaseId: null, namespace: this.#deps.namespace, entityId: asked.entityId, resource: asked.resource },
      ...{ status: "settled", consumed: lease.consumed, also: Object.fromEntries(also), degraded: lease.degraded },
      ...{ overdrawn: [], shadowed: [], bypassed: false, expiresAtMs: null, onExpiry, limits: [] },
    };
    return { answer: { lease: view, standings: [] }, isKept: false };
  }

  /** An attempt, or several in turn with others that wait. One that was begun is brought to its end, whatever the signal says. */
  #attempt(asked: AcquireRequest, draft: Draft): Promise<Outcome> {
    const { acquirer, engine } = this.#deps;
    const { signal, ...unaborted } = asked;
    const drafted = draft.isWorthWriting ? draft : undefined;
    signal?.throwIfAborted();
    if (asked.wait === undefined) return acquirer.attempt(unaborted, undefined, drafted);
    return acquireWaiting(
      {
        room: acquirer.room,
        watch: acquirer.watch,
        attempt: (_, waiting) => acquirer.attempt(unaborted, waiting, drafted),
        peek: (_, waiting) => acquirer.peek(unaborted, waiting),
        refused: (_, refusal) => acquirer.refused(unaborted, refusal),
      },
      engine.clock,
      asked,
    );
  }

  /** Undefined once it is stored. A repeat of a write that was applied unseen is answered as stored. */
  async #stored(write: LeaseWrite): Promise<Exclude<LeaseReply, { kind: "stored" }> | undefined> {
    for (let repeats = 0; ; repeats++) {
      const reply = await this.#deps.leases.create(write, this.#deps.engine.clock.now());
      // No other lease has its id: what is there is ours, and has been changed since an earlier attempt whose answer was lost.
      if (reply.kind === "stored" || reply.kind === "conflict") return undefined;
      const isUnknown = reply.kind === "unavailable" && reply.applied === "unknown";
      if (isUnknown && repeats < REPEATS_MAX) continue;
      // After a lost answer nothing proves that an earlier attempt was not applied.
      return repeats > 0 && reply.kind === "unavailable" ? { ...reply, applied: "unknown" } : reply;
    }
  }

  async #notStored(
    taking: Taking,
    lease: Lease,
    reply: Exclude<LeaseReply, { kind: "stored" }>,
    { key, undecided }: Draft,
  ): Promise<KeyedResult<LeaseAnswer | Refusal>> {
    // What may be written in a record must not be given back: its end would give it back once more.
    if (reply.kind !== "unavailable" || reply.applied === "no") await lease.rollback();
    else undecided?.tell();
    if (reply.kind !== "unavailable") throw keyInProgress(key?.key ?? "");
    return this.unavailable(taking, reply.cause);
  }
}

/** What a take is written down as; made once, inside its transaction or after it. */
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

  /** Nothing is written of what is charged at once and has no key. */
  get isWorthWriting(): boolean {
    return this.#taking.holdMs > 0 || this.key !== undefined;
  }

  writeOf(parts: readonly LeasePart[]): LeaseWrite {
    this.made = this.make(parts);
    return this.made.write;
  }

  dataOf(parts: readonly LeasePart[]): DraftData {
    const { asked, holdMs } = this.#taking;
    const record = draftedRecord(parts, this.#termsAt(parts));
    return {
      leaseId: holdMs > 0 ? record.leaseId : undefined,
      ...{ entityId: asked.entityId, resource: record.resources[0]?.resource ?? asked.resource },
      ...{ holdMs: shortestHold(parts, holdMs), text: draftText({ record, ...this.#rest }) },
    };
  }

  make(parts: readonly LeasePart[]): WrittenTake {
    return writtenOf(recordOf(parts, this.#termsAt(parts)), this.#rest, parts, this.#deps.engine.calendar);
  }

  /** The same for all that is made of this draft. What is charged at once is not stored, and needs none. */
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
      // Charged at once, it has no time to be up.
      expiresAtMs: nowMs + Math.max(1, shortestHold(parts, holdMs)),
    };
  }
}

/** How long a lease is asked for that may be held for so long: not longer than any of its slots. How long it is held, their tickets say. */
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
