import type { LogRowQuery } from "../../ports/usage-store.ts";
import {
  GSI3PK,
  GSI3SK,
  GSI4PK,
  GSI4SK,
  type IndexKeys,
  inCalendar,
  type KeySpan,
  REGISTRY,
  systemPk,
  type TableKey,
} from "./schema.ts";

/** Open leases of a namespace are spread over this many partitions of the index, so that none takes all writes. */
export const LEASE_SLOTS: readonly number[] = [0, 1, 2, 3, 4, 5, 6, 7];

export function leaseKey(namespaceId: string, leaseId: string): TableKey {
  return { pk: `${namespaceId}/LEASE#${leaseId}`, sk: "#LEASE" };
}

export function idempotencyKey(namespaceId: string, key: string): TableKey {
  return { pk: `${namespaceId}/IDEMPOTENCY#${key}`, sk: "#KEY" };
}

/** The partition of one slot in the entity index, where open leases are ordered by due time. No entity has such a key. */
export function leasesPk(namespaceId: string, slot: number): string {
  return `${namespaceId}/LEASES#${slot}`;
}

export const HOUR_MS = 3_600_000;

export function hourOf(atMs: number): number {
  return Math.floor(Math.max(0, atMs) / HOUR_MS);
}

/** The partition with the hours in which leases of a namespace end. */
export function hoursPk(namespaceId: string): string {
  return `${namespaceId}/LEASES#DUE`;
}

export function hourKey(namespaceId: string, dueAtMs: number): TableKey {
  return { pk: hoursPk(namespaceId), sk: `#HOUR#${hourText(dueAtMs)}` };
}

/** The partition of the entity index with the hours of all namespaces, earliest first. No namespace has such a key. */
export function dueHoursPk(): string {
  return `${REGISTRY}/LEASES#DUE`;
}

export function hourKeys(namespaceId: string, dueAtMs: number): IndexKeys {
  return { [GSI3PK]: dueHoursPk(), [GSI3SK]: `${hourText(dueAtMs)}#${namespaceId}` };
}

/** The range of sort keys of hours that have begun at an instant. */
export function dueHoursRange(untilMs: number): KeySpan {
  return { from: "0", to: `${hourText(untilMs)}$` };
}

/** Parses the sort key of `hourKeys`; undefined for another kind of item. */
export function parseDueHour(sk: string): { readonly hour: number; readonly namespaceId: string } | undefined {
  const [, hour, namespaceId] = /^(\d{10})#(.+)$/.exec(sk) ?? [];
  return hour === undefined || namespaceId === undefined ? undefined : { hour: Number(hour), namespaceId };
}

function hourText(atMs: number): string {
  return String(hourOf(atMs)).padStart(10, "0");
}

/** The fields of an open lease's index key. */
export interface OpenLease {
  readonly leaseId: string;
  readonly entityId: string;
  readonly resource: string;
  readonly expiresAtMs: number;
}

export function openLeaseKeys(namespaceId: string, lease: OpenLease): IndexKeys {
  return { [GSI3PK]: leasesPk(namespaceId, slotOf(lease.leaseId)), [GSI3SK]: openLeaseSk(lease) };
}

/** Ordered by end: zero-padded digits sort as the numbers do. */
function openLeaseSk({ leaseId, entityId, resource, expiresAtMs }: OpenLease): string {
  return `${instantText(expiresAtMs)}#${entityId}#${resource}#${leaseId}`;
}

/** The range of sort keys up to an instant, both ends included. */
export function dueRange(nowMs: number): KeySpan {
  // `$` follows `#`.
  return { from: "0", to: `${instantText(nowMs)}$` };
}

/** The range of all sort keys after one. */
export function openRange(after: string): KeySpan {
  return { from: `${after} `, to: "~" };
}

/** Parses the sort key of `openLeaseKeys`; undefined for another kind of item. */
export function parseOpenLease(sk: string): OpenLease | undefined {
  const match = /^(\d{15})#([^#]+)#(.+)#([^#]+)$/.exec(sk);
  if (match === null) return undefined;
  const [, expiresAt, entityId, resource, leaseId] = match as unknown as [string, string, string, string, string];
  return { leaseId, entityId, resource, expiresAtMs: Number(expiresAt) };
}

function instantText(atMs: number): string {
  return String(Math.max(0, atMs)).padStart(15, "0");
}

function slotOf(leaseId: string): number {
  let sum = 0;
  for (let i = 0; i < leaseId.length; i++) sum += leaseId.charCodeAt(i);
  return sum % LEASE_SLOTS.length;
}

/** Each process counts in rows of its own, by hour: refused requests, and usage of callers that no bucket counts. */
export type BookName = "REFUSED" | "CALLED";

/** The rows of a book of a namespace are spread over this many partitions, so that none takes all writes. */
export const BOOK_SLOTS: readonly number[] = [0, 1, 2, 3, 4, 5, 6, 7];

/** Identifies a row. */
export interface BookRowName {
  readonly hourMs: number;
  readonly entityId: string;
  readonly resource: string;
  readonly id: string;
}

/** The right to count refusals is one to write below `REFUSED#`: it covers what callers used, so that roles that are given out stay as they are. */
export function bookPk(book: BookName, namespaceId: string, slot: number): string {
  return `${namespaceId}/REFUSED#${book === "REFUSED" ? "" : `${book}#`}${slot}`;
}

