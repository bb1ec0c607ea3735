import type { StoredConfig } from "../../domain/config/config.ts";
import { limitsAnything } from "../../domain/config/overrides.ts";
import type { ListedRecord, ListedRecords, RecordColumns, RecordKey, RecordList } from "../../ports/record-store.ts";
import { REGISTRY } from "../../records/bodies.ts";
import { type Reply, textOf } from "./connection.ts";
import type { Drop } from "./drops.ts";
import { AFTER_PART_END, type IndexName, memberOf, type NamespaceKeys, partsOf, rangeOf } from "./keys.ts";
import { membersIn, RANGE_MAX, type Range, valuesOf } from "./range.ts";
import { hintsOf, type KeptRecord, keptIn } from "./record-texts.ts";
import type { RecordParts } from "./writes.ts";

interface Asked {
  readonly after: readonly string[] | undefined;
  readonly limitMax: number;
}

/** How a list is read: along an index, and from each of its entries the record. */
interface Walk {
  readonly index: IndexName;
  readonly range: Range;
  readonly isBackwards?: true;
  /** The record that an entry names; undefined: the entry is none of the list. */
  readonly recordOf: (parts: readonly string[]) => RecordKey | undefined;
  readonly placeOf: (parts: readonly string[]) => readonly string[];
  /** `end`: none of those behind it either. */
  readonly isMeant?: (record: KeptRecord) => boolean;
  /** The list has one entry for each of these texts. */
  readonly distinctBy?: (parts: readonly string[]) => string;
}

/** The generation is read before the list: a change that comes in between is seen by the next comparison of it. */
export async function listRecords(
  parts: RecordParts,
  scope: string,
  list: RecordList,
  asked: Asked,
): Promise<ListedRecords> {
  const { connection, keysOf } = parts;
  const [number] = await valuesOf(connection, [keysOf(scope).generation]);
  const generation = Number(textOf(number) ?? 0);
  return { generation, records: await recordsOf(parts, scope, list, asked) };
}

async function recordsOf(
  parts: RecordParts,
  scope: string,
  list: RecordList,
  asked: Asked,
): Promise<readonly ListedRecord[]> {
  if (list.kind === "audit") return auditEvents(parts, scope, list, asked);
  if (list.kind === "namespace") {
    return list.of === "due" ? withDueLeases(parts, list.untilMs) : walked(parts, REGISTRY, walkOf(list, asked), asked);
  }
  if (list.kind === "entity" && list.of === "above") return above(parts, scope, list.id, asked.limitMax);
  if (list.kind === "entity" && list.of === "below") return below(parts, scope, list.id, asked.limitMax);
  return walked(parts, scope, walkOf(list, asked), asked);
}

async function walked(parts: RecordParts, scope: string, walk: Walk, { limitMax }: Asked): Promise<ListedRecord[]> {
  const { connection, keysOf, drops } = parts;
  const keys = keysOf(scope);
  const index = keys.index(walk.index);
  const isBackwards = walk.isBackwards === true;
  const found: ListedRecord[] = [];
  const stale: Drop[] = [];
  let { from, to } = walk.range;
  while (found.length < limitMax) {
    const size = Math.min(RANGE_MAX, walk.distinctBy === undefined ? limitMax - found.length + 10 : RANGE_MAX);
    const members = await membersIn(connection, index, { from, to }, { limitMax: size, isBackwards });
    const meant = members.flatMap((member) => {
      const entry = partsOf(member);
      const record = walk.recordOf(entry);
      return record === undefined ? [] : [{ member, entry, record }];
    });
    const values = await valuesOf(
      connection,
      meant.map(({ record }) => keys.record(record)),
    );
    let skipTo: string | undefined;
    for (const [i, { member, entry, record }] of meant.entries()) {
      const kept = keptIn(values[i]);
      if (kept === undefined || !isNamed(keys, record, kept, index, member)) {
        stale.push({
          key: keys.record(record),
          version: kept === undefined ? "" : String(kept.version),
          hints: [{ index, member }],
        });
        continue;
      }
      const group = walk.distinctBy?.(entry);
      if (found.length >= limitMax || (group !== undefined && group === skipTo)) continue;
      if (walk.isMeant?.(kept) === false) continue;
      found.push({ key: record.key, body: kept.body, place: walk.placeOf(entry) });
      skipTo = group;
    }
    const last = members.at(-1);
    if (members.length < size || last === undefined) break;
    if (isBackwards) to = `(${last}`;
    else
      from =
        skipTo !== undefined && walk.distinctBy?.(partsOf(last)) === skipTo
          ? `[${skipTo}${AFTER_PART_END}`
          : `(${last}`;
  }
  drops.add(scope, stale);
  return found;
}

