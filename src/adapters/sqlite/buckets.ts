import { type BucketKey, bucketKey } from "../../domain/bucket/bucket-key.ts";
import type { BucketState } from "../../domain/bucket/bucket-state.ts";
import { ThresholdListeners } from "../../domain/bucket/mark-keeper.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import type { Calendar } from "../../domain/limits/calendar.ts";
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
  RenewReply,
  TakeContext,
  TakeReply,
  WatchRoom,
  WriteReply,
} from "../../ports/bucket-store.ts";
import type { Clock } from "../../ports/system.ts";
import type { CurrentLimits } from "../../stored/current-limits.ts";
import { keyAfter, keyCursor, pageOf, textAfter } from "../../stored/cursor.ts";
import { credit, debit, type RowsContext, renew, reset, takeAll, topUp } from "./bucket-changes.ts";
import { type BucketRows, bucketRow, COLUMNS, type NamespaceRows } from "./bucket-rows.ts";
import type { Connection, Statement } from "./connection.ts";
import { ForeignRoom } from "./foreign-room.ts";
import type { Call, GroupCommit } from "./group-commit.ts";
import type { LeaseRows } from "./lease-rows.ts";
import type { Operations } from "./operations.ts";
import type { Watch } from "./watch.ts";

/** Buckets of one namespace. */
export class SqliteBuckets implements BucketStore {
  readonly #connection: Connection;
  readonly #watch: Watch;
  readonly #rows: BucketRows;
  readonly #commit: GroupCommit;
  readonly #namespace: NamespaceRows;
  readonly #read: Statement;
  readonly #list: Statement;
  readonly #listAll: Statement;
  readonly #listOf: Statement;
  readonly #operations: Operations;
  readonly #calendar: Calendar;
  readonly #countsUsage: boolean;
  readonly #current: CurrentLimits;
  readonly #leases: LeaseRows;
  readonly #thresholds = new ThresholdListeners();
  readonly #foreignRoom: ForeignRoom;
  /** The last one made: takes of one transaction have most often the same time. */
  #context: RowsContext | undefined;

