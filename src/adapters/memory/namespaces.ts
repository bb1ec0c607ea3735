import type { AuditEvent } from "../../domain/audit.ts";
import type { Namespace } from "../../domain/namespace.ts";
import type { Page, PageRequest } from "../../domain/paging.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import type { DueNamespace, NamespaceStore, PurgeReply, RecoverReply } from "../../ports/namespace-store.ts";
import { dataOf, type MemoryData } from "./data.ts";
import { TurningOrders, textList } from "./list-orders.ts";

export class MemoryNamespaces implements NamespaceStore {
  readonly #all: MemoryData;
  readonly #orders: TurningOrders;

  constructor(all: MemoryData) {
    this.#all = all;
    this.#orders = new TurningOrders(all.turns);
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

  list(page: PageRequest): MaybePromise<Page<Namespace>> {
    const byName = new Map(this.#active().map((namespace) => [namespace.name, namespace]));
    const list = textList(
      "active",
      () => [...byName.keys()],
      (name) => byName.get(name),
    );
    return this.#orders.pageByTurns(list, page);
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

  listOrphans(page: PageRequest): MaybePromise<Page<Namespace>> {
    const orphans = () => [...this.#all.namespaces.values()].filter(({ status }) => status !== "active");
    const orphanOf = (id: string) => {
      const namespace = this.#all.namespaces.get(id);
      return namespace?.status === "active" ? undefined : namespace;
    };
    return this.#orders.pageByTurns(
      textList("orphans", () => orphans().map(({ id }) => id), orphanOf),
      page,
    );
  }

  withDueLeases(untilMs: number): readonly DueNamespace[] {
    return this.#active().flatMap((namespace) => {
      const due = this.#all.byNamespace.get(namespace.id)?.leases.due.upTo(untilMs, 1) ?? [];
      return due.length === 0 ? [] : [{ namespace, sinceMs: 0 }];
    });
  }

  nothingDue(): void {
    // What is due is known exactly.
  }

  purge(id: string, event: AuditEvent, auditIn: string, onProgress: (recordsDeleted: number) => void): PurgeReply {
    const namespace = this.#all.namespaces.get(id);
    if (namespace === undefined) return { kind: "missing" };
    if (namespace.status === "active") return { kind: "active", name: namespace.name };
    // From here on it cannot be recovered, also when this is cut off half-way.
    this.#all.namespaces.set(id, { ...namespace, status: "purging" });
    const data = dataOf(this.#all, id);
    const { buckets, entities, plans, stints, configs, versions, operations, owned, owners, leases } = data;
    const { audit, orders, refusals } = data;
    let hours = 0;
    for (const cell of buckets.values()) hours += cell.hours?.length ?? 0;
    const maps = [
      ...[buckets, entities, plans, stints, configs, versions, operations],
      ...[owned, owners, leases.records, leases.keys],
    ];
    const records = maps.reduce((sum, { size }) => sum + size, hours + audit.length + refusals.entryCount);
    for (const map of maps) map.clear();
    audit.clear();
    refusals.cells.clear();
    refusals.entryCount = 0;
    orders.clear();
    onProgress(records);
    this.#all.namespaces.delete(id);
    this.#all.byNamespace.delete(id);
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
