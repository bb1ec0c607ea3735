import { divCeil } from "../../bucket/integers.ts";
import { dueAtMs, forgottenAtMs, type LeaseRecord } from "../../domain/lease/lease-record.ts";
import { leaseFrom, leaseText } from "../../domain/lease/stored-lease.ts";
import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { BeginReply, DueLease, KeyBegin, LeaseFilter, LeaseReply, LeaseStore } from "../../ports/lease-store.ts";
import type { KeyFinish, KeyMark, LeaseWrite } from "../../ports/lease-write.ts";
import type { Attributes } from "./codec.ts";
import { LeaseHours } from "./lease-hours.ts";
import { LeaseKeys } from "./lease-keys.ts";
import { cursorOf, inChunks, pageOf, placeAfter } from "./paging.ts";
import type { Records } from "./records.ts";
import { all, any, isStill, missing, putRecord, type RecordWrite, texts } from "./records-write.ts";
import { ENTITY_INDEX, GSI3PK, GSI3SK, LEASE, LEASE_VERSION, LEASE_WRITER, TTL } from "./schema.ts";
import {
  dueRange,
  hourOf,
  LEASE_SLOTS,
  leaseKey,
  leasesPk,
  type OpenLease,
  openLeaseKeys,
  openRange,
  parseOpenLease,
} from "./schema-leases.ts";

const STORED: LeaseReply = { kind: "stored" };

/** An open lease whose end nobody writes down is kept for so long, so that a service that starts again gives it back. */
const UNENDED_KEPT_MS = 7 * 24 * 3_600_000;

const READ_AT_ONCE = 100;

/** More hours than leases are held for: a month. */
const NOTED_MAX = 1_000;

/**
 * Leases of one namespace: an item a lease, replaced by a condition on its version. While it is open it is in an index by the
 * instant of its end, in one of a few slots: what is due is found by a query of each, not by a scan. TTL removes it.
 */
export class DynamoLeases implements LeaseStore {
  readonly isWrittenByTake = false;
  readonly #records: Records;
  readonly #namespaceId: string;
  readonly #keys: LeaseKeys;
  readonly #hours: LeaseHours;
  /** Those that this process has noted: every lease of an hour but the first costs nothing more. */
  readonly #notedHours = new Set<number>();

  constructor(records: Records, namespaceId: string) {
    this.#records = records;
    this.#namespaceId = namespaceId;
    this.#keys = new LeaseKeys(records, namespaceId);
    this.#hours = new LeaseHours(records);
  }

  async create({ record, finish }: LeaseWrite): Promise<LeaseReply> {
    if (record === undefined) return finish === undefined ? STORED : this.#keys.finish(finish);
    return this.#put(record, putRecord(this.#key(record.leaseId), this.#itemOf(record), missing), finish);
  }

  async get(leaseId: string): Promise<LeaseRecord | undefined> {
    const item = await this.#records.get(this.#key(leaseId));
    return item === undefined ? undefined : recordIn(leaseId, item);
  }

  async move(next: LeaseRecord, finish: KeyFinish | undefined): Promise<LeaseReply> {
    const before = isStill(LEASE_VERSION, { N: String(next.version - 1) });
    const own = all(isStill(LEASE_VERSION, { N: String(next.version) }), isStill(LEASE_WRITER, { S: next.writer }));
    const unmoved = next.owed === undefined ? before : any(before, own);
    return this.#put(next, putRecord(this.#key(next.leaseId), this.#itemOf(next), unmoved), finish);
  }

  async listOpen(filter: LeaseFilter, { limit, cursor }: PageRequest): Promise<Page<LeaseRecord>> {
    const [slot = "0", after = ""] = placeAfter(cursor, 2) ?? [];
    const found = this.#open(filter, { slot: Number(slot), after });
    const page = await pageOf(found, limit, ({ position }) => cursorOf(String(position.slot), position.sk));
    return { ...page, items: page.items.map(({ record }) => record) };
  }

