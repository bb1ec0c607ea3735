import { dueAtMs, forgottenAtMs, LEASE_REMEMBERED_MS, type LeaseRecord } from "../domain/lease/lease-record.ts";
import { given } from "../domain/names/given.ts";
import type { Page } from "../domain/names/paging.ts";
import type { KeyFinish, KeyMark, LeaseWrite } from "../ports/bucket-store.ts";
import type { BeginReply, ChangeReply, KeyBegin, KeyRecord, LeaseChange, LeaseReply } from "../ports/lease-store.ts";
import { keyCursor, pageOf } from "./cursor.ts";

/** A write may replace a stored lease by its version and its writer. */
export type LeaseVersion = Pick<LeaseRecord, "version" | "writer">;

/** A key as it is stored. */
export interface StoredKey extends KeyRecord {
  /** From then on it is as if it had never been used, unless its work is under way. */
  readonly forgottenAtMs: number;
}

/** A reply, and what is to be written for it. */
export interface LeaseDecision<Reply> {
  readonly reply: Reply;
  readonly lease?: LeaseRecord;
  readonly key?: StoredKey;
  /** This key is to be deleted. */
  readonly oldKey?: string;
}

const STORED: LeaseReply = { kind: "stored" };
const CONFLICT = { kind: "conflict" } as const;
const KEY_LOST = { kind: "keyLost" } as const;

/**
 * A new record, the answer under a key, or both. `known` and `key` are what is stored under the ids of the two. A repeat of a write that was
 * applied unseen is known by its writer.
 */
export function createLease(
  { record, finish }: LeaseWrite,
  known: LeaseVersion | undefined,
  key: StoredKey | undefined,
): LeaseDecision<LeaseReply> {
  if (known !== undefined) return { reply: known.writer === record?.writer ? STORED : CONFLICT };
  return isKeyOurs(key, finish) ? { reply: STORED, ...writesOf(record, finish, key) } : { reply: KEY_LOST };
}

/** The next version of a record, and perhaps the answer under a key. */
export function moveLease(
  next: LeaseRecord,
  finish: KeyFinish | undefined,
  known: LeaseVersion | undefined,
  key: StoredKey | undefined,
): LeaseDecision<LeaseReply> {
  const isOwn = known?.version === next.version && known.writer === next.writer;
  // A lease that owes something says afterwards what it owes.
  if (isOwn && next.owed === undefined) return { reply: STORED };
  if (!isOwn && known?.version !== next.version - 1) return { reply: CONFLICT };
  return isKeyOurs(key, finish) ? { reply: STORED, ...writesOf(next, finish, key) } : { reply: KEY_LOST };
}

/** The answer to a change of a lease with its buckets, or `write` where it is to be made. */
export function onChange(
  known: LeaseVersion | undefined,
  { version, writer, key: mark }: Pick<LeaseChange, "version" | "writer" | "key">,
  key: StoredKey | undefined,
): Extract<ChangeReply, { readonly kind: "repeated" | "conflict" | "keyLost" }> | "write" {
  if (known?.version === version + 1 && known.writer === writer) return { kind: "repeated" };
  if (known?.version !== version) return CONFLICT;
  return isKeyOurs(key, mark) ? "write" : KEY_LOST;
}

/** Takes a key that is new, forgotten, or whose work has died. */
export function beginKey(begin: KeyBegin, known: StoredKey | undefined): LeaseDecision<BeginReply> {
  const { key, mark, fingerprint, nowMs, untilMs } = begin;
  // A beginning whose answer was lost finds its own mark.
  const isOwn: boolean = isUnderWay(known, begin);
  if (known !== undefined && !isOwn && isTaken(known, nowMs)) {
    const { forgottenAtMs: _, ...record } = known;
    return { reply: { kind: "known", record } };
  }
  const begun = { key, mark, fingerprint, answer: undefined, untilMs, forgottenAtMs: nowMs + LEASE_REMEMBERED_MS };
  return { reply: { kind: "begun" }, key: begun };
}

/** Answers whether the key is still the caller's. */
export function renewKey(mark: KeyMark, untilMs: number, known: StoredKey | undefined): LeaseDecision<boolean> {
  return isUnderWay(known, mark) ? { reply: true, key: { ...known, untilMs } } : { reply: false };
}

export function releaseKey(mark: KeyMark, known: StoredKey | undefined): LeaseDecision<void> {
  return isUnderWay(known, mark) ? { reply: undefined, oldKey: mark.key } : { reply: undefined };
}

/** The caller's own key, or none. Also a key with the same answer already: the write is a repeat then. */
export function isKeyOurs(
  known: Pick<KeyRecord, "mark" | "answer"> | undefined,
  mark: (KeyMark & { readonly answer?: string }) | undefined,
): boolean {
  if (mark === undefined) return true;
  return known?.mark === mark.mark && (known.answer === undefined || known.answer === mark.answer);
}

/** The writes of a lease, and of the key that is answered with it. */
export function writesOf(
  lease: LeaseRecord | undefined,
  finish: KeyFinish | undefined,
  key: StoredKey | undefined,
): Pick<LeaseDecision<never>, "lease" | "key"> {
  const answered = key &&
    finish && { ...key, answer: finish.answer, forgottenAtMs: finish.nowMs + LEASE_REMEMBERED_MS };
  return given({ lease, key: answered });
}

function isUnderWay(known: StoredKey | undefined, { mark }: KeyMark): known is StoredKey {
  return known?.mark === mark && known.answer === undefined;
}

/** A key is taken while its work is under way, or its answer remembered. */
function isTaken({ answer, untilMs, forgottenAtMs: endMs }: StoredKey, nowMs: number): boolean {
  return nowMs < (answer === undefined ? untilMs : endMs);
}

/** A lease is found by these beside its id: columns, where a database has them. */
interface LeaseColumns extends LeaseVersion {
  readonly entityId: string;
  /** That of the request. */
  readonly resource: string;
  /** When it has to be looked after; undefined: never again. */
  readonly dueAtMs: number | undefined;
  /** When it is deleted; undefined: not yet known. */
  readonly forgottenAtMs: number | undefined;
}

export function columnsOf(record: LeaseRecord): LeaseColumns {
  const { entityId, resources, version, writer } = record;
  const resource = resources[0]?.resource ?? "";
  return { entityId, resource, version, writer, dueAtMs: dueAtMs(record), forgottenAtMs: forgottenAtMs(record) };
}

/** A page of open leases, of up to one more than fit that are due some day: closed ones that owe something are among them. */
export function openPage(due: readonly LeaseRecord[], limit: number): Page<LeaseRecord> {
  const page = pageOf(due, limit, (one) => keyCursor(String(dueAtMs(one)), one.leaseId));
  return { ...page, items: page.items.filter(({ status }) => status === "open") };
}
