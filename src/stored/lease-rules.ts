import { dueAtMs, forgottenAtMs, LEASE_REMEMBERED_MS, type LeaseRecord } from "../domain/lease/lease-record.ts";
import type { ChangeReply, LeaseChange } from "../ports/lease-change.ts";
import type { KeyBegin, KeyRecord, LeaseReply } from "../ports/lease-store.ts";
import type { KeyFinish, KeyMark } from "../ports/lease-write.ts";

/** Of a stored lease, what says whether a write may replace it. */
export type LeaseVersion = Pick<LeaseRecord, "version" | "writer">;

/** A key as it is stored. */
export interface StoredKey extends KeyRecord {
  /** From then on it is as if it had never been used, unless its work is under way. */
  readonly forgottenAtMs: number;
}

export const STORED: LeaseReply = { kind: "stored" };

const CONFLICT = { kind: "conflict" } as const;
const KEY_LOST = { kind: "keyLost" } as const;

/**
 * The answer to a new record, or `write` where it is to be written. `known`: what is stored under its id.
 * A repeat of a write that was applied unseen is known by its writer.
 */
export function onCreate(
  known: LeaseVersion | undefined,
  record: LeaseVersion | undefined,
  isKeyOurs: () => boolean,
): LeaseReply | "write" {
  if (known !== undefined) return known.writer === record?.writer ? STORED : CONFLICT;
  return isKeyOurs() ? "write" : KEY_LOST;
}

/** The answer to the next version of a record, or `write` where it is to be written. */
export function onMove(
  known: LeaseVersion | undefined,
  next: Pick<LeaseRecord, "version" | "writer" | "owed">,
  isKeyOurs: () => boolean,
): LeaseReply | "write" {
  const isOwn = known?.version === next.version && known.writer === next.writer;
  // One that owes something says afterwards what it owes.
  if (isOwn && next.owed === undefined) return STORED;
  if (!isOwn && known?.version !== next.version - 1) return CONFLICT;
  return isKeyOurs() ? "write" : KEY_LOST;
}

/** The answer to a change of a lease with its buckets, or `write` where it is to be made. */
export function onChange(
  known: LeaseVersion | undefined,
  { version, writer }: Pick<LeaseChange, "version" | "writer">,
  isKeyOurs: () => boolean,
): Extract<ChangeReply, { readonly kind: "repeated" | "conflict" | "keyLost" }> | "write" {
  if (known?.version === version + 1 && known.writer === writer) return { kind: "repeated" };
  if (known?.version !== version) return CONFLICT;
  return isKeyOurs() ? "write" : KEY_LOST;
}

/** Whether the work under a key is still the caller's. Also when the same answer is there already: then this is a repeat. */
export function isOurs(
  known: Pick<KeyRecord, "mark" | "answer"> | undefined,
  mark: KeyMark & { readonly answer?: string },
): boolean {
  return known?.mark === mark.mark && (known.answer === undefined || known.answer === mark.answer);
}

/** Whether a key is still somebody's: answered and remembered, or under way. */
export function isTaken({ answer, untilMs, forgottenAtMs: endMs }: StoredKey, nowMs: number): boolean {
  return nowMs < (answer === undefined ? untilMs : endMs);
}

/** A key whose work begins. */
export function begunKey({ key, mark, fingerprint, nowMs, untilMs }: KeyBegin): StoredKey {
  return { key, mark, fingerprint, answer: undefined, untilMs, forgottenAtMs: nowMs + LEASE_REMEMBERED_MS };
}

/** What finishing changes of a key. */
export function finishedKey({
  answer,
  nowMs,
}: KeyFinish): Pick<StoredKey, "forgottenAtMs"> & { readonly answer: string } {
  return { answer, forgottenAtMs: nowMs + LEASE_REMEMBERED_MS };
}

/** What a lease is found by beside its id: columns, where a database has them. */
interface LeaseColumns extends LeaseVersion {
  readonly entityId: string;
  /** That of the request. */
  readonly resource: string;
  /** When somebody has to look after it; undefined: never again. */
  readonly dueAtMs: number | undefined;
  /** When it is deleted; undefined: not yet known. */
  readonly forgottenAtMs: number | undefined;
}

export function columnsOf(record: LeaseRecord): LeaseColumns {
  const { entityId, resources, version, writer } = record;
  const resource = resources[0]?.resource ?? "";
  return { entityId, resource, version, writer, dueAtMs: dueAtMs(record), forgottenAtMs: forgottenAtMs(record) };
}