  async findDue(nowMs: number, limitMax: number): Promise<readonly DueLease[]> {
    const bySlot = await Promise.all(LEASE_SLOTS.map((slot) => this.#dueIn(slot, nowMs, limitMax)));
    const due = bySlot.flat().sort((a, b) => a.expiresAtMs - b.expiresAtMs);
    return due.slice(0, limitMax).map(({ leaseId, expiresAtMs }) => ({ leaseId, dueAtMs: expiresAtMs }));
  }

  beginKey(begin: KeyBegin): Promise<BeginReply> {
    return this.#keys.begin(begin);
  }

  renewKey(mark: KeyMark, { untilMs }: { readonly untilMs: number }): Promise<boolean> {
    return this.#keys.renew(mark, untilMs);
  }

  releaseKey(mark: KeyMark): Promise<void> {
    return this.#keys.release(mark);
  }

  async #put(record: LeaseRecord, write: RecordWrite, finish: KeyFinish | undefined): Promise<LeaseReply> {
    const unnoted = await this.#noteHour(dueAtMs(record));
    if (unnoted !== undefined) return unnoted;
    if (finish !== undefined) return this.#putTogether(record, write, finish);
    const reply = await this.#records.writeOne(write);
    switch (reply.kind) {
      case "applied":
        return STORED;
      case "unavailable":
        return reply;
      case "failed":
        return isWrittenBy(record, reply.item) ? STORED : { kind: "conflict" };
    }
  }

  /** Undefined once it is noted that a lease of this namespace ends in that hour: before the lease, so that it is found. */
  async #noteHour(dueMs: number | undefined): Promise<LeaseReply | undefined> {
    if (dueMs === undefined || this.#notedHours.has(hourOf(dueMs))) return undefined;
    const reply = await this.#hours.note(this.#namespaceId, dueMs);
    if (reply.kind === "unavailable") return { ...reply, applied: "no" };
    if (this.#notedHours.size >= NOTED_MAX) this.#notedHours.clear();
    this.#notedHours.add(hourOf(dueMs));
    return undefined;
  }

  /** The record and the answer under a key, both or neither. */
  async #putTogether(record: LeaseRecord, write: RecordWrite, finish: KeyFinish): Promise<LeaseReply> {
    try {
      const reply = await this.#records.transact([write, this.#keys.finishWrite(finish)]);
      if (reply.kind === "applied") return STORED;
      if (!reply.failed.has(0)) return { kind: "keyLost" };
      return isWrittenBy(record, await this.#records.get(this.#key(record.leaseId))) ? STORED : { kind: "conflict" };
    } catch (cause) {
      if (!(cause instanceof RateLimiterUnavailable)) throw cause;
      return { kind: "unavailable", applied: "unknown", cause };
    }
  }

  async #dueIn(slot: number, nowMs: number, limitMax: number): Promise<readonly OpenLease[]> {
    const due: OpenLease[] = [];
    const items = this.#records.query({
      ...this.#slot(slot),
      range: { name: GSI3SK, ...dueRange(nowMs) },
      pageSize: limitMax,
    });
    for await (const item of items) {
      const lease = parseOpenLease(item[GSI3SK]?.S ?? "");
      if (lease !== undefined) due.push(lease);
      if (due.length === limitMax) break;
    }
    return due;
  }

  /** Slot after slot, soonest due first in each. An index follows its table after a moment: the items themselves decide. */
  async *#open(
    filter: LeaseFilter,
    from: { readonly slot: number; readonly after: string },
  ): AsyncGenerator<ListedLease> {
    for (const slot of LEASE_SLOTS.filter((one) => one >= from.slot)) {
      const range = openRange(slot === from.slot ? from.after : "");
      const items = this.#records.query({ ...this.#slot(slot), range: { name: GSI3SK, ...range } });
      for await (const chunk of inChunks(wanted(items, filter), READ_AT_ONCE)) {
        const keys = chunk.map(({ leaseId }) => this.#key(leaseId));
        const read = await this.#records.getAll(keys, { consistent: true });
        for (const [i, { leaseId, sk }] of chunk.entries()) {
          const item = read[i];
          const record = item === undefined ? undefined : recordIn(leaseId, item);
          if (record?.status === "open") yield { record, position: { slot, sk } };
        }
      }
    }
  }

  // The index has keys only, and those of the index are what is wanted of it.
  #slot(slot: number) {
    return { index: ENTITY_INDEX, partition: [GSI3PK, leasesPk(this.#namespaceId, slot)] as const };
  }

  #key(leaseId: string) {
    return leaseKey(this.#namespaceId, leaseId);
  }

  #itemOf(record: LeaseRecord): Attributes {
    const { leaseId, entityId, resources, expiresAtMs, version, writer } = record;
    const forgetAtMs = forgottenAtMs(record);
    const resource = resources[0]?.resource ?? "";
    const dueMs = dueAtMs(record);
    return {
      [LEASE]: { S: leaseText(record) },
      [LEASE_VERSION]: { N: String(version) },
      [LEASE_WRITER]: { S: writer },
      [TTL]: { N: String(divCeil(forgetAtMs ?? expiresAtMs + UNENDED_KEPT_MS, 1000)) },
      ...(dueMs === undefined
        ? {}
        : texts(openLeaseKeys(this.#namespaceId, { leaseId, entityId, resource, expiresAtMs: dueMs }))),
    };
  }
}

interface ListedLease {
  readonly record: LeaseRecord;
  readonly position: { readonly slot: number; readonly sk: string };
}

async function* wanted(
  items: AsyncIterable<Attributes>,
  { entityId, resource }: LeaseFilter,
): AsyncGenerator<OpenLease & { readonly sk: string }> {
  for await (const item of items) {
    const sk = item[GSI3SK]?.S ?? "";
    const lease = parseOpenLease(sk);
    if (lease === undefined) continue;
    if (entityId !== undefined && lease.entityId !== entityId) continue;
    if (resource !== undefined && lease.resource !== resource) continue;
    yield { ...lease, sk };
  }
}

function recordIn(leaseId: string, item: Attributes): LeaseRecord {
  return leaseFrom(leaseId, item[LEASE]?.S ?? "");
}

/** Whether the item is what this record was written as: its answer was lost. */
function isWrittenBy({ version, writer }: LeaseRecord, item: Attributes | undefined): boolean {
  return item?.[LEASE_WRITER]?.S === writer && item[LEASE_VERSION]?.N === String(version);
}