/** Rows of a slot are ordered by hour, entity and resource: `#` sorts before every character of their names. */
export function bookKey(book: BookName, namespaceId: string, row: BookRowName): TableKey {
  return {
    pk: bookPk(book, namespaceId, bookSlot(row.entityId)),
    sk: `${bookHourText(row.hourMs)}#${row.entityId}#${row.resource}#${row.id}`,
  };
}

/** The index of the namespace is ordered by entity, so that its rows are found when it is deleted. */
export function bookIndexKeys(book: BookName, namespaceId: string, row: BookRowName): IndexKeys {
  const { hourMs, entityId, resource, id } = row;
  return {
    [GSI4PK]: namespaceId,
    [GSI4SK]: `${bookPrefix(book, entityId)}${bookHourText(hourMs)}#${resource}#${id}`,
  };
}

/** The prefix of an entity's rows in the index of the namespace. */
export function bookPrefix(book: BookName, entityId: string): string {
  return `${book}#${entityId}#`;
}

/** The range of sort keys from one hour to before another, both ends included; from a bucket on, if one is given. */
export function bookRange(from: Omit<BookRowName, "id">, toMs: number): KeySpan {
  const begin = bookHourText(from.hourMs);
  return {
    from: from.entityId === "" ? begin : `${begin}#${from.entityId}#${from.resource}#`,
    // No key consists of the hour alone.
    to: bookHourText(toMs),
  };
}

/** Identifies a row of the refusal log. */
interface LogRowName {
  readonly hourMs: number;
  readonly entityId: string;
  readonly id: string;
}

/** The right to count refusals is one to write below `REFUSED#`: it covers single ones. */
export function refusalLogPk(namespaceId: string, slot: number): string {
  return `${namespaceId}/REFUSED#LOG#${slot}`;
}

export function refusalLogKey(namespaceId: string, { hourMs, entityId, id }: LogRowName): TableKey {
  const sk = `${bookHourText(hourMs)}#${entityId}#${id}`;
  return { pk: refusalLogPk(namespaceId, bookSlot(entityId)), sk };
}

/** Among the rows of an entity in the index of the namespace, behind its counts: no hour begins with a letter. */
export function refusalLogIndexKeys(namespaceId: string, { hourMs, entityId, id }: LogRowName): IndexKeys {
  return { [GSI4PK]: namespaceId, [GSI4SK]: `${bookPrefix("REFUSED", entityId)}LOG#${bookHourText(hourMs)}#${id}` };
}

/** The sort keys of rows of hours in [fromMs, toMs), in a partition or in the index of an entity. `last`: up to that row, it included. */
export function refusalLogRange({ fromMs, toMs, entityId }: LogRowQuery, last: LogRowName | undefined): KeySpan {
  const prefix = entityId === undefined ? "" : `${bookPrefix("REFUSED", entityId)}LOG#`;
  const lastSk = (row: LogRowName) =>
    entityId === undefined ? refusalLogKey("", row).sk : (refusalLogIndexKeys("", row)[GSI4SK] as string);
  // No key consists of the hour alone.
  const to = last === undefined ? prefix + bookHourText(toMs) : lastSk(last);
  return { from: prefix + bookHourText(fromMs), to };
}

/** Parses the sort key of `refusalLogKey`; undefined for another kind of item. */
export function parseRefusalLogSk(sk: string): LogRowName | undefined {
  const match = /^(\d{4}-\d\d-\d\dT\d\d)#([^#]+)#([^#]+)$/.exec(sk);
  if (match === null) return undefined;
  const [, hour, entityId, id] = match as unknown as [string, string, string, string];
  return { hourMs: Date.parse(`${hour}:00:00Z`), entityId, id };
}

/** Parses the sort key of `bookKey`; undefined for another kind of item. */
export function parseBookSk(sk: string): BookRowName | undefined {
  const match = /^(\d{4}-\d\d-\d\dT\d\d)#([^#]+)#([^#]+)#([^#]+)$/.exec(sk);
  if (match === null) return undefined;
  const [, hour, entityId, resource, id] = match as unknown as [string, string, string, string, string];
  return { hourMs: Date.parse(`${hour}:00:00Z`), entityId, resource, id };
}

export function bookSlot(entityId: string): number {
  let sum = 0;
  for (let i = 0; i < entityId.length; i++) sum = (sum * 31 + entityId.charCodeAt(i)) % 65_521;
  return sum % BOOK_SLOTS.length;
}

/** `2026-06-01T12`: these texts sort in the order of the hours. */
function bookHourText(atMs: number): string {
  return new Date(inCalendar(atMs)).toISOString().slice(0, 13);
}

// Keys of the aggregator's own records, in the partition of the registry.

/** Checkpoints of one stream: how far each shard was read, and by which runner. */
export function streamPrefix(label: string): string {
  return `#STREAM#${label}#`;
}

export function streamShardKey(label: string, shardId: string): TableKey {
  return { pk: systemPk(REGISTRY), sk: `${streamPrefix(label)}${shardId}` };
}

/** Runners that follow a stream. */
export function runnerPrefix(label: string): string {
  return `#RUNNER#${label}#`;
}

export function runnerKey(label: string, runner: string): TableKey {
  return { pk: systemPk(REGISTRY), sk: `${runnerPrefix(label)}${runner}` };
}

/** The position of the sweep over all namespaces. */
export function sweepKey(): TableKey {
  return { pk: systemPk(REGISTRY), sk: "#SWEEP" };
}

/** True for records that a runner writes while it follows the stream: their changes come back in the stream. */
export function isRunnerItem({ pk, sk }: TableKey): boolean {
  return pk === systemPk(REGISTRY) && (sk.startsWith("#STREAM#") || sk.startsWith("#RUNNER#"));
}
