import { keyInProgress } from "../../domain/lease/idempotency.ts";
import type { LeaseRecord } from "../../domain/lease/lease-record.ts";
import { leaseFrom, leaseText } from "../../domain/lease/stored-lease.ts";
import type { Answer, LeaseDraft, RenewReply, TakenAnswer, WriteReply } from "../../ports/bucket-store.ts";
import type { AppliedWrite, ChangeReply, Charged, LeaseChange, LeaseMoves } from "../../ports/lease-change.ts";
import type { BeginReply, DueLease, KeyBegin, LeaseReply } from "../../ports/lease-store.ts";
import type { KeyFinish, KeyMark, LeaseWrite } from "../../ports/lease-write.ts";
import {
  begunKey,
  columnsOf,
  finishedKey,
  isOurs,
  isTaken,
  type LeaseVersion,
  onChange,
  onCreate,
  onMove,
  STORED,
  type StoredKey,
} from "../../stored/lease-rules.ts";
import { credit, debit, type RowsContext, renew, takeAll } from "./bucket-changes.ts";
import type { Connection, Statement } from "./connection.ts";

/** Every so many records what is forgotten is deleted: more rows than were added meanwhile. */
const FORGET_EVERY = 16;
const FORGOTTEN_AT_ONCE = 3 * FORGET_EVERY;

/** The rows of leases and keys of one namespace. What writes runs inside a transaction, and throws only before it has written. */
export class LeaseRows {
  readonly #connection: Connection;
  readonly #namespaceId: string;
  #added = 0;
  #made: Statements | undefined;

  constructor(connection: Connection, namespaceId: string) {
    this.#connection = connection;
    this.#namespaceId = namespaceId;
  }

