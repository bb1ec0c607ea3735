import type { AuditEvent } from "../../domain/config/audit.ts";
import type { StoredConfig } from "../../domain/config/config.ts";
import { limitsAnything } from "../../domain/config/overrides.ts";
import type {
  CommitReply,
  FoundRecords,
  ListedRecord,
  ListedRecords,
  RecordColumns,
  RecordCommit,
  RecordDeletion,
  RecordKey,
  RecordKind,
  RecordList,
  RecordPut,
  RecordStore,
} from "../../ports/record-store.ts";
import { lineAbove, longestBelow } from "../../stored/config-keys.ts";
import { type MemoryRecord, RecordRows, sortable, textOf } from "./record-rows.ts";

/** The place where a list goes on, and the number of records that are wanted. */
interface Asked {
  readonly after: readonly string[] | undefined;
  readonly max: number;
}

/** A list of a namespace as `RecordStore.list` orders it, but those of namespaces. */
function listed(
  rows: RecordRows,
  list: Exclude<RecordList, { readonly kind: "namespace" }>,
  { after, max }: Asked,
): readonly ListedRecord[] {
  switch (list.kind) {
    case "plan":
    case "history":
    case "owner":
    case "owned":
      return rows.after({ kind: list.kind, from: "" }, after, max);
    case "entity":
      return entities(rows, list, { after, max });
    case "config":
      return configs(rows, list, { after, max });
    case "lease":
      return leases(rows, list, { after, max });
    case "refusalLog":
      return refusalLog(rows, list, { after, max });
    case "audit":
      return list.of === "oldest" ? rows.audit.listOldest(after, max) : rows.audit.list(list.entityId, after, max);
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
      return rows.after({ from: `limits\n${list.resource}\n`, isMeant: limitsAt(list) }, after, max);
    case "owner":
      return rows.after({ kind: "config", from: `${list.owner.join("\n")}\n` }, after, max);
    case "entity": {
      const isMeant = (record: MemoryRecord) => record.key[2] !== "*" && limitsAt(list)(record);
      return rows.after({ kind: "config", from: `entity\n${list.entityId}\n`, isMeant }, after, max);
    }
    case "defaults": {
      const isMeant = (record: MemoryRecord) => isResource(record.key[2]) && limitsAt(list)(record);
      return rows.after({ kind: "config", from: "entity\n\n", isMeant }, after, max);
    }
    case "entityResources":
      return entityResources(rows, list, { after, max });
  }
}

/** From one resource right to the next, over all entities that have limits on it. */
function entityResources(
  rows: RecordRows,
  list: { readonly nowMs: number },
  { after, max }: Asked,
): readonly ListedRecord[] {
  const found: ListedRecord[] = [];
  for (let at = after?.[0] ?? ""; found.length < max; ) {
    // A vertical tab comes after the line break that entities stand behind, and before every character of a name.
    const [next] = rows.after({ from: "limits\n", isMeant: limitsAt(list) }, [`${at}\v`], 1);
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
    if ((lease.dueAtMs ?? 0) > untilMs) return "end";
    return (entityId ?? lease.entityId) === lease.entityId && (resource ?? lease.resource) === lease.resource;
  };
  const from = after && [sortable(after[0] as string), after[1] as string];
  const found = rows.after({ from: "due\n", isMeant }, from, max);
  return found.map(({ place: [due, id], ...rest }) => ({ ...rest, place: [String(Number(due)), id as string] }));
}

function refusalLog(
  rows: RecordRows,
  { fromMs, toMs, entityId }: Extract<RecordList, { readonly kind: "refusalLog" }>,
  { after, max }: Asked,
): readonly ListedRecord[] {
  const isMeant = ({ key: [hour, of] }: MemoryRecord) => {
    if (Number(hour) < fromMs) return "end";
    return Number(hour) < toMs && (entityId ?? of) === of;
  };
  return rows.after({ from: "log\n", isMeant }, after, max);
}

function limitsAt({ nowMs }: { readonly nowMs: number }): (record: MemoryRecord) => boolean {
  return ({ body }) => limitsAnything(body as StoredConfig, nowMs);
}

function isResource(resource: string | undefined): boolean {
  return resource !== "" && resource !== "*";
}

/** The data of a store beside its records. */
interface BesideRecords {
  /** Throws where the store is closed. */
  requireOpen(): void;
  generationOf(scope: string): number;
  /** These go on to their next generations. */
  bump(scopes: readonly string[]): void;
  dropEntity(scope: string, entityId: string): void;
  /** Answers how many rows went. */
  dropSome(scope: string, limitMax: number): number;
}

/** Records in memory: one thread, so each call is a transaction. Bodies are kept as they are given. */
export class MemoryRecords implements RecordStore {
  readonly #beside: BesideRecords;
  readonly #auditKeepMs: number;
  readonly #scopes = new Map<string, RecordRows>();
  #version = 0;

  constructor(beside: BesideRecords, auditKeepMs: number) {
    this.#beside = beside;
    this.#auditKeepMs = auditKeepMs;
  }

