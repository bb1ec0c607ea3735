import { keyInProgress } from "../domain/lease/idempotency.ts";
import type { LeaseRecord } from "../domain/lease/lease-record.ts";
import type { Answer, Claim, KeyFinish, KeyMark, LeaseDraft, LeaseWrite } from "../ports/bucket-store.ts";
import type { BeginReply, ChangeReply, KeyBegin, LeaseChange, LeaseReply } from "../ports/lease-store.ts";
import type { LimitsFrom } from "./bucket-rules.ts";
import {
  beginKey,
  createLease,
  isKeyOurs,
  type LeaseDecision,
  type LeaseVersion,
  moveLease,
  onChange,
  releaseKey,
  renewKey,
  type StoredKey,
  writesOf,
} from "./lease-rules.ts";
import { areTaken, draftRows, moveAll, type Rows, takeAll } from "./row-buckets.ts";

/**
 * The leases and keys of one namespace, in a store that keeps them beside the rows of its buckets. No other call comes between what a call
 * reads and what it writes, and a call throws only before it has written.
 */
export abstract class LeaseTable {
  protected abstract leaseAt(leaseId: string): LeaseVersion | undefined;
  protected abstract keyAt(key: string): StoredKey | undefined;
  protected abstract putLease(record: LeaseRecord): void;
  protected abstract putKey(key: StoredKey): void;
  protected abstract deleteKey(key: string): void;
  /** Called with each new lease or key: deletes more of what is forgotten than was added. */
  protected abstract forget(nowMs: number): void;

  /** Takes, and writes down what was taken. */
  take<Place extends { readonly id: string }>(
    rows: Rows<Place>,
    claims: readonly Claim[],
    limitsFrom: LimitsFrom,
    lease: LeaseDraft,
  ): readonly Answer[] {
    const { key } = lease;
    // Nothing may be taken for a request that another one answers by now.
    if (key !== undefined && !isKeyOurs(this.keyAt(key.key), key)) throw keyInProgress(key.key);
    const draft = draftRows(rows);
    const answers = takeAll(draft, claims, limitsFrom);
    if (areTaken(answers)) this.create(lease.writeOf(answers), rows.context.nowMs);
    draft.commit();
    return answers;
  }

  /** Moves the tokens of a change, and the record and the answer under its key with them. */
  changeIn<Place extends { readonly id: string }>(rows: Rows<Place>, change: LeaseChange): ChangeReply {
    const key = change.key && this.keyAt(change.key.key);
    const reply = onChange(this.leaseAt(change.leaseId), change, key);
    if (reply !== "write") return reply;
    const draft = draftRows(rows);
    const moved = moveAll(draft, change.moves);
    if (moved.kind === "short") draft.commit();
    if (moved.kind !== "moved") return moved;
    const { record, finish } = change.writeOf(moved.charged);
    this.#write({ reply: undefined, ...writesOf(record, finish, finish && this.keyAt(finish.key)) });
    draft.commit();
    return { kind: "stored", credited: moved.credited };
  }

  create(write: LeaseWrite, nowMs: number): LeaseReply {
    const { record, finish } = write;
    const reply = this.#write(
      createLease(write, record && this.leaseAt(record.leaseId), finish && this.keyAt(finish.key)),
    );
    this.forget(nowMs);
    return reply;
  }

  move(next: LeaseRecord, finish: KeyFinish | undefined): LeaseReply {
    return this.#write(moveLease(next, finish, this.leaseAt(next.leaseId), finish && this.keyAt(finish.key)));
  }

  beginKey(begin: KeyBegin): BeginReply {
    const reply = this.#write(beginKey(begin, this.keyAt(begin.key)));
    this.forget(begin.nowMs);
    return reply;
  }

  renewKey(mark: KeyMark, { untilMs }: { readonly untilMs: number }): boolean {
    return this.#write(renewKey(mark, untilMs, this.keyAt(mark.key)));
  }

  releaseKey(mark: KeyMark): void {
    this.#write(releaseKey(mark, this.keyAt(mark.key)));
  }

  #write<Reply>({ reply, lease, key, oldKey }: LeaseDecision<Reply>): Reply {
    if (lease !== undefined) this.putLease(lease);
    if (key !== undefined) this.putKey(key);
    if (oldKey !== undefined) this.deleteKey(oldKey);
    return reply;
  }
}
