import type { AuditEvent } from "../domain/audit.ts";
import type {
  ListedRecord,
  RecordColumns,
  RecordKind,
  RecordList,
  RecordPut,
  StoredRecord,
} from "../ports/record-store.ts";

/** A record as the table has it. */
export interface TableRow extends StoredRecord {
  readonly scope: string;
  readonly by: RecordPut["by"];
}

export interface AuditRow {
  readonly id: number;
  readonly scope: string;
  readonly event: AuditEvent;
}

/** What is stored, for whoever works out lists. */
export interface TableRows {
  of(scope: string, kind: RecordKind): readonly TableRow[];
  audit(scope: string): readonly AuditRow[];
}

type Ordered = readonly {
  readonly row: Pick<TableRow, "key" | "body">;
  readonly place: readonly (string | number)[];
}[];

/** The list from a place on, as `RecordStore.list` orders it. */
export function listedIn(
  rows: TableRows,
  scope: string,
  list: RecordList,
  after: readonly string[] | undefined,
): readonly ListedRecord[] {
  const sign = list.kind === "audit" ? -1 : 1;
  const ordered = orderedIn(rows, scope, list);
  const isChain = list.kind === "entity" && (list.of === "above" || list.of === "below");
  const sorted = isChain ? ordered : ordered.toSorted((a, b) => sign * compared(a.place, b.place));
  const numbers = sorted[0]?.place.map((part) => typeof part === "number") ?? [];
  const from = after?.map((part, i) => (numbers[i] === true ? Number(part) : part));
  return sorted
    .filter(({ place }) => from === undefined || sign * compared(place, from) > 0)
    .map(({ row: { key, body }, place }) => ({ key, body, place: place.map(String) }));
}

function orderedIn(rows: TableRows, scope: string, list: RecordList): Ordered {
  switch (list.kind) {
    case "namespace":
      return namespaces(rows, list);
    case "entity":
      return entities(rows, scope, list);
    case "config":
      return configs(rows.of(scope, "config"), list);
    case "lease":
      return leases(rows.of(scope, "lease"), list);
    case "audit":
      return rows
        .audit(scope)
        .filter(({ event }) => list.entityId === undefined || event.entityId === list.entityId)
        .map(({ id, event }) => ({ row: { key: [event.eventId], body: event }, place: [id] }));
    default:
      return rows.of(scope, list.kind).map((row) => ({ row, place: row.key }));
  }
}

function namespaces(rows: TableRows, list: Extract<RecordList, { kind: "namespace" }>): Ordered {
  const all = rows.of("", "namespace").map((row) => ({ row, by: byOf<"namespace">(row) }));
  const active = all.filter(({ by }) => by.status === "active");
  if (list.of === "orphans") {
    return all.filter(({ by }) => by.status !== "active").map(({ row }) => ({ row, place: row.key }));
  }
  const meant = active.filter(({ row, by }) => {
    if (list.of === "name") return by.name === list.name;
    if (list.of === "active") return true;
    const leasesThere = rows.of(row.key[0] as string, "lease");
    return leasesThere.some((lease) => (byOf<"lease">(lease).dueAtMs ?? Number.POSITIVE_INFINITY) <= list.untilMs);
  });
  return meant.map(({ row, by }) => ({ row, place: [by.name] }));
}

function entities(rows: TableRows, scope: string, list: Extract<RecordList, { kind: "entity" }>): Ordered {
  const all = rows.of(scope, "entity");
  const byId = new Map(all.map((row) => [row.key[0], row]));
  if (list.of === "above") {
    const line: TableRow[] = [];
    for (let row = byId.get(list.id); row !== undefined && line.length < LINE_MAX; ) {
      line.push(row);
      row = byId.get(byOf<"entity">(row).parentId);
    }
    return line.map((row) => ({ row, place: row.key }));
  }
  if (list.of === "below") return longestBelow(all, list.id, LINE_MAX).map((row) => ({ row, place: row.key }));
  const isMeant = (row: TableRow) => {
    if (list.of === "parent") return byOf<"entity">(row).parentId === list.parentId;
    return list.of === "all" || byOf<"entity">(row).planId === list.planId;
  };
  return all.filter(isMeant).map((row) => ({ row, place: row.key }));
}

const LINE_MAX = 20;

function longestBelow(all: readonly TableRow[], id: string, levels: number): readonly TableRow[] {
  if (levels === 0) return [];
  let longest: readonly TableRow[] = [];
  for (const child of all.filter((row) => byOf<"entity">(row).parentId === id)) {
    const line = [child, ...longestBelow(all, child.key[0] as string, levels - 1)];
    if (line.length > longest.length) longest = line;
  }
  return longest;
}

function configs(all: readonly TableRow[], list: Extract<RecordList, { kind: "config" }>): Ordered {
  if (list.of === "all") return all.map((row) => ({ row, place: row.key }));
  const limited = all.filter((row) => byOf<"config">(row).hasLimits && row.key[0] === "entity");
  const on = ({ key }: TableRow) => key[2] as string;
  const isResource = (row: TableRow) => on(row) !== "" && on(row) !== "*";
  if (list.of === "owner") {
    const [of, owner] = list.owner;
    const whole = list.which === "all" ? all : limited.filter((row) => on(row) !== "*");
    return whole.filter(({ key }) => key[0] === of && key[1] === owner).map((row) => ({ row, place: [on(row)] }));
  }
  if (list.of === "resource") {
    const found = limited.filter((row) => on(row) === list.resource && row.key[1] !== "");
    return found.map((row) => ({ row, place: [row.key[1] as string] }));
  }
  if (list.of === "defaults") {
    return limited.filter((row) => row.key[1] === "" && isResource(row)).map((row) => ({ row, place: [on(row)] }));
  }
  const byResource = new Map(
    limited.filter((row) => row.key[1] !== "" && isResource(row)).map((row) => [on(row), row]),
  );
  return Array.from(byResource, ([resource, row]) => ({ row, place: [resource] }));
}

function leases(all: readonly TableRow[], list: Extract<RecordList, { kind: "lease" }>): Ordered {
  const { untilMs = Number.POSITIVE_INFINITY, entityId, resource } = list;
  return all.flatMap((row) => {
    const by = byOf<"lease">(row);
    if (by.dueAtMs === undefined || by.dueAtMs > untilMs) return [];
    if ((entityId ?? by.entityId) !== by.entityId || (resource ?? by.resource) !== by.resource) return [];
    return [{ row, place: [by.dueAtMs, row.key[0] as string] }];
  });
}

function byOf<Kind extends RecordKind>(row: TableRow): RecordColumns[Kind] {
  return row.by as RecordColumns[Kind];
}

function compared(a: readonly (string | number)[], b: readonly (string | number)[]): number {
  for (const [i, part] of a.entries()) {
    const other = b[i] as string | number;
    if (part !== other) return part < other ? -1 : 1;
  }
  return 0;
}
