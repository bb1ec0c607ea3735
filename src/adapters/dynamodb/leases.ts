import { divCeil } from "../../bucket/integers.ts";
import { dueAtMs, forgottenAtMs, LEASE_REMEMBERED_MS, type LeaseRecord } from "../../domain/lease/lease-record.ts";
import { leaseFrom, leaseText } from "../../domain/lease/stored-lease.ts";
import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { KeyFinish, KeyMark, LeaseWrite } from "../../ports/bucket-store.ts";
import type { BeginReply, DueLease, KeyBegin, LeaseFilter, LeaseReply, LeaseStore } from "../../ports/lease-store.ts";
import { type Attributes, decodeNumber } from "./codec.ts";
import { noteHour } from "./lease-hours.ts";
import { cursorOf, pageOf, placeAfter } from "./paging.ts";
import { entityIndex, type KeyRange, type RecordQuery, type Records, type WriteOnceReply } from "./records.ts";
import {
  all,
  any,
  type Condition,
  deleteRecord,
  isStill,
  missing,
  putRecord,
  type RecordWrite,
  texts,
  updateRecord,
} from "./records-write.ts";
import {
  GSI3SK,
  KEY_ANSWER,
  KEY_FINGERPRINT,
  KEY_FORGOTTEN,
  KEY_MARK,
  KEY_UNTIL,
  LEASE,
  LEASE_VERSION,
  LEASE_WRITER,
  TTL,
} from "./schema.ts";
import {
  dueRange,
  hourOf,
  idempotencyKey,
  LEASE_SLOTS,
  leaseKey,
  leasesPk,
  type OpenLease,
  openLeaseKeys,
  openRange,
  parseOpenLease,
} from "./schema-leases.ts";

const STORED: LeaseReply = { kind: "stored" };

/** An open lease whose end is never written is kept this long, so that a restarted service can give it back. */
const UNENDED_KEPT_MS = 7 * 24 * 3_600_000;

const READ_AT_ONCE = 100;

/** More than a month of hours; leases are shorter. */
const NOTED_MAX = 1_000;

/**
 * Leases and idempotency keys of one namespace: one item for each. A lease is replaced on condition of its version. While
 * it is open it is indexed by the instant of its end, in one of a few slots: due leases are found by one query per slot.
 * TTL deletes the items.
 */
export class DynamoLeases implements LeaseStore {
  readonly isWrittenByTake = false;
  readonly #records: Records;
  readonly #namespaceId: string;
  /** Hours that this process has noted. Only the first lease of an hour costs a write. */
  readonly #notedHours = new Set<number>();

  constructor(records: Records, namespaceId: string) {
    this.#records = records;
    this.#namespaceId = namespaceId;
  }