/** False for an entry of an index by which the record was found once, and is no more. */
function isNamed(keys: NamespaceKeys, record: RecordKey, { by }: KeptRecord, index: string, member: string): boolean {
  return hintsOf(keys, record, by).some((hint) => hint.index === index && hint.member === member);
}

function walkOf(list: Exclude<RecordList, { readonly kind: "audit" }>, { after }: Asked): Walk {
  switch (list.kind) {
    case "namespace":
      return namespaceWalk(list, after);
    case "entity":
      if (list.of === "parent") return { ...byFirst("entitiesByParent", list.parentId, after), recordOf: entityIn };
      if (list.of === "plan") return { ...byFirst("entitiesByPlan", list.planId, after), recordOf: entityIn };
      return ofKind("entity", "entities", after);
    case "plan":
      return ofKind("plan", "plans", after);
    case "history":
      return ofKind("history", "histories", after);
    case "owner":
      return ofKind("owner", "owners", after);
    case "owned":
      return ofKind("owned", "owned", after);
    case "config":
      return configWalk(list, after);
    case "lease":
      return leaseWalk(list, after);
    case "refusalLog":
      return refusalLogWalk(list, after);
  }
}

/** From behind the last place on, within the bounds. */
function behind({ from, to }: Range, last: string | undefined): Range {
  return last === undefined ? { from, to } : { from: `(${last}`, to };
}

/** All records of a kind, by their keys. */
function ofKind(kind: RecordKey["kind"], index: IndexName, after: readonly string[] | undefined): Walk {
  return {
    ...{ index, range: behind(rangeOf(), after && memberOf(...after)) },
    ...{ recordOf: (key) => ({ kind, key }), placeOf: (key) => key },
  };
}

/** Entries of two parts, of which the first is given. */
function byFirst(index: IndexName, first: string, after: readonly string[] | undefined) {
  const range = behind(rangeOf(first), after && memberOf(first, after[0] as string));
  return { index, range, placeOf: ([, id = ""]: readonly string[]) => [id] };
}

const entityIn = ([, id = ""]: readonly string[]): RecordKey => ({ kind: "entity", key: [id] });

function namespaceWalk(
  list: Extract<RecordList, { readonly kind: "namespace" }>,
  after: readonly string[] | undefined,
): Walk {
  const isActive = ({ by }: KeptRecord) => (by as RecordColumns["namespace"]).status === "active";
  if (list.of === "orphans")
    return { ...ofKind("namespace", "namespaces", after), isMeant: (record) => !isActive(record) };
  const all = list.of === "name" ? rangeOf(list.name) : rangeOf();
  return {
    ...{ index: "namespacesByName", isMeant: isActive },
    range: after === undefined ? all : { from: `[${after[0]}${AFTER_PART_END}`, to: all.to },
    recordOf: ([, id = ""]) => ({ kind: "namespace", key: [id] }),
    placeOf: ([name = ""]) => [name],
  };
}