  /** Takes, and writes down in the same transaction what was taken. */
  drafted(draft: LeaseDraft, nowMs: number, take: () => readonly Answer[]): readonly Answer[] {
    // Nothing may be taken for a request that another answers by now.
    if (draft.key !== undefined && !this.#isOurs(draft.key)) throw keyInProgress(draft.key.key);
    const answers = take();
    if (answers.some(({ kind }) => kind !== "taken")) return answers;
    this.create(draft.writeOf(answers as readonly TakenAnswer[]), nowMs);
    return answers;
  }

  create({ record, finish }: LeaseWrite, nowMs: number): LeaseReply {
    const known = record === undefined ? undefined : this.#versionOf(record.leaseId);
    const reply = onCreate(known, record, () => this.#isOurs(finish));
    if (reply !== "write") return reply;
    if (record !== undefined) this.#sql.insert.run(this.#namespaceId, record.leaseId, ...valuesOf(record));
    this.#finish(finish);
    this.#forget(nowMs);
    return STORED;
  }

  move(next: LeaseRecord, finish: KeyFinish | undefined): LeaseReply {
    const reply = onMove(this.#versionOf(next.leaseId), next, () => this.#isOurs(finish));
    if (reply !== "write") return reply;
    this.#sql.update.run(...valuesOf(next), this.#namespaceId, next.leaseId);
    this.#finish(finish);
    return STORED;
  }

  /** Moves the tokens of a change, and the record and the answer under its key with them. */
  change(change: LeaseChange, buckets: RowsContext): ChangeReply {
    const { leaseId, key } = change;
    const reply = onChange(this.#versionOf(leaseId), change, () => this.#isOurs(key));
    if (reply !== "write") return reply;
    try {
      return buckets.rows.allOrNone(() => {
        const moved = movedBy(change.moves, buckets);
        if (moved.kind === "short") return moved;
        const { record, finish } = change.writeOf(moved.charged);
        this.#sql.update.run(...valuesOf(record), this.#namespaceId, leaseId);
        this.#finish(finish);
        return { kind: "stored", credited: moved.credited };
      });
    } catch (error) {
      if (error instanceof NotMoved) return error.reply;
      throw error;
    }
  }

  begin(begin: KeyBegin): BeginReply {
    const known = this.#key(begin.key);
    if (known !== undefined && isTaken(known, begin.nowMs)) {
      const { forgottenAtMs: _, ...record } = known;
      return { kind: "known", record };
    }
    const { key, mark, fingerprint, untilMs, forgottenAtMs } = begunKey(begin);
    this.#sql.putKey.run(this.#namespaceId, key, mark, fingerprint, untilMs, forgottenAtMs);
    this.#forget(begin.nowMs);
    return { kind: "begun" };
  }

  renew({ key, mark }: KeyMark, untilMs: number): boolean {
    return Number(this.#sql.renewKey.run(untilMs, this.#namespaceId, key, mark).changes) > 0;
  }

  release({ key, mark }: KeyMark): void {
    this.#sql.releaseKey.run(this.#namespaceId, key, mark);
  }

  get(leaseId: string): LeaseRecord | undefined {
    const row = this.#connection.read(() => this.#sql.get.get(this.#namespaceId, leaseId));
    return row === undefined ? undefined : leaseFrom(leaseId, row[0] as string);
  }

  due(nowMs: number, limitMax: number): readonly DueLease[] {
    const rows = this.#connection.read(() => this.#sql.due.all(this.#namespaceId, nowMs, limitMax));
    return rows.map(([id, atMs]) => ({ leaseId: id as string, dueAtMs: atMs as number }));
  }

  /** Open leases after a place, soonest due first; null: of every entity, for every resource. */
  open(
    after: { readonly dueAtMs: number; readonly leaseId: string },
    { entityId, resource }: { readonly entityId: string | null; readonly resource: string | null },
    limitMax: number,
  ): readonly LeaseRecord[] {
    const rows = this.#connection.read(() =>
      this.#sql.open.all(
        ...[this.#namespaceId, after.dueAtMs, after.leaseId],
        ...[entityId, entityId, resource, resource, limitMax],
      ),
    );
    return rows.map(([id, text]) => leaseFrom(id as string, text as string));
  }

  get #sql(): Statements {
    this.#made ??= statementsOn(this.#connection);
    return this.#made;
  }

  #versionOf(leaseId: string): LeaseVersion | undefined {
    const row = this.#sql.versionOf.get(this.#namespaceId, leaseId);
    return row === undefined ? undefined : { version: row[0] as number, writer: row[1] as string };
  }

  #key(key: string): StoredKey | undefined {
    const row = this.#sql.getKey.get(this.#namespaceId, key);
    if (row === undefined) return undefined;
    const [mark, fingerprint, answer, untilMs, forgottenAtMs] = row as [string, string, string | null, number, number];
    return { key, mark, fingerprint, answer: answer ?? undefined, untilMs, forgottenAtMs };
  }

  #isOurs(mark: (KeyMark & { readonly answer?: string }) | undefined): boolean {
    return mark === undefined || isOurs(this.#key(mark.key), mark);
  }

  #finish(finish: KeyFinish | undefined): void {
    if (finish === undefined) return;
    const { answer, forgottenAtMs } = finishedKey(finish);
    this.#sql.finishKey.run(answer, forgottenAtMs, this.#namespaceId, finish.key);
  }

  #forget(nowMs: number): void {
    this.#added++;
    if (this.#added < FORGET_EVERY) return;
    this.#added = 0;
    this.#sql.forget.run(this.#namespaceId, nowMs, FORGOTTEN_AT_ONCE);
    this.#sql.forgetKeys.run(this.#namespaceId, nowMs, FORGOTTEN_AT_ONCE);
  }
}

type Moved =
  | { readonly kind: "moved"; readonly charged: Charged; readonly credited: readonly WriteReply[] }
  | Extract<ChangeReply, { readonly kind: "short" }>;

/** Ends the work on a change, so that nothing of it stays. */
class NotMoved extends Error {
  readonly reply: ChangeReply;

  constructor(reply: ChangeReply) {
    super(`Nothing is moved: ${reply.kind}.`);
    this.reply = reply;
  }
}