  constructor(
    parts: {
      readonly operations: Operations;
      readonly calendar: Calendar;
      readonly countsUsage: boolean;
      readonly connection: Connection;
      readonly watch: Watch;
      readonly rows: BucketRows;
      readonly commit: GroupCommit;
    },
    leases: LeaseRows,
    current: CurrentLimits,
    namespaceId: string,
  ) {
    this.#current = current;
    this.#leases = leases;
    this.#foreignRoom = new ForeignRoom(parts, (keys) => this.read(keys));
    this.#connection = parts.connection;
    this.#watch = parts.watch;
    this.#rows = parts.rows;
    this.#commit = parts.commit;
    this.#operations = parts.operations;
    this.#calendar = parts.calendar;
    this.#countsUsage = parts.countsUsage;
    this.#namespace = parts.rows.of(namespaceId);
    this.#read = parts.connection.prepare(
      `SELECT ${COLUMNS} FROM bucket WHERE namespace = ? AND entity = ? AND resource = ?`,
    );
    this.#list = parts.connection.prepare(
      `SELECT ${COLUMNS}, entity FROM bucket
       WHERE namespace = ? AND resource = ? AND entity > ? ORDER BY entity LIMIT ?`,
    );
    this.#listAll = parts.connection.prepare(
      `SELECT entity, resource FROM bucket
       WHERE namespace = ? AND (entity, resource) > (?, ?) ORDER BY entity, resource LIMIT ?`,
    );
    this.#listOf = parts.connection.prepare(
      `SELECT entity, resource FROM bucket
       WHERE namespace = ? AND entity = ? AND resource > ? ORDER BY resource LIMIT ?`,
    );
  }

  take(claims: readonly Claim[], context: TakeContext): Promise<TakeReply> {
    return this.#commit.submit(new QueuedTake(this, claims, context));
  }

  takeSync(claims: readonly Claim[], context: TakeContext): TakeReply {
    return this.#commit.submitSync(new QueuedTake(this, claims, context));
  }

  debit(held: Held, amounts: readonly Amount[], context: CallContext): Promise<WriteReply> {
    return this.#commit.submit({ context, work: () => debit(this.rowsAt(context), held, amounts), unavailable });
  }

  credit(held: Held, amounts: readonly Amount[], context: CreditContext): Promise<WriteReply> {
    return this.#commit.submit(new QueuedCredit(this, held, amounts, context));
  }

  renew(held: Held, amounts: readonly Amount[], context: CallContext): Promise<RenewReply> {
    const work = () => renew(this.rowsAt(context), held, amounts);
    return this.#commit.submit({ context, work, unavailable: (_, cause) => ({ kind: "unavailable", cause }) });
  }

  foreignRoom(clock: Clock): WatchRoom {
    return this.#foreignRoom.since(clock);
  }

  watchThresholds(listener: (crossed: Crossed) => void): () => void {
    return this.#thresholds.watch(listener);
  }

  topUp(operation: Operation, amounts: readonly Amount[]): Promise<OperationReply> {
    const { nowMs } = operation;
    return this.#operations.once(this.#namespace.namespaceId, operation, () =>
      topUp(this.rowsAt({ nowMs }), operation, amounts),
    );
  }

  reset(operation: Operation, limits: readonly string[] | undefined): Promise<OperationReply> {
    const { nowMs } = operation;
    return this.#operations.once(this.#namespace.namespaceId, operation, () =>
      reset(this.rowsAt({ nowMs }), operation, limits),
    );
  }

  read(keys: readonly BucketKey[]): readonly (BucketState | undefined)[] {
    const { namespaceId } = this.#namespace;
    return this.#connection.readTogether(() =>
      keys.map(({ entityId, resource }) => {
        const found = this.#read.get(namespaceId, entityId, resource);
        return found === undefined ? undefined : bucketRow(found, { entityId, resource }, this.#calendar).state;
      }),
    );
  }

  listKeys({ entityId }: BucketOwner, page: PageRequest): Page<BucketKey> {
    const [entity, resource] = keyAfter(page.cursor, 2) ?? [entityId ?? "", ""];
    const { namespaceId } = this.#namespace;
    const found = this.#connection.read(() =>
      entityId === undefined
        ? this.#listAll.all(namespaceId, entity as string, resource as string, page.limit + 1)
        : this.#listOf.all(namespaceId, entityId, resource as string, page.limit + 1),
    );
    const items = found.map(([owner, on]) => bucketKey(owner as string, on as string));
    return pageOf(items, page.limit, (key) => keyCursor(key.entityId, key.resource));
  }

  listByResource(resource: string, page: PageRequest): Page<{ readonly key: BucketKey; readonly state: BucketState }> {
    const after = textAfter(page.cursor);
    const found = this.#connection.read(() =>
      this.#list.all(this.#namespace.namespaceId, resource, after, page.limit + 1),
    );
    const items = found.map((columns) => {
      const key = bucketKey(columns[4] as string, resource);
      return { key, state: bucketRow(columns, key, this.#calendar).state };
    });
    return pageOf(items, page.limit, ({ key }) => keyCursor(key.entityId));
  }

  /** The rows of this namespace, for work inside a transaction. */
  rowsAt({ nowMs }: { readonly nowMs: number }): RowsContext {
    const { generation } = this.#watch;
    if (this.#context?.nowMs === nowMs && this.#context.generation === generation) return this.#context;
    this.#context = {
      rows: this.#rows,
      namespace: this.#namespace,
      nowMs,
      calendar: this.#calendar,
      generation,
      countsUsage: this.#countsUsage,
      hasRoomForHeld: true,
      current: this.#current,
      thresholds: this.#thresholds,
    };
    return this.#context;
  }

  /** What a take does inside the transaction that it falls into. */
  taken(claims: readonly Claim[], context: TakeContext): TakeReply {
    const { generation, lease, nowMs } = context;
    if (generation !== undefined && generation !== this.#watch.generation) return "stale";
    const by = generation === undefined ? "lease" : "plan";
    if (lease === undefined) return takeAll(this.rowsAt(context), claims, by);
    return this.#rows.allOrNone(() =>
      this.#leases.drafted(lease, nowMs, () => takeAll(this.rowsAt(context), claims, by)),
    );
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
    return this.#buckets.taken(this.#claims, this.context);
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