function configWalk(
  list: Extract<RecordList, { readonly kind: "config" }>,
  after: readonly string[] | undefined,
): Walk {
  const isInForce = (nowMs: number) => (record: KeptRecord) => limitsAnything(record.body as StoredConfig, nowMs);
  const byResource = (of: string, owner: string) => ({
    ...{
      index: "configs" as const,
      range: behind(rangeOf(of, owner), after && memberOf(of, owner, after[0] as string)),
    },
    placeOf: ([, , resource = ""]: readonly string[]) => [resource],
  });
  const isTotal = (resource: string | undefined) => resource === "*";
  const keyIn = (key: readonly string[]): RecordKey => ({ kind: "config", key });
  switch (list.of) {
    case "all":
      return ofKind("config", "configs", after);
    case "owner":
      return { ...byResource(...list.owner), recordOf: keyIn };
    case "entity": {
      const recordOf = (key: readonly string[]) => (isTotal(key[2]) ? undefined : keyIn(key));
      return { ...byResource("entity", list.entityId), recordOf, isMeant: isInForce(list.nowMs) };
    }
    case "defaults": {
      const recordOf = (key: readonly string[]) => (isTotal(key[2]) || key[2] === "" ? undefined : keyIn(key));
      return { ...byResource("entity", ""), recordOf, isMeant: isInForce(list.nowMs) };
    }
    case "resource": {
      const { resource } = list;
      return {
        ...{ index: "configsByResource", isMeant: isInForce(list.nowMs) },
        range: behind(rangeOf("entity", resource), after && memberOf("entity", resource, after[0] as string)),
        recordOf: ([of = "", , owner = ""]) => (owner === "" ? undefined : keyIn([of, owner, resource])),
        placeOf: ([, , owner = ""]) => [owner],
      };
    }
    case "entityResources": {
      const all = rangeOf("entity");
      return {
        ...{ index: "configsByResource", isMeant: isInForce(list.nowMs) },
        range:
          after === undefined
            ? all
            : { from: `[${memberOf("entity", after[0] as string)}${AFTER_PART_END}`, to: all.to },
        recordOf: ([of = "", resource = "", owner = ""]) =>
          owner === "" || resource === "" || isTotal(resource) ? undefined : keyIn([of, owner, resource]),
        placeOf: ([, resource = ""]) => [resource],
        distinctBy: ([of = "", resource = ""]) => memberOf(of, resource),
      };
    }
  }
}

function leaseWalk(
  { untilMs, entityId, resource }: Extract<RecordList, { readonly kind: "lease" }>,
  after: readonly string[] | undefined,
): Walk {
  const to =
    untilMs === undefined || !Number.isFinite(untilMs)
      ? "+"
      : `[${memberOf(Math.max(0, Math.floor(untilMs)))}${AFTER_PART_END}`;
  return {
    ...{
      index: "leasesDue",
      range: behind({ from: "-", to }, after && memberOf(Number(after[0]), after[1] as string)),
    },
    recordOf: ([, id = ""]) => ({ kind: "lease", key: [id] }),
    placeOf: ([due = "", id = ""]) => [String(Number(due)), id],
    isMeant: ({ by }) => {
      const lease = by as RecordColumns["lease"];
      return (entityId ?? lease.entityId) === lease.entityId && (resource ?? lease.resource) === lease.resource;
    },
  };
}

function refusalLogWalk(
  { fromMs, toMs, entityId }: Extract<RecordList, { readonly kind: "refusalLog" }>,
  after: readonly string[] | undefined,
): Walk {
  const hours = { from: Math.max(0, fromMs), to: Math.max(0, toMs) };
  if (entityId === undefined) {
    const [hour = "", entity = "", writer = ""] = after ?? [];
    const to = after === undefined ? `(${memberOf(hours.to)}` : `(${memberOf(Number(hour), entity, writer)}`;
    return {
      ...{ index: "refusalLogs", isBackwards: true, range: { from: `[${memberOf(hours.from)}`, to } },
      recordOf: ([at = "", of = "", by = ""]) => ({ kind: "refusalLog", key: [String(Number(at)), of, by] }),
      placeOf: ([at = "", of = "", by = ""]) => [String(Number(at)), of, by],
    };
  }
  const to =
    after === undefined
      ? `(${memberOf(entityId, hours.to)}`
      : `(${memberOf(entityId, Number(after[0]), after[2] ?? "")}`;
  return {
    ...{ index: "refusalLogsByEntity", isBackwards: true, range: { from: `[${memberOf(entityId, hours.from)}`, to } },
    recordOf: ([of = "", at = "", by = ""]) => ({ kind: "refusalLog", key: [String(Number(at)), of, by] }),
    placeOf: ([of = "", at = "", by = ""]) => [String(Number(at)), of, by],
  };
}

