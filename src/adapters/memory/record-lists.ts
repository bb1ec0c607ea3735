import type { ListedRecord, RecordColumns, RecordList } from "../../ports/record-store.ts";
import { lineAbove, longestBelow } from "../../stored/entity-lines.ts";
import { type MemoryRecord, type RecordRows, sortable } from "./record-rows.ts";

/** Where a list goes on, and how many records are wanted. */
interface Asked {
  readonly after: readonly string[] | undefined;
  readonly max: number;
}

/** A list of a namespace as `RecordStore.list` orders it, but those of namespaces. */
export function listed(
  rows: RecordRows,
  list: Exclude<RecordList, { readonly kind: "namespace" }>,
  { after, max }: Asked,
): readonly ListedRecord[] {
  switch (list.kind) {
    case "plan":
    case "owned":
      return rows.after({ kind: list.kind, from: "" }, after, max);
    case "entity":
      return entities(rows, list, { after, max });
    case "config":
      return configs(rows, list, { after, max });
    case "lease":
      return leases(rows, list, { after, max });
    case "audit":
      return rows.audit.list(list.entityId, after, max);
  }
}

function entities(
  rows: RecordRows,
  list: Extract<RecordList, { readonly kind: "entity" }>,
  { after, max }: Asked,
): readonly ListedRecord[] {
  switch (list.of) {
    case "all":
      return rows.after({ kind: "entity", from: "" }, after, max);
    case "parent":
      return rows.after({ from: `parent\n${list.parentId}\n` }, after, max);
    case "plan":
      return rows.after({ from: `plan\n${list.planId}\n` }, after, max);
    case "below":
      return longestBelow(
        list.id,
        (id) => rows.after({ from: `parent\n${id}\n` }, undefined, Number.POSITIVE_INFINITY),
        ({ key }) => key[0] as string,
      );
    case "above": {
      const line = lineAbove(
        list.id,
        (id) => rows.of("entity").get(id),
        ({ by }) => (by as RecordColumns["entity"]).parentId,
      );
      return line.map(({ key, body }) => ({ key, body, place: key }));
    }
  }
}

function configs(
  rows: RecordRows,
  list: Extract<RecordList, { readonly kind: "config" }>,
  { after, max }: Asked,
): readonly ListedRecord[] {
  switch (list.of) {
    case "all":
      return rows.after({ kind: "config", from: "" }, after, max);
    case "resource":
      return rows.after({ from: `limits\n${list.resource}\n` }, after, max);
    case "owner": {
      const isMeant = (record: MemoryRecord) =>
        list.which === "all" || (hasLimits(record) && record.key[0] === "entity" && record.key[2] !== "*");
      return rows.after({ kind: "config", from: `${list.owner.join("\n")}\n`, isMeant }, after, max);
    }
    case "defaults": {
      const isMeant = (record: MemoryRecord) => hasLimits(record) && isResource(record.key[2]);
      return rows.after({ kind: "config", from: "entity\n\n", isMeant }, after, max);
    }
    case "entityResources":
      return entityResources(rows, after?.[0] ?? "", max);
  }
}

/** From one resource right to the next, over all entities that have limits on it. */
function entityResources(rows: RecordRows, after: string, max: number): readonly ListedRecord[] {
  const found: ListedRecord[] = [];
  for (let at = after; found.length < max; ) {
    // A vertical tab comes after the line break that entities stand behind, and before every character of a name.
    const [next] = rows.after({ from: "limits\n" }, [`${at}\v`], 1);
    if (next === undefined) break;
    at = next.place[0] as string;
    if (isResource(at)) found.push({ ...next, place: [at] });
  }
  return found;
}

function leases(
  rows: RecordRows,
  { untilMs = Number.POSITIVE_INFINITY, entityId, resource }: Extract<RecordList, { readonly kind: "lease" }>,
  { after, max }: Asked,
): readonly ListedRecord[] {
  const isMeant = ({ by }: MemoryRecord) => {
    const lease = by as RecordColumns["lease"];
    return (
      (lease.dueAtMs ?? 0) <= untilMs &&
      (entityId ?? lease.entityId) === lease.entityId &&
      (resource ?? lease.resource) === lease.resource
    );
  };
  const from = after && [sortable(after[0] as string), after[1] as string];
  const found = rows.after({ from: "due\n", isMeant }, from, max);
  return found.map(({ place: [due, id], ...rest }) => ({ ...rest, place: [String(Number(due)), id as string] }));
}

function hasLimits({ by }: MemoryRecord): boolean {
  return (by as RecordColumns["config"]).hasLimits;
}

function isResource(resource: string | undefined): boolean {
  return resource !== "" && resource !== "*";
}
