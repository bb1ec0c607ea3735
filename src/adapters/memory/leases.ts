import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import type { LeaseRecord } from "../../domain/lease/lease-record.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { CallContext, LeaseWrite, MaybePromise } from "../../ports/bucket-store.ts";
import type {
  BeginReply,
  ChangeReply,
  DueLease,
  KeyBegin,
  LeaseChange,
  LeaseFilter,
  LeaseReply,
  LeaseStore,
} from "../../ports/lease-store.ts";
import { leaseKey, markKey } from "../../records/bodies.ts";
import { columnsOf, type StoredKey } from "../../stored/lease-rules.ts";
import { LeaseTable } from "../../stored/lease-table.ts";
import type { Rows } from "../../stored/row-buckets.ts";
import { type MemoryData, requireActive } from "./data.ts";
import { pageInOrder, sameText } from "./ordered-pages.ts";

/** Forgotten with each new lease or key: more than one adds, so that what is old grows less. */
const FORGOTTEN_AT_ONCE = 8;

/** Leases and keys in memory, among the records of their namespace. */
export class MemoryLeases extends LeaseTable implements LeaseStore {
  readonly isWrittenByTake = true;
  readonly #all: MemoryData;
  readonly #namespaceId: string;
  readonly #rowsAt: (nowMs: number) => Rows<BucketKey>;

  constructor(all: MemoryData, namespaceId: string, rowsAt: (nowMs: number) => Rows<BucketKey>) {
    super();
    this.#all = all;
    this.#namespaceId = namespaceId;
    this.#rowsAt = rowsAt;
  }

  override create(write: LeaseWrite, nowMs: number): LeaseReply {
    requireActive(this.#all, this.#namespaceId);
    return super.create(write, nowMs);
  }

  override beginKey(begin: KeyBegin): BeginReply {
    requireActive(this.#all, this.#namespaceId);
    return super.beginKey(begin);
  }

  get(leaseId: string): LeaseRecord | undefined {
    return this.leaseAt(leaseId);
  }

  change(change: LeaseChange, { nowMs }: CallContext): ChangeReply {
    return this.changeIn(this.#rowsAt(nowMs), change);
  }

  listOpen({ entityId, resource }: LeaseFilter, page: PageRequest): MaybePromise<Page<LeaseRecord>> {
    const leases = this.#records.of("lease");
    const itemOf = (leaseId: string) => {
      const record = leases.get(leaseId)?.body as LeaseRecord | undefined;
      const isWanted =
        record?.status === "open" &&
        (entityId === undefined || record.entityId === entityId) &&
        (resource === undefined || record.resources[0]?.resource === resource);
      return isWanted ? record : undefined;
    };
    const keysAfter = (leaseId: string, max: number) => leases.keysAfter(leaseId, max);
    const list = { keysAfter, from: "", itemOf, textOf: sameText, keyOf: sameText };
    return pageInOrder(this.#all.turns, list, page);
  }

  findDue(nowMs: number, limitMax: number): readonly DueLease[] {
    const due = this.#all.records.list(
      this.#namespaceId,
      { kind: "lease", of: "due", untilMs: nowMs },
      undefined,
      limitMax,
    );
    return due.records.map(({ place }) => ({ leaseId: place[1] as string, dueAtMs: Number(place[0]) }));
  }

  protected override leaseAt(leaseId: string): LeaseRecord | undefined {
    return this.#all.records.find(this.#namespaceId, leaseKey(leaseId))?.body as LeaseRecord | undefined;
  }

  protected override keyAt(key: string): StoredKey | undefined {
    return this.#all.records.find(this.#namespaceId, markKey(key))?.body as StoredKey | undefined;
  }

  protected override putLease(record: LeaseRecord): void {
    this.#all.records.put(this.#namespaceId, {
      ...leaseKey(record.leaseId),
      kind: "lease",
      by: columnsOf(record),
      body: record,
    });
  }

  protected override putKey(key: StoredKey): void {
    this.#all.records.put(this.#namespaceId, { kind: "leaseKey", key: [key.key], by: key, body: key });
  }

  protected override deleteKey(key: string): void {
    this.#records.delete("leaseKey", key);
  }

  protected override forget(nowMs: number): void {
    for (const { kind, key } of this.#records.forgottenBy(nowMs, FORGOTTEN_AT_ONCE)) {
      this.#records.delete(kind, key[0] as string);
    }
  }

  get #records() {
    return this.#all.records.in(this.#namespaceId);
  }
}
