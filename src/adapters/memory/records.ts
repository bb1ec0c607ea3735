import type { AuditEvent } from "../../domain/config/audit.ts";
import type {
  CommitReply,
  FoundRecords,
  ListedRecord,
  ListedRecords,
  RecordCommit,
  RecordDeletion,
  RecordKey,
  RecordKind,
  RecordList,
  RecordPut,
  RecordStore,
} from "../../ports/record-store.ts";
import { listed } from "./record-lists.ts";
import { type MemoryRecord, RecordRows, textOf } from "./record-rows.ts";

/** What of a store is kept beside its records. */
interface BesideRecords {
  /** Throws where the store is closed. */
  requireOpen(): void;
  generationOf(scope: string): number;
  /** These go on to their next generations. */
  bump(scopes: readonly string[]): void;
  hasDueLease(scope: string, untilMs: number): boolean;
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
    const isMeant = ({ key }: MemoryRecord) =>
      list.of === "active" || this.#beside.hasDueLease(key[0] as string, list.untilMs);
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
