import { type BucketKey, bucketKey } from "../../domain/bucket/bucket-key.ts";
import type { BucketState } from "../../domain/bucket/bucket-state.ts";
import { ThresholdListeners } from "../../domain/bucket/mark-keeper.ts";
import type { Amount, CountedAmount } from "../../domain/charge/amounts.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
import type { Crossed } from "../../domain/limits/thresholds.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type {
  BucketOwner,
  BucketStore,
  CallContext,
  Claim,
  CreditContext,
  Held,
  Operation,
  OperationReply,
  Refunded,
  RenewReply,
  TakeContext,
  TakeReply,
  WatchRoom,
  WriteReply,
} from "../../ports/bucket-store.ts";
import type { Clock } from "../../ports/system.ts";
import { recordAfter } from "../../stored/bucket-record.ts";
import type { CurrentLimits, RuleContext } from "../../stored/bucket-rules.ts";
import { keyAfter, keyCursor, pageOf, textAfter } from "../../stored/cursor.ts";
import { asCount } from "../../stored/open-hour.ts";
import {
  credit,
  debit,
  type RowChange,
  type Rows,
  refund,
  renew,
  reset,
  takeAll,
  topUp,
} from "../../stored/row-buckets.ts";
import { type BucketRows, bucketRow, COLUMNS, type NamespaceRows, type Slot } from "./bucket-rows.ts";
import { type Changes, operateOnce } from "./changes.ts";
import type { Connection, Row } from "./connection.ts";
import type { Call, GroupCommit } from "./group-commit.ts";
import type { LeaseRows } from "./leases.ts";
import { ForeignRoom, type Watch } from "./watch.ts";

interface BucketParts {
  readonly changes: Changes;
  readonly calendar: Calendar;
  readonly countsUsage: boolean;
  readonly connection: Connection;
  readonly watch: Watch;
  readonly rows: BucketRows;
  readonly commit: GroupCommit;
}

/** Buckets of one namespace. */
export class SqliteBuckets implements BucketStore {
  readonly #parts: BucketParts;
  readonly #namespace: NamespaceRows;
  readonly #current: CurrentLimits;
  readonly #leases: LeaseRows;
  readonly #thresholds = new ThresholdListeners();
  readonly #foreignRoom: ForeignRoom;
  /** The last one made: takes of one transaction have most often the same time. */
  #lastRows: CallRows | undefined;

  constructor(parts: BucketParts, leases: LeaseRows, current: CurrentLimits, namespaceId: string) {
    this.#parts = parts;
    this.#leases = leases;
    this.#current = current;
    this.#namespace = parts.rows.of(namespaceId);
    this.#foreignRoom = new ForeignRoom(parts, (keys) => this.read(keys));
  }

  take(claims: readonly Claim[], context: TakeContext): Promise<TakeReply> {
    return this.#parts.commit.submit(new QueuedTake(this, claims, context));
  }

  takeSync(claims: readonly Claim[], context: TakeContext): TakeReply {
    return this.#parts.commit.submitSync(new QueuedTake(this, claims, context));
  }

  debit(held: Held, amounts: readonly Amount[], context: CallContext): Promise<WriteReply> {
    return this.#parts.commit.submit({ context, work: () => debit(this.rowsAt(context), held, amounts), unavailable });
  }

  credit(held: Held, amounts: readonly Amount[], context: CreditContext): Promise<WriteReply> {
    return this.#parts.commit.submit(new QueuedCredit(this, held, amounts, context));
  }

  refund(of: Refunded, amounts: readonly Amount[], context: CallContext): Promise<WriteReply> {
    return this.#parts.commit.submit({ context, work: () => refund(this.rowsAt(context), of, amounts), unavailable });
  }

  renew(held: Held, amounts: readonly Amount[], context: CallContext): Promise<RenewReply> {
    const work = () => renew(this.rowsAt(context), held, amounts);
    return this.#parts.commit.submit({ context, work, unavailable: (_, cause) => ({ kind: "unavailable", cause }) });
  }

  foreignRoom(clock: Clock): WatchRoom {
    return this.#foreignRoom.since(clock);
  }

  watchThresholds(listener: (crossed: Crossed) => void): () => void {
    return this.#thresholds.watch(listener);
  }

  topUp(operation: Operation, amounts: readonly Amount[]): Promise<OperationReply> {
    return operateOnce(this.#parts, this.#namespace.namespaceId, operation, () =>
      topUp(this.rowsAt(operation), operation, amounts),
    );
  }

  reset(operation: Operation, limits: readonly string[] | undefined): Promise<OperationReply> {
    return operateOnce(this.#parts, this.#namespace.namespaceId, operation, () =>
      reset(this.rowsAt(operation), operation, limits),
    );
  }

  read(keys: readonly BucketKey[]): readonly (BucketState | undefined)[] {
    const { connection, calendar } = this.#parts;
    const sql = `SELECT ${COLUMNS} FROM bucket WHERE namespace = ? AND entity = ? AND resource = ?`;
    return connection.readTogether(() =>
      keys.map(({ entityId, resource }) => {
        const found = connection.prepare(sql).get(this.#namespace.namespaceId, entityId, resource);
        return found === undefined ? undefined : bucketRow(found, { entityId, resource }, calendar).state;
      }),
    );
  }

  listKeys({ entityId }: BucketOwner, page: PageRequest): Page<BucketKey> {
    const [entity, resource] = (keyAfter(page.cursor, 2) ?? ["", ""]) as [string, string];
    const where = entityId === undefined ? "(entity, resource) > (?, ?)" : "entity = ? AND resource > ?";
    const found = this.#list(
      `SELECT entity, resource FROM bucket WHERE namespace = ? AND ${where} ORDER BY entity, resource LIMIT ?`,
      [entityId ?? entity, resource, page.limit + 1],
    );
    const items = found.map(([owner, on]) => bucketKey(owner as string, on as string));
    return pageOf(items, page.limit, (key) => keyCursor(key.entityId, key.resource));
  }

