import type { LeaseRecord } from "../../domain/lease/lease-record.ts";
import { leaseFrom, leaseText } from "../../domain/lease/stored-lease.ts";
import { LimiterError, RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { CallContext } from "../../ports/bucket-store.ts";
import type { ChangeReply, DueLease, LeaseFilter, LeaseReply, LeaseStore } from "../../ports/lease-store.ts";
import { numberAfter } from "../../stored/cursor.ts";
import { columnsOf, type LeaseVersion, openPage, type StoredKey } from "../../stored/lease-rules.ts";
import { LeaseTable } from "../../stored/lease-table.ts";
import type { Rows } from "../../stored/row-buckets.ts";
import type { Slot } from "./bucket-rows.ts";
import { CHANGE_WAIT_MS, type Connection, type Row } from "./connection.ts";
import { thrownFor } from "./faults.ts";
import type { GroupCommit } from "./group-commit.ts";

/** Forgotten rows are deleted once for this many new leases and keys: more rows than were added meanwhile. */
const FORGET_EVERY = 16;
const FORGOTTEN_AT_ONCE = 3 * FORGET_EVERY;

/** The rows of leases and keys of one namespace; writes run inside a transaction. */
export class LeaseRows extends LeaseTable {
  readonly #connection: Connection;
  readonly #namespaceId: string;
  #added = 0;

  constructor(connection: Connection, namespaceId: string) {
    super();
    this.#connection = connection;
    this.#namespaceId = namespaceId;
  }

  get(leaseId: string): LeaseRecord | undefined {
    const [row] = this.#read("SELECT record FROM lease WHERE namespace = ? AND id = ?", [leaseId]);
    return row && leaseFrom(leaseId, row[0] as string);
  }

  due(nowMs: number, limitMax: number): readonly DueLease[] {
    const rows = this.#read(
      "SELECT id, due_at_ms FROM lease WHERE namespace = ? AND due_at_ms <= ? ORDER BY due_at_ms, id LIMIT ?",
      [nowMs, limitMax],
    );
    return rows.map(([id, atMs]) => ({ leaseId: id as string, dueAtMs: atMs as number }));
  }

  /** Leases that are due some day, after a place, soonest first. */
  open(
    [dueAtMs, leaseId]: readonly [number, string],
    { entityId = null, resource = null }: { readonly [Name in keyof LeaseFilter]?: string | null },
    limitMax: number,
  ): readonly LeaseRecord[] {
    const rows = this.#read(
      `SELECT id, record FROM lease
       WHERE namespace = ? AND due_at_ms IS NOT NULL AND (due_at_ms, id) > (?, ?)
         AND (? IS NULL OR entity = ?) AND (? IS NULL OR resource = ?) ORDER BY due_at_ms, id LIMIT ?`,
      [dueAtMs, leaseId, entityId, entityId, resource, resource, limitMax],
    );
    return rows.map(([id, text]) => leaseFrom(id as string, text as string));
  }

  protected override leaseAt(leaseId: string): LeaseVersion | undefined {
    const sql = "SELECT version, writer FROM lease WHERE namespace = ? AND id = ?";
    const row = this.#connection.prepare(sql).get(this.#namespaceId, leaseId);
    return row && { version: row[0] as number, writer: row[1] as string };
  }

  protected override keyAt(key: string): StoredKey | undefined {
    const sql =
      "SELECT mark, fingerprint, answer, until_ms, forget_at_ms FROM lease_key WHERE namespace = ? AND key = ?";
    const row = this.#connection.prepare(sql).get(this.#namespaceId, key);
    if (row === undefined) return undefined;
    const [mark, fingerprint, answer, untilMs, forgottenAtMs] = row as [string, string, string | null, number, number];
    return { key, mark, fingerprint, answer: answer ?? undefined, untilMs, forgottenAtMs };
  }

  protected override putLease(record: LeaseRecord): void {
    const { entityId, resource, version, writer, dueAtMs, forgottenAtMs } = columnsOf(record);
    this.#connection
      .prepare(
        `INSERT OR REPLACE INTO lease (namespace, id, entity, resource, version, writer, due_at_ms, forget_at_ms, record)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      )
      .run(
        ...[this.#namespaceId, record.leaseId, entityId, resource, version, writer],
        ...[dueAtMs ?? null, forgottenAtMs ?? null, leaseText(record)],
      );
  }

  protected override putKey({ key, mark, fingerprint, answer, untilMs, forgottenAtMs }: StoredKey): void {
    this.#connection
      .prepare(
        `INSERT OR REPLACE INTO lease_key (namespace, key, mark, fingerprint, answer, until_ms, forget_at_ms)
         VALUES (?, ?, ?, ?, ?, ?, ?)`,
      )
      .run(this.#namespaceId, key, mark, fingerprint, answer ?? null, untilMs, forgottenAtMs);
  }

  protected override deleteKey(key: string): void {
    this.#connection.prepare("DELETE FROM lease_key WHERE namespace = ? AND key = ?").run(this.#namespaceId, key);
  }

  protected override forget(nowMs: number): void {
    this.#added++;
    if (this.#added < FORGET_EVERY) return;
    this.#added = 0;
    for (const [table, key] of [
      ["lease", "namespace, id"],
      ["lease_key", "namespace, key"],
    ]) {
      const rows = `SELECT ${key} FROM ${table} WHERE namespace = ? AND forget_at_ms <= ? LIMIT ?`;
      const statement = this.#connection.prepare(`DELETE FROM ${table} WHERE (${key}) IN (${rows})`);
      statement.run(this.#namespaceId, nowMs, FORGOTTEN_AT_ONCE);
    }
  }

  #read(sql: string, values: readonly (string | number | null)[]): readonly Row[] {
    return this.#connection.read(() => this.#connection.prepare(sql).all(this.#namespaceId, ...values));
  }
}

interface LeaseParts {
  readonly connection: Connection;
  readonly commit: GroupCommit;
  readonly rows: LeaseRows;
  readonly bucketsAt: (context: CallContext) => Rows<Slot>;
}

/** Leases of one namespace. Their writes share transactions with takes; a record is always in that of its own take or change. */
export function sqliteLeases({ connection, commit, rows, bucketsAt }: LeaseParts): LeaseStore {
  const unavailable = (applied: "no" | "unknown", cause: unknown) => ({ kind: "unavailable", applied, cause }) as const;
  const write = (nowMs: number, work: () => LeaseReply) =>
    commit.submit<LeaseReply>({ context: { nowMs, timeoutMs: CHANGE_WAIT_MS }, work, unavailable });
  /** A write that has no answer for an outage: it throws. */
  const change = async <Value>(nowMs: number, work: () => Value): Promise<Value> => {
    const done = await commit.submit<{ readonly value: Value } | { readonly cause: unknown }>({
      context: { nowMs, timeoutMs: CHANGE_WAIT_MS },
      work: () => ({ value: work() }),
      unavailable: (_applied, cause) => ({ cause }),
    });
    if ("value" in done) return done.value;
    const cause = thrownFor(done.cause, connection.file);
    if (cause instanceof LimiterError) throw cause;
    throw new RateLimiterUnavailable(`The file ${connection.file} could not be written in time.`, { cause });
  };
  return {
    isWrittenByTake: true,
    create: (made, nowMs) => write(nowMs, () => rows.create(made, nowMs)),
    get: (leaseId) => rows.get(leaseId),
    move: (next, finish, nowMs) => write(nowMs, () => rows.move(next, finish)),
    change: (moved, context) =>
      commit.submit<ChangeReply>({ context, work: () => rows.changeIn(bucketsAt(context), moved), unavailable }),
    listOpen: (filter, { limit, cursor }) => {
      const [due = "0", leaseId = ""] = numberAfter(cursor, 2) ?? [];
      return openPage(rows.open([Number(due), leaseId], filter, limit + 1), limit);
    },
    findDue: (nowMs, limitMax) => rows.due(nowMs, limitMax),
    beginKey: (begin) => change(begin.nowMs, () => rows.beginKey(begin)),
    renewKey: (mark, { nowMs, untilMs }) => change(nowMs, () => rows.renewKey(mark, { untilMs })),
    releaseKey: (mark, nowMs) => change(nowMs, () => rows.releaseKey(mark)),
  };
}