async function auditEvents(
  { connection, keysOf }: RecordParts,
  scope: string,
  list: Extract<RecordList, { readonly kind: "audit" }>,
  { after, limitMax }: Asked,
): Promise<readonly ListedRecord[]> {
  const keys = keysOf(scope);
  const entityId = list.of === "all" ? list.entityId : undefined;
  const isBackwards = list.of === "all";
  const begin = entityId === undefined ? [] : [entityId];
  const index = keys.index(entityId === undefined ? "audit" : "auditByEntity");
  let { from, to } = rangeOf(...begin);
  const bound = after && `(${memberOf(...begin, Number(after[0]))}`;
  if (bound !== undefined && isBackwards) to = bound;
  else if (bound !== undefined) from = bound;
  const found: ListedRecord[] = [];
  for (;;) {
    const size = Math.min(RANGE_MAX, limitMax - found.length + 10);
    const members = await membersIn(connection, index, { from, to }, { limitMax: size, isBackwards });
    const numbers = members.map((member) => Number(partsOf(member).at(-1)));
    const values = await valuesOf(
      connection,
      numbers.map((number) => keys.audit(number)),
    );
    for (const [i, number] of numbers.entries()) {
      const event = keptIn(values[i] as Reply)?.body as
        | { readonly eventId: string; readonly entityId: string }
        | undefined;
      // A number that another event has got.
      if (event === undefined || (entityId ?? event.entityId) !== event.entityId) continue;
      found.push({ key: [event.eventId], body: event, place: [String(number)] });
    }
    const last = members.at(-1);
    if (found.length >= limitMax || members.length < size || last === undefined) return found.slice(0, limitMax);
    if (isBackwards) to = `(${last}`;
    else from = `(${last}`;
  }
}

/** So many namespaces are asked at once. */
const ASKED_AT_ONCE = 50;

async function withDueLeases(parts: RecordParts, untilMs: number): Promise<readonly ListedRecord[]> {
  const asked = { after: undefined, limitMax: Number.MAX_SAFE_INTEGER };
  const active = await walked(parts, REGISTRY, namespaceWalk({ kind: "namespace", of: "active" }, undefined), asked);
  const due: ListedRecord[] = [];
  for (let from = 0; from < active.length; from += ASKED_AT_ONCE) {
    const some = active.slice(from, from + ASKED_AT_ONCE);
    const walk = leaseWalk({ kind: "lease", of: "due", untilMs }, undefined);
    const first = await Promise.all(
      some.map(({ key }) => walked(parts, key[0] as string, walk, { after: undefined, limitMax: 1 })),
    );
    due.push(...some.filter((_, i) => first[i]?.length === 1));
  }
  return due;
}

async function above(
  { connection, keysOf }: RecordParts,
  scope: string,
  id: string,
  limitMax: number,
): Promise<ListedRecord[]> {
  const line: ListedRecord[] = [];
  for (let next: string | undefined = id; next !== undefined && line.length < limitMax; ) {
    const key: readonly string[] = [next];
    const [value] = await valuesOf(connection, [keysOf(scope).record({ kind: "entity", key })]);
    const kept = keptIn(value);
    if (kept === undefined) break;
    line.push({ key, body: kept.body, place: key });
    next = (kept.by as RecordColumns["entity"]).parentId;
  }
  return line;
}

/** Level by level; of the last one the first entity has one of the longest lines. */
async function below(parts: RecordParts, scope: string, id: string, limitMax: number): Promise<ListedRecord[]> {
  const asked = { after: undefined, limitMax: Number.MAX_SAFE_INTEGER };
  let level: readonly (readonly ListedRecord[])[] = [[]];
  for (let depth = 0; depth < limitMax; depth++) {
    const next: (readonly ListedRecord[])[] = [];
    for (const line of level) {
      const parentId = line.at(-1)?.key[0] ?? id;
      const children = await walked(parts, scope, walkOf({ kind: "entity", of: "parent", parentId }, asked), asked);
      next.push(...children.map((child) => [...line, { ...child, place: child.key }]));
    }
    if (next.length === 0) break;
    level = next;
  }
  return [...(level[0] ?? [])];
}
