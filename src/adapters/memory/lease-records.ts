import { keyInProgress } from "../../domain/lease/idempotency.ts";
import { dueAtMs, forgottenAtMs, type LeaseRecord } from "../../domain/lease/lease-record.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import type { BeginReply, DueLease, KeyBegin, LeaseFilter, LeaseReply } from "../../ports/lease-store.ts";
import type { KeyFinish, KeyMark, LeaseWrite } from "../../ports/lease-write.ts";
import {
  begunKey,
  finishedKey,
  isOurs,
  isTaken,
  onCreate,
  onMove,
  STORED,
  type StoredKey,
} from "../../stored/lease-rules.ts";
import { dataOf, type MemoryData, type NamespaceData, requireActive } from "./data.ts";
import type { LeaseIndex } from "./lease-index.ts";
import { textList } from "./list-orders.ts";

/** Forgotten with each write: more than one write adds, so that what is old grows less. */
const FORGOTTEN_AT_ONCE = 4;

/** The records and keys of leases in memory: one thread, so each call is a transaction. They die with their buckets. */
export class LeaseRecords {
  readonly #all: MemoryData;
  readonly #namespaceId: string;
  readonly #data: NamespaceData;

  constructor(all: MemoryData, namespaceId: string) {
    this.#all = all;
    this.#namespaceId = namespaceId;
    this.#data = dataOf(all, namespaceId);
  }

  /** Throws where another answers the request of a draft by now: nothing may be taken for it. */
  requireOurs(key: KeyMark | undefined): void {
    if (!this.isOurs(key)) throw keyInProgress(key?.key ?? "");
  }

  create({ record, finish }: LeaseWrite, nowMs: number): LeaseReply {
    requireActive(this.#all, this.#namespaceId);
    this.#forget(nowMs);
    const known = record === undefined ? undefined : this.#index.records.get(record.leaseId);
    const reply = onCreate(known, record, () => this.isOurs(finish));
    if (reply !== "write") return reply;
    if (record !== undefined) this.#put(record, undefined);
    this.#finish(finish);
    return STORED;
  }

  get(leaseId: string): LeaseRecord | undefined {
    return this.#index.records.get(leaseId);
  }

  move(next: LeaseRecord, finish: KeyFinish | undefined, nowMs: number): LeaseReply {
    this.#forget(nowMs);
    const before = this.#index.records.get(next.leaseId);
    const reply = onMove(before, next, () => this.isOurs(finish));
    if (reply !== "write") return reply;
    this.#put(next, before);
    this.#finish(finish);
    return STORED;
  }

  listOpen({ entityId, resource }: LeaseFilter, page: PageRequest): MaybePromise<Page<LeaseRecord>> {
    const { records } = this.#index;
    const isWanted = (record: LeaseRecord) =>
      record.status === "open" &&
      (entityId === undefined || record.entityId === entityId) &&
      (resource === undefined || record.resources[0]?.resource === resource);
    const ids = () => [...records.values()].flatMap((record) => (isWanted(record) ? [record.leaseId] : []));
    const openOf = (leaseId: string) => {
      const record = records.get(leaseId);
      return record?.status === "open" ? record : undefined;
    };
    return this.#data.orders.pageByTurns(textList(`leases ${entityId ?? ""}\n${resource ?? ""}`, ids, openOf), page);
  }

  findDue(nowMs: number, limitMax: number): readonly DueLease[] {
    this.#forget(nowMs);
    return this.#index.due.upTo(nowMs, limitMax).flatMap((leaseId) => {
      const record = this.#index.records.get(leaseId);
      const atMs = record === undefined ? undefined : dueAtMs(record);
      return atMs === undefined ? [] : [{ leaseId, dueAtMs: atMs }];
    });
  }

  beginKey(begin: KeyBegin): BeginReply {
    requireActive(this.#all, this.#namespaceId);
    this.#forget(begin.nowMs);
    const known = this.#index.keys.get(begin.key);
    if (known !== undefined && isTaken(known, begin.nowMs)) {
      const { forgottenAtMs: _, ...record } = known;
      return { kind: "known", record };
    }
    this.#putKey(begunKey(begin));
    return { kind: "begun" };
  }

  renewKey(mark: KeyMark, { untilMs }: { readonly untilMs: number }): boolean {
    const known = this.#index.keys.get(mark.key);
    if (known === undefined || !this.isOurs(mark)) return false;
    this.#putKey({ ...known, untilMs });
    return true;
  }

  releaseKey(mark: KeyMark): void {
    const known = this.#index.keys.get(mark.key);
    if (known === undefined || !this.isOurs(mark)) return;
    this.#index.keys.delete(mark.key);
    this.#index.oldKeys.delete(mark.key, known.forgottenAtMs);
  }

  /** Whether the work under a key is still the caller's; of no key, it is. */
  isOurs(mark: (KeyMark & { readonly answer?: string }) | undefined): boolean {
    return mark === undefined || isOurs(this.#index.keys.get(mark.key), mark);
  }

  get #index(): LeaseIndex {
    return this.#data.leases;
  }

  #finish(finish: KeyFinish | undefined): void {
    const known = finish === undefined ? undefined : this.#index.keys.get(finish.key);
    if (finish === undefined || known === undefined) return;
    this.#putKey({ ...known, ...finishedKey(finish) });
  }

  #putKey(next: StoredKey): void {
    const { keys, oldKeys } = this.#index;
    const before = keys.get(next.key);
    if (before !== undefined) oldKeys.delete(next.key, before.forgottenAtMs);
    keys.set(next.key, next);
    oldKeys.add(next.key, next.forgottenAtMs);
  }

  #put(next: LeaseRecord, before: LeaseRecord | undefined): void {
    const { records, due, closed } = this.#index;
    const wasDueMs = before === undefined ? undefined : dueAtMs(before);
    if (wasDueMs !== undefined) due.delete(next.leaseId, wasDueMs);
    records.set(next.leaseId, next);
    const [nextDueMs, endMs] = [dueAtMs(next), forgottenAtMs(next)];
    if (nextDueMs !== undefined) due.add(next.leaseId, nextDueMs);
    if (endMs !== undefined) closed.add(next.leaseId, endMs);
  }

  #forget(nowMs: number): void {
    const { records, keys, closed, oldKeys } = this.#index;
    for (const leaseId of closed.upTo(nowMs, FORGOTTEN_AT_ONCE)) {
      const record = records.get(leaseId);
      records.delete(leaseId);
      if (record !== undefined) closed.delete(leaseId, forgottenAtMs(record) ?? 0);
    }
    for (const key of oldKeys.upTo(nowMs, FORGOTTEN_AT_ONCE)) {
      const known = keys.get(key);
      keys.delete(key);
      if (known !== undefined) oldKeys.delete(key, known.forgottenAtMs);
    }
  }
}
