import type { AuditEvent } from "../../domain/audit.ts";
import type { Namespace } from "../../domain/namespace.ts";
import type { Page, PageRequest } from "../../domain/paging.ts";
import type { NamespaceStore, PurgeReply, RecoverReply } from "../../ports/namespace-store.ts";
import { dataOf, type MemoryData, pageByKey } from "./data.ts";

export class MemoryNamespaces implements NamespaceStore {
  readonly #all: MemoryData;

  constructor(all: MemoryData) {
    this.#all = all;
  }

  register(namespace: Namespace, event: AuditEvent, auditIn: string): Namespace {
    const known = this.get(namespace.name);
    if (known !== undefined) return known;
    this.#put(namespace, event, auditIn);
    return namespace;
  }

  get(name: string): Namespace | undefined {
    return this.#active().find((namespace) => namespace.name === name);
  }

  list(page: PageRequest): Page<Namespace> {
    return pageByKey(this.#active(), ({ name }) => name, page);
  }

  delete(name: string, nowMs: number, event: AuditEvent, auditIn: string): Namespace | undefined {
    const namespace = this.get(name);
    if (namespace === undefined) return undefined;
    const deleted: Namespace = { ...namespace, status: "deleted", deletedAtMs: nowMs };
    this.#put(deleted, event, auditIn);
    return deleted;
  }

  recover(id: string, event: AuditEvent, auditIn: string): RecoverReply {
    const namespace = this.#all.namespaces.get(id);
    if (namespace === undefined) return { kind: "missing" };
    if (namespace.status !== "deleted") return { kind: "notDeleted", status: namespace.status };
    if (this.get(namespace.name) !== undefined) return { kind: "nameTaken", name: namespace.name };
    const { deletedAtMs: _, ...rest } = namespace;
    const recovered: Namespace = { ...rest, status: "active" };
    this.#put(recovered, event, auditIn);
    return { kind: "recovered", namespace: recovered };
  }

  listOrphans(page: PageRequest): Page<Namespace> {
    const orphans = [...this.#all.namespaces.values()].filter(({ status }) => status !== "active");
    return pageByKey(orphans, ({ id }) => id, page);
  }

  purge(id: string, event: AuditEvent, auditIn: string, onProgress: (recordsDeleted: number) => void): PurgeReply {
    const namespace = this.#all.namespaces.get(id);
    if (namespace === undefined) return { kind: "missing" };
    if (namespace.status === "active") return { kind: "active", name: namespace.name };
    // From here on it cannot be recovered, also when this is cut off half-way.
    this.#all.namespaces.set(id, { ...namespace, status: "purging" });
    const { buckets, entities, configs, operations, audit } = dataOf(this.#all, id);
    const hours = [...buckets.values()].reduce((sum, cell) => sum + cell.hours.size, 0);
    const records = buckets.size + hours + entities.size + configs.size + operations.size + audit.length;
    for (const map of [buckets, entities, configs, operations]) map.clear();
    audit.length = 0;
    onProgress(records);
    this.#all.namespaces.delete(id);
    this.#changed(event, auditIn);
    return { kind: "purged", records };
  }

  #active(): Namespace[] {
    return [...this.#all.namespaces.values()].filter(({ status }) => status === "active");
  }

  #put(namespace: Namespace, event: AuditEvent, auditIn: string): void {
    this.#all.namespaces.set(namespace.id, namespace);
    this.#changed(event, auditIn);
  }

  #changed(event: AuditEvent, auditIn: string): void {
    dataOf(this.#all, auditIn).audit.push(event);
    this.#all.generation++;
  }
}