  async create({ record, finish }: LeaseWrite): Promise<LeaseReply> {
    if (record === undefined) return finish === undefined ? STORED : this.#finishKey(finish);
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

  async beginKey({ key, mark, fingerprint, nowMs, untilMs }: KeyBegin): Promise<BeginReply> {
    const free = any(
      missing,
      all(isStill(KEY_ANSWER, undefined), notAfter(KEY_UNTIL, nowMs)),
      notAfter(KEY_FORGOTTEN, nowMs),
    );
    const item = {
      [KEY_MARK]: { S: mark },
      [KEY_FINGERPRINT]: { S: fingerprint },
      [KEY_UNTIL]: { N: String(untilMs) },
      ...rememberedFrom(nowMs),
    };
    const reply = required(await this.#records.writeOne(putRecord(this.#markKey(key), item, free)));
    // With our mark, an earlier attempt was applied and its answer was lost.
    if (reply.kind === "applied" || reply.item?.[KEY_MARK]?.S === mark) return { kind: "begun" };
    const known = reply.item ?? {};
    return {
      kind: "known",
      record: {
        key,
        mark: known[KEY_MARK]?.S ?? "",
        fingerprint: known[KEY_FINGERPRINT]?.S ?? "",
        answer: known[KEY_ANSWER]?.S,
        untilMs: decodeNumber(known[KEY_UNTIL]?.N ?? "0", KEY_UNTIL),
      },
    };
  }

  async renewKey({ key, mark }: KeyMark, { untilMs }: { readonly untilMs: number }): Promise<boolean> {
    const change = { set: { [KEY_UNTIL]: { N: String(untilMs) } } };
    const renewal = updateRecord(this.#markKey(key), change, isUnderWay(mark));
    return required(await this.#records.writeOne(renewal)).kind === "applied";
  }

  async releaseKey({ key, mark }: KeyMark): Promise<void> {
    required(await this.#records.writeOne(deleteRecord(this.#markKey(key), isUnderWay(mark))));
  }

  async #finishKey(finish: KeyFinish): Promise<LeaseReply> {
    const reply = await this.#records.writeOne(this.#finishWrite(finish));
    if (reply.kind === "unavailable") return reply;
    return reply.kind === "applied" ? STORED : { kind: "keyLost" };
  }

  /** Writes the answer; the same answer may be there already, from a repeat. */
  #finishWrite({ key, mark, answer, nowMs }: KeyFinish): RecordWrite {
    const set: Attributes = { [KEY_ANSWER]: { S: answer }, ...rememberedFrom(nowMs) };
    const isUnanswered = any(isStill(KEY_ANSWER, undefined), isStill(KEY_ANSWER, { S: answer }));
    return updateRecord(this.#markKey(key), { set }, all(isStill(KEY_MARK, { S: mark }), isUnanswered));
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

  /**
   * Records that a lease of this namespace ends in that hour, before the lease is written, so that it is found.
   * Undefined: done.
   */
  async #noteHour(dueMs: number | undefined): Promise<LeaseReply | undefined> {
    if (dueMs === undefined || this.#notedHours.has(hourOf(dueMs))) return undefined;
    const reply = await noteHour(this.#records, this.#namespaceId, dueMs);
    if (reply.kind === "unavailable") return { ...reply, applied: "no" };
    if (this.#notedHours.size >= NOTED_MAX) this.#notedHours.clear();
    this.#notedHours.add(hourOf(dueMs));
    return undefined;
  }

  /** Writes the record and the answer under a key in one transaction. */
  async #putTogether(record: LeaseRecord, write: RecordWrite, finish: KeyFinish): Promise<LeaseReply> {
    try {
      const reply = await this.#records.transact([write, this.#finishWrite(finish)]);
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
    const items = this.#records.query({ ...this.#slot(slot, dueRange(nowMs)), pageSize: limitMax });
    for await (const item of items) {
      const lease = parseOpenLease(item[GSI3SK]?.S ?? "");
      if (lease !== undefined) due.push(lease);
      if (due.length === limitMax) break;
    }
    return due;
  }

  /** Reads slot after slot, soonest due first in each. The index lags behind the table, so the items themselves decide. */
  async *#open(
    filter: LeaseFilter,
    from: { readonly slot: number; readonly after: string },
  ): AsyncGenerator<ListedLease> {
    for (const slot of LEASE_SLOTS.filter((one) => one >= from.slot)) {
      const range = openRange(slot === from.slot ? from.after : "");
      const items = this.#records.query(this.#slot(slot, range));
      const keyOf = ({ leaseId }: OpenLease) => this.#key(leaseId);
      for await (const [{ leaseId, sk }, item] of this.#records.lookUp(wanted(items, filter), READ_AT_ONCE, keyOf)) {
        const record = item && recordIn(leaseId, item);
        if (record?.status === "open") yield { record, position: { slot, sk } };
      }
    }
  }

  // The index projects keys only, and its own keys are all that is needed.
  #slot(slot: number, range: KeyRange): RecordQuery {
    return entityIndex(leasesPk(this.#namespaceId, slot), range);
  }

  #key(leaseId: string) {
    return leaseKey(this.#namespaceId, leaseId);
  }

  #markKey(key: string) {
    return idempotencyKey(this.#namespaceId, key);
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

function rememberedFrom(nowMs: number): Attributes {
  const forgottenMs = nowMs + LEASE_REMEMBERED_MS;
  return { [KEY_FORGOTTEN]: { N: String(forgottenMs) }, [TTL]: { N: String(divCeil(forgottenMs, 1000)) } };
}

function isUnderWay(mark: string): Condition {
  return all(isStill(KEY_MARK, { S: mark }), isStill(KEY_ANSWER, undefined));
}

function notAfter(name: string, nowMs: number): Condition {
  return (e) => `${e.name(name)} <= ${e.value({ N: String(nowMs) })}`;
}

/** Throws if the write is unavailable. */
function required(reply: WriteOnceReply): Exclude<WriteOnceReply, { kind: "unavailable" }> {
  if (reply.kind !== "unavailable") return reply;
  if (reply.cause instanceof RateLimiterUnavailable) throw reply.cause;
  throw new RateLimiterUnavailable("The table did not respond in time.", { cause: reply.cause });
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

/** True if an earlier attempt wrote this record and its answer was lost. */
function isWrittenBy({ version, writer }: LeaseRecord, item: Attributes | undefined): boolean {
  return item?.[LEASE_WRITER]?.S === writer && item[LEASE_VERSION]?.N === String(version);
}