  /** All there is in a namespace; the registry of namespaces is `""`. */
  in(scope: string): RecordRows {
    let found = this.#scopes.get(scope);
    if (found === undefined) {
      found = new RecordRows(this.#auditKeepMs);
      this.#scopes.set(scope, found);
    }
    return found;
  }

  find(scope: string, { kind, key }: RecordKey): MemoryRecord | undefined {
    return this.#of(scope, kind).of(kind).get(textOf(key));
  }

  put(scope: string, { kind, key, by, body }: RecordPut): void {
    this.#of(scope, kind).put({ kind, key, by, body, version: ++this.#version });
  }

  log(scope: string, event: AuditEvent): void {
    this.in(scope).audit.push(event);
  }

  get(scope: string, keys: readonly RecordKey[]): FoundRecords {
    this.#beside.requireOpen();
    return { generation: this.#beside.generationOf(scope), records: keys.map((key) => this.find(scope, key)) };
  }

  list(scope: string, list: RecordList, after: readonly string[] | undefined, limitMax: number): ListedRecords {
    const records =
      list.kind === "namespace"
        ? this.#namespaces(list, after, limitMax)
        : listed(this.in(scope), list, { after, max: limitMax });
    return { generation: this.#beside.generationOf(scope), records };
  }

  commit({ scope, guard, puts, deletes, event, bumps, sent }: RecordCommit): CommitReply {
    this.#beside.requireOpen();
    const wasMade = sent === "again" && event !== undefined && this.in(event.auditIn).audit.has(event.event.eventId);
    if (wasMade) return this.#done(bumps, 0);
    const holds =
      guard.kind === "generation"
        ? guard.generation === this.#beside.generationOf(scope)
        : guard.versions.every((key) => (this.find(scope, key)?.version ?? 0) === key.version);
    if (!holds) return { kind: "moved" };
    let deleted = 0;
    for (const each of deletes) deleted += this.#delete(scope, each);
    for (const put of puts) this.put(scope, put);
    if (bumps.length > 0) this.#beside.bump(bumps);
    if (event !== undefined) this.log(event.auditIn, event.event);
    return this.#done(bumps, deleted);
  }

  #done(bumps: readonly string[], deleted: number): CommitReply {
    const generations = new Map(bumps.map((scope) => [scope, this.#beside.generationOf(scope)]));
    return { kind: "done", generations, deleted };
  }

  #namespaces(
    list: Extract<RecordList, { readonly kind: "namespace" }>,
    after: readonly string[] | undefined,
    max: number,
  ): readonly ListedRecord[] {
    const registry = this.in("");
    if (list.of === "orphans") return registry.after({ from: "orphan\n" }, after, max);
    if (list.of === "name") {
      const found = registry.at(`active\n${list.name}`);
      return found === undefined ? [] : [{ key: found.key, body: found.body, place: [list.name] }];
    }
    const hasDue = (id: string, untilMs: number) =>
      leases(this.in(id), { kind: "lease", of: "due", untilMs }, { after: undefined, max: 1 }).length > 0;
    const isMeant = ({ key }: MemoryRecord) => list.of === "active" || hasDue(key[0] as string, list.untilMs);
    return registry.after({ from: "active\n", isMeant }, after, max);
  }

  #delete(scope: string, what: RecordDeletion): number {
    if (what.kind === "someIn") return this.#deleteSome(what.namespaceId, what.limitMax);
    if (what.kind !== "everythingOf") {
      this.#of(scope, what.kind).delete(what.kind, textOf(what.key));
      return 0;
    }
    const { entityId } = what;
    const rows = this.in(scope);
    rows.delete("entity", entityId);
    const owned = [
      ["config", "entity"],
      ["history", "entity"],
      ["history", "stints"],
    ] as const;
    for (const [kind, of] of owned) {
      for (const { key } of rows.after({ kind, from: `${of}\n${entityId}\n` }, undefined, Number.POSITIVE_INFINITY)) {
        rows.delete(kind, textOf(key));
      }
    }
    const log = rows.after(
      { from: "log\n", isMeant: ({ key }) => key[1] === entityId },
      undefined,
      Number.POSITIVE_INFINITY,
    );
    for (const { key } of log) rows.delete("refusalLog", textOf(key));
    this.#beside.dropEntity(scope, entityId);
    return 0;
  }

  #deleteSome(namespaceId: string, limitMax: number): number {
    const rows = this.in(namespaceId);
    let gone = this.#beside.dropSome(namespaceId, limitMax);
    gone += rows.audit.drop(Number.POSITIVE_INFINITY, limitMax - gone);
    for (const { kind, key } of rows.all()) {
      if (gone >= limitMax) return gone;
      rows.delete(kind, textOf(key));
      gone++;
    }
    this.#scopes.delete(namespaceId);
    return gone;
  }

  /** Namespaces are in the registry, whoever asks. */
  #of(scope: string, kind: RecordKind): RecordRows {
    return this.in(kind === "namespace" ? "" : scope);
  }
}