function movedBy(moves: LeaseMoves, buckets: RowsContext): Moved {
  if (moves.kind === "take") {
    const answers = takeAll(buckets, moves.claims, "lease");
    if (answers.some(({ kind }) => kind !== "taken")) return { kind: "short", answers };
    return { kind: "moved", charged: { kind: "take", taken: answers as readonly TakenAnswer[] }, credited: [] };
  }
  if (moves.kind === "renew") {
    const renewed = moves.renewals.map((renewal): RenewReply => {
      const reply = renew(buckets, renewal.held, renewal.amounts);
      if (reply.kind === "lost" && !renewal.isOptional) throw new NotMoved({ kind: "lost", renewal });
      return reply;
    });
    return { kind: "moved", charged: { kind: "renew", renewed }, credited: [] };
  }
  const debited = moves.debits.map((movement): AppliedWrite => {
    const reply = debit(buckets, movement.held, movement.amounts);
    if (reply.kind === "tooDeep") throw new NotMoved({ kind: "tooDeep", debit: movement });
    return reply;
  });
  const credited = moves.credits.map((one) => credit(buckets, one.held, one.amounts, one));
  return { kind: "moved", charged: { kind: "difference", debited }, credited };
}

function valuesOf(record: LeaseRecord) {
  const { entityId, resource, version, writer, dueAtMs, forgottenAtMs } = columnsOf(record);
  return [entityId, resource, version, writer, dueAtMs ?? null, forgottenAtMs ?? null, leaseText(record)] as const;
}

type Statements = Readonly<Record<keyof typeof SQL, Statement>>;

const KEY = "namespace = ? AND key = ?";

const SQL = {
  get: "SELECT record FROM lease WHERE namespace = ? AND id = ?",
  versionOf: "SELECT version, writer FROM lease WHERE namespace = ? AND id = ?",
  insert: `INSERT INTO lease (namespace, id, entity, resource, version, writer, due_at_ms, forget_at_ms, record)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  update: `UPDATE lease SET entity = ?, resource = ?, version = ?, writer = ?, due_at_ms = ?, forget_at_ms = ?, record = ?
    WHERE namespace = ? AND id = ?`,
  due: "SELECT id, due_at_ms FROM lease WHERE namespace = ? AND due_at_ms <= ? ORDER BY due_at_ms, id LIMIT ?",
  open: `SELECT id, record FROM lease
    WHERE namespace = ? AND due_at_ms IS NOT NULL AND (due_at_ms, id) > (?, ?)
      AND (? IS NULL OR entity = ?) AND (? IS NULL OR resource = ?) ORDER BY due_at_ms, id LIMIT ?`,
  forget: `DELETE FROM lease WHERE (namespace, id) IN
    (SELECT namespace, id FROM lease WHERE namespace = ? AND forget_at_ms <= ? LIMIT ?)`,
  getKey: `SELECT mark, fingerprint, answer, until_ms, forget_at_ms FROM lease_key WHERE ${KEY}`,
  putKey: `INSERT OR REPLACE INTO lease_key (namespace, key, mark, fingerprint, answer, until_ms, forget_at_ms)
    VALUES (?, ?, ?, ?, NULL, ?, ?)`,
  finishKey: `UPDATE lease_key SET answer = ?, forget_at_ms = ? WHERE ${KEY}`,
  renewKey: `UPDATE lease_key SET until_ms = ? WHERE ${KEY} AND mark = ? AND answer IS NULL`,
  releaseKey: `DELETE FROM lease_key WHERE ${KEY} AND mark = ? AND answer IS NULL`,
  forgetKeys: `DELETE FROM lease_key WHERE (namespace, key) IN
    (SELECT namespace, key FROM lease_key WHERE namespace = ? AND forget_at_ms <= ? LIMIT ?)`,
};

function statementsOn(connection: Connection): Statements {
  return Object.fromEntries(Object.entries(SQL).map(([name, sql]) => [name, connection.prepare(sql)])) as Statements;
}
