import { GSI4PK, GSI4SK, type TableKey } from "./schema.ts";

// Keys of counted refusals: items of ours that the original does not read.

/** The refusals of a namespace stand in so many partitions, so that none of them takes all writes. */
export const REFUSAL_SLOTS: readonly number[] = [0, 1, 2, 3, 4, 5, 6, 7];

/** Which row it is. */
export interface RefusalRowName {
  readonly hourMs: number;
  readonly entityId: string;
  readonly resource: string;
  readonly id: string;
}

export function refusalsPk(namespaceId: string, slot: number): string {
  return `${namespaceId}/REFUSED#${slot}`;
}

/** Within a slot by hour, then by entity and resource: `#` sorts before every character of their names. */
export function refusalKey(namespaceId: string, row: RefusalRowName): TableKey {
  return {
    pk: refusalsPk(namespaceId, refusalSlot(row.entityId)),
    sk: `${hourText(row.hourMs)}#${row.entityId}#${row.resource}#${row.id}`,
  };
}

/** In the index of the namespace: by entity, so that its rows are found when it is deleted. */
export function refusalIndexKeys(namespaceId: string, row: RefusalRowName): Readonly<Record<string, string>> {
  const { hourMs, entityId, resource, id } = row;
  return {
    [GSI4PK]: namespaceId,
    [GSI4SK]: `${refusalPrefix(entityId)}${hourText(hourMs)}#${resource}#${id}`,
  };
}

/** What rows of an entity begin with in the index of the namespace. */
export function refusalPrefix(entityId: string): string {
  return `REFUSED#${entityId}#`;
}

/** Sort keys from one hour to before another, both ends included; from an entity on resource on, where it is given. */
export function refusalRange(
  from: Omit<RefusalRowName, "id">,
  toMs: number,
): { readonly from: string; readonly to: string } {
  const begin = hourText(from.hourMs);
  return {
    from: from.entityId === "" ? begin : `${begin}#${from.entityId}#${from.resource}#`,
    // No key is an hour alone.
    to: hourText(toMs),
  };
}

/** The other half of `refusalKey`. Undefined where it is something else's. */
export function parseRefusalSk(sk: string): RefusalRowName | undefined {
  const match = /^(\d{4}-\d\d-\d\dT\d\d)#([^#]+)#([^#]+)#([^#]+)$/.exec(sk);
  if (match === null) return undefined;
  const [, hour, entityId, resource, id] = match as unknown as [string, string, string, string, string];
  return { hourMs: Date.parse(`${hour}:00:00Z`), entityId, resource, id };
}

export function refusalSlot(entityId: string): number {
  let sum = 0;
  for (let i = 0; i < entityId.length; i++) sum = (sum * 31 + entityId.charCodeAt(i)) % 65_521;
  return sum % REFUSAL_SLOTS.length;
}

/** The end of the year 9999: the last that has four digits. */
const LAST_MS = 253_402_300_799_000;

/** `2026-06-01T12`: texts of hours sort as they follow each other. */
function hourText(atMs: number): string {
  return new Date(Math.min(Math.max(atMs, 0), LAST_MS)).toISOString().slice(0, 13);
}
