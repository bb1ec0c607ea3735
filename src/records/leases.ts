import type { LeaseRecord } from "../domain/lease/lease-record.ts";
import { leaseFrom, leaseText } from "../domain/lease/stored-lease.ts";
import { RateLimiterUnavailable } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import type { KeyFinish, KeyMark, LeaseWrite } from "../ports/bucket-store.ts";
import type { LeaseReply, LeaseStore } from "../ports/lease-store.ts";
import type { RecordKey, RecordPut, StoredRecord } from "../ports/record-store.ts";
import { numberAfter } from "../stored/cursor.ts";
import {
  beginKey,
  columnsOf,
  createLease,
  type LeaseDecision,
  moveLease,
  openPage,
  releaseKey,
  renewKey,
  type StoredKey,
} from "../stored/lease-rules.ts";
import { leaseKey, markKey, objectIn, textOf } from "./bodies.ts";
import { CommitUnavailable, type Decision, type ScopedRecords } from "./scoped-records.ts";

/** The leases that the takes of a store write. */
export interface LeasesByTakes {
  readonly isWrittenByTake: boolean;
  /** Reads what a take has written in place of a record, or of an answer; undefined: it was not written by a take. */
  readonly writeOf: (body: unknown) => LeaseWrite | undefined;
}

/** Leases of one namespace, and the keys they were asked with: each write on condition of the versions that it was decided by. */
export function leasesOn(records: ScopedRecords, { isWrittenByTake, writeOf }: LeasesByTakes): LeaseStore {
  const leaseOf = (leaseId: string, record: RecordKey & { readonly body: unknown }): LeaseRecord =>
    writeOf(record.body)?.record ?? leaseFrom(leaseId, textOf(record) as string);
  const keyOf = (record: StoredRecord): StoredKey => {
    const { drafted, ...key } = objectIn<Omit<StoredKey, "key" | "answer"> & KeyAnswer>(record);
    const answer = drafted === undefined ? key.answer : writeOf(drafted)?.finish?.answer;
    return { ...key, key: record.key[0] as string, answer };
  };
  const onKey = async <Reply>(
    { key }: KeyMark,
    decide: (known: StoredKey | undefined) => LeaseDecision<Reply>,
  ): Promise<Reply> =>
    records.write([markKey(key)], "anywhere", ([record]) => decisionOf(decide(record && keyOf(record))));
  const write = async (
    leaseId: string | undefined,
    finish: KeyFinish | undefined,
    decide: (known: LeaseRecord | undefined, key: StoredKey | undefined) => LeaseDecision<LeaseReply>,
  ): Promise<LeaseReply> => {
    const keys: readonly RecordKey[] = [
      ...(leaseId === undefined ? [] : [leaseKey(leaseId)]),
      ...(finish === undefined ? [] : [markKey(finish.key)]),
    ];
    try {
      return await records.write(keys, "anywhere", (found) => {
        const lease = leaseId === undefined ? undefined : found[0];
        const key = finish === undefined ? undefined : found.at(-1);
        return decisionOf(decide(lease && leaseOf(leaseId as string, lease), key && keyOf(key)));
      });
    } catch (error) {
      if (!(error instanceof RateLimiterUnavailable)) throw error;
      // A read that failed has written nothing.
      const applied = error instanceof CommitUnavailable ? error.applied : "no";
      return { kind: "unavailable", applied, cause: error.cause ?? error };
    }
  };
  return {
    isWrittenByTake,
    create: (made) => write(made.record?.leaseId, made.finish, (known, key) => createLease(made, known, key)),
    get: async (leaseId) => records.one(leaseKey(leaseId), (record) => leaseOf(leaseId, record)),
    move: (next, finish) => write(next.leaseId, finish, (known, key) => moveLease(next, finish, known, key)),
    listOpen: async ({ entityId, resource }, { limit, cursor }) => {
      const list = { kind: "lease", of: "due", ...given({ entityId, resource }) } as const;
      const found = await records.list(list, numberAfter(cursor, 2), limit + 1);
      const leases = found.map(({ key, body }) => leaseOf(key[0] as string, { kind: "lease", key, body }));
      return openPage(leases, limit);
    },
    findDue: async (nowMs, limitMax) => {
      const found = await records.list({ kind: "lease", of: "due", untilMs: nowMs }, undefined, limitMax);
      return found.map(({ place }) => ({ leaseId: place[1] as string, dueAtMs: Number(place[0]) }));
    },
    beginKey: (begin) => onKey(begin, (known) => beginKey(begin, known)),
    renewKey: (mark, { untilMs }) => onKey(mark, (known) => renewKey(mark, untilMs, known)),
    releaseKey: (mark) => onKey(mark, (known) => releaseKey(mark, known)),
  };
}

function decisionOf<Reply>({ reply, lease, key, oldKey }: LeaseDecision<Reply>): Decision<Reply> {
  if (lease === undefined && key === undefined && oldKey === undefined) return { reply };
  const puts = [...(lease === undefined ? [] : [leasePut(lease)]), ...(key === undefined ? [] : [keyPut(key)])];
  return { reply, write: { puts, deletes: oldKey === undefined ? [] : [markKey(oldKey)] } };
}

function leasePut(record: LeaseRecord): RecordPut {
  const { version: _, writer: __, ...by } = columnsOf(record);
  return { kind: "lease", key: [record.leaseId], by, body: leaseText(record) };
}

function keyPut({ key, forgottenAtMs, mark, fingerprint, answer, untilMs }: StoredKey): RecordPut {
  const body = { mark, fingerprint, answer, untilMs, forgottenAtMs };
  return { kind: "leaseKey", key: [key], by: { forgottenAtMs }, body };
}

/** `drafted`: in place of the answer, where a take has written it. */
interface KeyAnswer {
  readonly answer?: string;
  readonly drafted?: unknown;
}