  listByResource(resource: string, page: PageRequest): Page<{ readonly key: BucketKey; readonly state: BucketState }> {
    const found = this.#list(
      `SELECT ${COLUMNS}, entity FROM bucket
       WHERE namespace = ? AND resource = ? AND entity > ? ORDER BY entity LIMIT ?`,
      [resource, textAfter(page.cursor), page.limit + 1],
    );
    const items = found.map((columns) => {
      const key = bucketKey(columns[4] as string, resource);
      return { key, state: bucketRow(columns, key, this.#parts.calendar).state };
    });
    return pageOf(items, page.limit, ({ key }) => keyCursor(key.entityId));
  }

  /** The rows of this namespace, for work inside a transaction. */
  rowsAt({ nowMs }: { readonly nowMs: number }): Rows<Slot> {
    const { rows, watch, calendar, countsUsage } = this.#parts;
    const { generation } = watch;
    const last = this.#lastRows;
    if (last?.context.nowMs === nowMs && last.context.generation === generation) return last;
    const context = { nowMs, calendar, generation, countsUsage, hasRoomForHeld: true, current: this.#current } as const;
    this.#lastRows = new CallRows(context, rows, this.#namespace, this.#thresholds);
    return this.#lastRows;
  }

  /** Takes inside the transaction that the call falls into. */
  takeInside(claims: readonly Claim[], context: TakeContext): TakeReply {
    const { generation, limitsOf, lease } = context;
    if (generation !== undefined && generation !== this.#parts.watch.generation) return "stale";
    const limitsFrom = generation === undefined ? "lease" : (limitsOf ?? "config");
    const rows = this.rowsAt(context);
    return lease === undefined ? takeAll(rows, claims, limitsFrom) : this.#leases.take(rows, claims, limitsFrom, lease);
  }

  #list(sql: string, values: readonly (string | number)[]): readonly Row[] {
    const { connection } = this.#parts;
    return connection.read(() => connection.prepare(sql).all(this.#namespace.namespaceId, ...values));
  }
}

/** The rows of one call, which other calls of its transaction share where they have the same time. */
class CallRows implements Rows<Slot> {
  readonly context: RuleContext;
  readonly #rows: BucketRows;
  readonly #namespace: NamespaceRows;
  readonly #thresholds: ThresholdListeners;

  constructor(context: RuleContext, rows: BucketRows, namespace: NamespaceRows, thresholds: ThresholdListeners) {
    this.context = context;
    this.#rows = rows;
    this.#namespace = namespace;
    this.#thresholds = thresholds;
  }

  place(of: Pick<Claim, "bucket" | "link">, needs?: "replaced"): Slot {
    if (needs === "replaced") return this.#rows.slotToReplace(this.#namespace, of.bucket);
    return this.#rows.slotFor(this.#namespace, of);
  }

  state({ row }: Slot): BucketState | undefined {
    return row?.state;
  }

  put(slot: Slot, standing: BucketState, change?: RowChange): void {
    this.#rows.put(slot, recordAfter(slot.row, standing, change, this.context));
  }

  countForgotten(slot: Slot, amounts: readonly CountedAmount[]): void {
    const { countsUsage, nowMs } = this.context;
    if (!countsUsage) return;
    for (const count of asCount({ amounts, sign: -1, requests: 0, nowMs })) this.#rows.countForgotten(slot, count);
  }

  tell(crossed: readonly Crossed[]): void {
    this.#rows.afterCommit(() => this.#thresholds.tell(crossed));
  }
}

/** A take that waits for its transaction. A class, since every take is one: two functions less are made for it. */
class QueuedTake implements Call<TakeReply> {
  readonly context: TakeContext;
  readonly #buckets: SqliteBuckets;
  readonly #claims: readonly Claim[];

  constructor(buckets: SqliteBuckets, claims: readonly Claim[], context: TakeContext) {
    this.context = context;
    this.#buckets = buckets;
    this.#claims = claims;
  }

  work(): TakeReply {
    return this.#buckets.takeInside(this.#claims, this.context);
  }

  unavailable(_applied: "no" | "unknown", cause: unknown): TakeReply {
    return this.#claims.map(() => ({ kind: "unavailable", cause }));
  }
}

/** A give-back that waits for its transaction. A class for the same reason: with slots, every take has one. */
class QueuedCredit implements Call<WriteReply> {
  readonly context: CreditContext;
  readonly unavailable = unavailable;
  readonly #buckets: SqliteBuckets;
  readonly #held: Held;
  readonly #amounts: readonly Amount[];

  constructor(buckets: SqliteBuckets, held: Held, amounts: readonly Amount[], context: CreditContext) {
    this.context = context;
    this.#buckets = buckets;
    this.#held = held;
    this.#amounts = amounts;
  }

  work(): WriteReply {
    return credit(this.#buckets.rowsAt(this.context), this.#held, this.#amounts, this.context);
  }
}

function unavailable(applied: "no" | "unknown", cause: unknown): WriteReply {
  return { kind: "unavailable", applied, cause };
}
