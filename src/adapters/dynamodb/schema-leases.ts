import { GSI3PK, GSI3SK, REGISTRY, type TableKey } from "./schema.ts";

// Keys of stored leases and idempotency keys: items of ours that the original does not read.

/** Open leases of a namespace stand in so many partitions of the index, so that none of them takes all writes. */
export const LEASE_SLOTS: readonly number[] = [0, 1, 2, 3, 4, 5, 6, 7];

export function leaseKey(namespaceId: string, leaseId: string): TableKey {
  return { pk: `${namespaceId}/LEASE#${leaseId}`, sk: "#LEASE" };
}

export function idempotencyKey(namespaceId: string, key: string): TableKey {
  return { pk: `${namespaceId}/IDEMPOTENCY#${key}`, sk: "#KEY" };
}

/** In the entity index, under keys that no entity has: the open leases of one slot, soonest due first. */
export function leasesPk(namespaceId: string, slot: number): string {
  return `${namespaceId}/LEASES#${slot}`;
}

export const HOUR_MS = 3_600_000;

export function hourOf(atMs: number): number {
  return Math.floor(Math.max(0, atMs) / HOUR_MS);
}

/** The partition of a namespace with its notes of hours in which leases end. */
export function hoursPk(namespaceId: string): string {
  return `${namespaceId}/LEASES#DUE`;
}

export function hourKey(namespaceId: string, dueAtMs: number): TableKey {
  return { pk: hoursPk(namespaceId), sk: `#HOUR#${hourText(dueAtMs)}` };
}

/** In the entity index, under a key that no namespace has: the hours of all namespaces, the earliest first. */
export function dueHoursPk(): string {
  return `${REGISTRY}/LEASES#DUE`;
}

export function hourKeys(namespaceId: string, dueAtMs: number): Readonly<Record<string, string>> {
  return { [GSI3PK]: dueHoursPk(), [GSI3SK]: `${hourText(dueAtMs)}#${namespaceId}` };
}

/** Sort keys of hours that have begun at an instant. */
export function dueHoursRange(untilMs: number): { readonly from: string; readonly to: string } {
  return { from: "0", to: `${hourText(untilMs)}$` };
}

/** The other half of `hourKeys`. Undefined where it is something else's. */
export function parseDueHour(sk: string): { readonly hour: number; readonly namespaceId: string } | undefined {
  const [, hour, namespaceId] = /^(\d{10})#(.+)$/.exec(sk) ?? [];
  return hour === undefined || namespaceId === undefined ? undefined : { hour: Number(hour), namespaceId };
}

function hourText(atMs: number): string {
  return String(hourOf(atMs)).padStart(10, "0");
}

/** What an open lease is found by. */
export interface OpenLease {
  readonly leaseId: string;
  readonly entityId: string;
  readonly resource: string;
  readonly expiresAtMs: number;
}

export function openLeaseKeys(namespaceId: string, lease: OpenLease): Readonly<Record<string, string>> {
  return { [GSI3PK]: leasesPk(namespaceId, slotOf(lease.leaseId)), [GSI3SK]: openLeaseSk(lease) };
}

/** By the minute and then by the millisecond of the end: digits of a fixed number sort as the numbers do. */
function openLeaseSk({ leaseId, entityId, resource, expiresAtMs }: OpenLease): string {
  return `${instantText(expiresAtMs)}#${entityId}#${resource}#${leaseId}`;
}

/** Sort keys up to an instant, both ends included. */
export function dueRange(nowMs: number): { readonly from: string; readonly to: string } {
  // `$` follows `#`.
  return { from: "0", to: `${instantText(nowMs)}$` };
}

/** All sort keys after one. */
export function openRange(after: string): { readonly from: string; readonly to: string } {
  return { from: `${after} `, to: "~" };
}

/** The other half of `openLeaseKeys`. Undefined where it is something else's. */
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
