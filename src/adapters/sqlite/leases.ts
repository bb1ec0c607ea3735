import { dueAtMs, type LeaseRecord } from "../../domain/lease/lease-record.ts";
import { LimiterError, RateLimiterUnavailable, ValidationError } from "../../domain/names/errors.ts";
import { shown } from "../../domain/names/names.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { CallContext } from "../../ports/bucket-store.ts";
import type { ChangeReply, LeaseChange } from "../../ports/lease-change.ts";
import type { BeginReply, DueLease, KeyBegin, LeaseFilter, LeaseReply, LeaseStore } from "../../ports/lease-store.ts";
import type { KeyFinish, KeyMark, LeaseWrite } from "../../ports/lease-write.ts";
import { keyAfter, keyCursor, pageOf } from "../../stored/cursor.ts";
import type { RowsContext } from "./bucket-changes.ts";
import type { Connection } from "./connection.ts";
import { thrownFor } from "./faults.ts";
import type { GroupCommit } from "./group-commit.ts";
import type { LeaseRows } from "./lease-rows.ts";
import { CHANGE_WAIT_MS } from "./lock-backoff.ts";

/** Leases of one namespace. Their writes share transactions with takes; a record is always in that of its own take or change. */
export class SqliteLeases implements LeaseStore {
  readonly isWrittenByTake = true;
  readonly #connection: Connection;
  readonly #commit: GroupCommit;
  readonly #rows: LeaseRows;
  readonly #bucketsAt: (context: CallContext) => RowsContext;

  constructor(
    parts: { readonly connection: Connection; readonly commit: GroupCommit },
    rows: LeaseRows,
    bucketsAt: (context: CallContext) => RowsContext,
  ) {
    this.#connection = parts.connection;
    this.#commit = parts.commit;
    this.#rows = rows;
    this.#bucketsAt = bucketsAt;
  }

  create(write: LeaseWrite, nowMs: number): Promise<LeaseReply> {
    return this.#write(nowMs, () => this.#rows.create(write, nowMs));
  }

  get(leaseId: string): LeaseRecord | undefined {
    return this.#rows.get(leaseId);
  }

  move(next: LeaseRecord, finish: KeyFinish | undefined, nowMs: number): Promise<LeaseReply> {
    return this.#write(nowMs, () => this.#rows.move(next, finish));
  }

  change(change: LeaseChange, context: CallContext): Promise<ChangeReply> {
    return this.#commit.submit<ChangeReply>({
      context,
      work: () => this.#rows.change(change, this.#bucketsAt(context)),
      unavailable: (applied, cause) => ({ kind: "unavailable", applied, cause }),
    });
  }

  listOpen({ entityId, resource }: LeaseFilter, { limit, cursor }: PageRequest): Page<LeaseRecord> {
    const [due, leaseId] = keyAfter(cursor, 2) ?? ["0", ""];
    const afterMs = Number(due);
    if (!Number.isSafeInteger(afterMs)) {
      throw new ValidationError(
        "cursor_invalid",
        `Not a cursor of this list: ${shown(cursor)}; pass the cursor of the previous page.`,
      );
    }
    const filter = { entityId: entityId ?? null, resource: resource ?? null };
    const found = this.#rows.open({ dueAtMs: afterMs, leaseId: leaseId as string }, filter, limit + 1);
    const page = pageOf(found, limit, (one) => keyCursor(String(dueAtMs(one)), one.leaseId));
    // What is closed and owes something is due as well.
    return { ...page, items: page.items.filter(({ status }) => status === "open") };
  }

  findDue(nowMs: number, limitMax: number): readonly DueLease[] {
    return this.#rows.due(nowMs, limitMax);
  }

  beginKey(begin: KeyBegin): Promise<BeginReply> {
    return this.#change(begin.nowMs, () => this.#rows.begin(begin));
  }

  renewKey(mark: KeyMark, { nowMs, untilMs }: { readonly nowMs: number; readonly untilMs: number }): Promise<boolean> {
    return this.#change(nowMs, () => this.#rows.renew(mark, untilMs));
  }

  releaseKey(mark: KeyMark, nowMs: number): Promise<void> {
    return this.#change(nowMs, () => this.#rows.release(mark));
  }

  #write(nowMs: number, work: () => LeaseReply): Promise<LeaseReply> {
    return this.#commit.submit<LeaseReply>({
      context: { nowMs, timeoutMs: CHANGE_WAIT_MS },
      work,
      unavailable: (applied, cause) => ({ kind: "unavailable", applied, cause }),
    });
  }

  /** A write that has no answer for an outage: it throws. */
  async #change<Value>(nowMs: number, work: () => Value): Promise<Value> {
    const done = await this.#commit.submit<{ readonly value: Value } | { readonly cause: unknown }>({
      context: { nowMs, timeoutMs: CHANGE_WAIT_MS },
      work: () => ({ value: work() }),
      unavailable: (_applied, cause) => ({ cause }),
    });
    if ("value" in done) return done.value;
    const thrown = thrownFor(done.cause, this.#connection.file);
    throw thrown instanceof LimiterError
      ? thrown
      : new RateLimiterUnavailable(`The file ${this.#connection.file} could not be written in time.`, {
          cause: thrown,
        });
  }
}
