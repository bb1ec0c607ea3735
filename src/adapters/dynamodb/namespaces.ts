import type { AuditEvent } from "../../domain/config/audit.ts";
import type { Namespace } from "../../domain/config/namespace.ts";
import { ConflictError } from "../../domain/names/errors.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { DueNamespace, EndCopyReply, NamespaceStore, PurgeReply, RecoverReply } from "../../ports/config-store.ts";
import type { DynamoAudit } from "./audit.ts";
import { change } from "./changes.ts";
import type { Attributes } from "./codec.ts";
import { nothingDue, withDueLeases } from "./lease-hours.ts";
import { type NamespaceWatch, namespaceItem, namespaceOf } from "./namespaces-record.ts";
import { idOf, inChunks, pageAfter } from "./paging.ts";
import { managedIn } from "./provisioner.ts";
import { entityIndex, namespaceIndex, type Records, tablePartition } from "./records.ts";
import {
  all,
  any,
  type Condition,
  checkRecord,
  deleteRecord,
  exists,
  isStill,
  keyIn,
  missing,
  putRecord,
  type RecordWrite,
  updateRecord,
} from "./records-write.ts";
import { uniqueKeys } from "./retried-calls.ts";
import { RETRY } from "./retry-policy.ts";
import {
  configKey,
  DELETED_AT,
  entityPk,
  NAMESPACE_ID,
  namespaceIdKey,
  namespaceNameKey,
  provisionerKey,
  REGISTRY,
  RESOURCES,
  resourceRegistryKey,
  STATUS,
  systemPk,
  type TableKey,
} from "./schema.ts";
import { hoursPk, LEASE_SLOTS, leasesPk } from "./schema-leases.ts";

/**
 * Deletes everything of a namespace in small steps; returns the number of records. Items outside the index of the
 * namespace (the original's provisioner writes only half of the keys) are found by the records of the system partition,
 * which is therefore deleted last.
 */
async function removeNamespace(
  records: Records,
  namespaceId: string,
  onProgress: (recordsDeleted: number) => void,
): Promise<number> {
  let count = 0;
  const remove = async (keys: readonly TableKey[]) => {
    if (keys.length === 0) return;
    await records.deleteAll(keys);
    count += keys.length;
    onProgress(count);
  };
  await remove(await unindexed(records, namespaceId));
  const system = systemPk(namespaceId);
  // The index lags behind its table: only a pass that finds nothing is the last, and items of earlier passes that it
  // still shows are not counted again.
  for (let found = 1, pass = 0; found > 0 && pass < RETRY.removalPassesMax; pass++) {
    found = 0;
    for await (const chunk of inChunks(records.query(namespaceIndex(namespaceId)), REMOVED_AT_ONCE)) {
      const shown = chunk.map(keyIn).filter(({ pk }) => pk !== system);
      const keys = pass === 0 ? shown : await present(records, shown);
      found += keys.length;
      await remove(keys);
    }
  }
  // Open leases are in another index; closed leases and idempotency keys expire within a day.
  for (const slot of LEASE_SLOTS) {
    const open = records.query({ ...entityIndex(leasesPk(namespaceId, slot)), keysOnly: true });
    for await (const chunk of inChunks(open, REMOVED_AT_ONCE)) await remove(await present(records, chunk.map(keyIn)));
  }
  for (const pk of [hoursPk(namespaceId), system]) {
    const rest = records.query({ ...tablePartition(pk), keysOnly: true });
    for await (const chunk of inChunks(rest, REMOVED_AT_ONCE)) await remove(chunk.map(keyIn));
  }
  return count;
}

const REMOVED_AT_ONCE = 100;

/** Keys of configuration that may be in no index. */
async function unindexed(records: Records, namespaceId: string): Promise<readonly TableKey[]> {
  const [provisioner, registry] = await records.getAll([provisionerKey(namespaceId), resourceRegistryKey(namespaceId)]);
  const { resources, entities } = managedIn(provisioner);
  const named = [...new Set([...resources, ...namesIn(registry)])];
  const keys = [
    ...named.map((resource) => configKey(namespaceId, { level: "resource", resource })),
    ...Object.entries(entities).flatMap(([entityId, own]) =>
      own.map((resource) => ({ pk: entityPk(namespaceId, entityId), sk: `#CONFIG#${resource}` })),
    ),
  ];
  return present(records, keys);
}

async function present(records: Records, keys: readonly TableKey[]): Promise<readonly TableKey[]> {
  const found = await records.getAll(uniqueKeys(keys));
  return found.flatMap((item) => (item === undefined ? [] : [keyIn(item)]));
}

function namesIn(registry: Attributes | undefined): readonly string[] {
  return registry?.[RESOURCES]?.SS ?? [];
}

interface Parts {
  readonly records: Records;
  readonly watch: NamespaceWatch;
  readonly auditOf: (namespaceId: string) => DynamoAudit;
}

/** Namespaces: two records each, found by name and by id, which are only changed together. */
export class DynamoNamespaces implements NamespaceStore {
  readonly #parts: Parts;
  readonly #records: Records;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#records = parts.records;
  }

  register(namespace: Namespace, event: AuditEvent, auditIn: string): Promise<Namespace> {
    return this.#register(namespace, async () => [await this.#parts.auditOf(auditIn).entry(event)]);
  }

  /** Registers the namespace that comes with the table, without an audit event. */
  registerFirst(namespace: Namespace): Promise<Namespace> {
    return this.#register(namespace, async () => []);
  }

  async get(name: string): Promise<Namespace | undefined> {
    const item = await this.#records.get(namespaceNameKey(name));
    const namespace = item && namespaceOf(item);
    return namespace?.status === "active" ? namespace : undefined;
  }

  list(page: PageRequest): Promise<Page<Namespace>> {
    return pageAfter(
      page,
      (after) => this.#active(after),
      ({ name }) => name,
    );
  }

  withDueLeases(untilMs: number): Promise<readonly DueNamespace[]> {
    return withDueLeases(this.#records, untilMs);
  }

  nothingDue(namespaceId: string, sinceMs: number, nowMs: number): Promise<void> {
    return nothingDue(this.#records, namespaceId, sinceMs, nowMs);
  }

  delete(name: string, nowMs: number, event: AuditEvent, auditIn: string): Promise<Namespace | undefined> {
    return change<Namespace | undefined>(this.#records, `Namespace ${name}`, async () => {
      const namespace = await this.get(name);
      if (namespace === undefined) return { reply: undefined };
      const { id } = namespace;
      const deleted: Namespace = { ...namespace, status: "deleted", deletedAtMs: nowMs };
      const forget = () => this.#parts.watch.forget(id);
      return {
        reply: deleted,
        writes: [
          deleteRecord(namespaceNameKey(name), isStill(NAMESPACE_ID, { S: id })),
          // The record is written even if it is missing: without it the data of the namespace could not be found.
          putRecord(namespaceIdKey(id), namespaceItem(deleted), any(missing, notPurging)),
          await this.#parts.auditOf(auditIn).entry(event),
        ],
        onApplied: forget,
        onConflict: forget,
      };
    });
  }

  recover(id: string, event: AuditEvent, auditIn: string): Promise<RecoverReply> {
    return change<RecoverReply>(this.#records, `Namespace ${id}`, async () => {
      const namespace = await this.#byId(id);
      if (namespace === undefined) return { reply: { kind: "missing" } };
      if (namespace.status !== "deleted") return { reply: { kind: "notDeleted", status: namespace.status } };
      const { name } = namespace;
      const named = await this.get(name);
      // If the name belongs to this id, an earlier recovery was interrupted.
      if (named !== undefined && named.id !== id) return { reply: { kind: "nameTaken", name } };
      const { deletedAtMs: _, ...rest } = namespace;
      const recovered: Namespace = { ...rest, status: "active" };
      const isFree = any(missing, notActive, isStill(NAMESPACE_ID, { S: id }));
      const activate = { set: { [STATUS]: { S: "active" } }, remove: [DELETED_AT] };
      return {
        reply: { kind: "recovered", namespace: recovered },
        writes: [
          putRecord(namespaceNameKey(name), namespaceItem(recovered), isFree),
          updateRecord(namespaceIdKey(id), activate, all(exists, notPurging)),
          await this.#parts.auditOf(auditIn).entry(event),
        ],
      };
    });
  }

  beginCopy(namespace: Namespace, from: "nothing" | "active"): Promise<boolean> {
    const { id, name } = namespace;
    const hidden = namespaceItem({ ...namespace, status: "copying" });
    return change<boolean>(this.#records, `Namespace ${name}`, async () => {
      const active = await this.get(name);
      if (from === "nothing" ? active !== undefined : active?.id !== id) return { reply: false };
      const forget = () => this.#parts.watch.forget(id);
      const made = [
        putRecord(namespaceIdKey(id), hidden, missing),
        checkRecord(namespaceNameKey(name), any(missing, notActive)),
      ];
      const hiding = [
        putRecord(namespaceIdKey(id), hidden, isStill(STATUS, { S: "active" })),
        deleteRecord(namespaceNameKey(name), isStill(NAMESPACE_ID, { S: id })),
      ];
      return { reply: true, writes: from === "nothing" ? made : hiding, onApplied: forget, onConflict: forget };
    });
  }

  endCopy(id: string, event: AuditEvent): Promise<EndCopyReply> {
    return change<EndCopyReply>(this.#records, `Namespace ${id}`, async () => {
      const namespace = await this.#byId(id);
      if (namespace?.status !== "copying") return { reply: "missing" };
      if ((await this.get(namespace.name)) !== undefined) return { reply: "nameTaken" };
      const active = namespaceItem({ ...namespace, status: "active" });
      return {
        reply: "active",
        writes: [
          putRecord(namespaceNameKey(namespace.name), active, any(missing, notActive)),
          putRecord(namespaceIdKey(id), active, isStill(STATUS, { S: "copying" })),
          await this.#parts.auditOf(id).entry(event),
        ],
      };
    });
  }

  listOrphans(page: PageRequest): Promise<Page<Namespace>> {
    return pageAfter(page, (after) => this.#orphans(after), idOf);
  }

  async purge(
    id: string,
    event: AuditEvent,
    auditIn: string,
    onProgress: (recordsDeleted: number) => void,
  ): Promise<PurgeReply> {
    const refused = await change<PurgeReply | undefined>(this.#records, `Namespace ${id}`, async () => {
      const namespace = await this.#byId(id);
      if (namespace === undefined) return { reply: { kind: "missing" } };
      if (namespace.status === "active") return { reply: { kind: "active", name: namespace.name } };
      return {
        reply: undefined,
        // From here on it cannot be recovered. Its own record is deleted last, so that an interrupted purge can be run again.
        writes: [
          updateRecord(namespaceIdKey(id), { set: { [STATUS]: { S: "purging" } } }, exists),
          checkRecord(namespaceNameKey(namespace.name), any(missing, isOther(id))),
        ],
      };
    });
    if (refused !== undefined) return refused;
    this.#parts.watch.forget(id);
    const records = await removeNamespace(this.#records, id, onProgress);
    // A namespace that purges itself loses its audit log too, so it gets no event.
    const entries = auditIn === id ? [] : [await this.#parts.auditOf(auditIn).entry(event)];
    // If another process did the last step first, it has logged the event too.
    await this.#records.transact([deleteRecord(namespaceIdKey(id), exists), ...entries]);
    return { kind: "purged", records };
  }

  #register(namespace: Namespace, entries: () => Promise<readonly RecordWrite[]>): Promise<Namespace> {
    const { id, name } = namespace;
    return change(this.#records, `Namespace ${name}`, async () => {
      const known = await this.get(name);
      if (known !== undefined) return { reply: known };
      const item = namespaceItem(namespace);
      return {
        reply: namespace,
        writes: [
          putRecord(namespaceNameKey(name), item, any(missing, notActive)),
          putRecord(namespaceIdKey(id), item, missing),
          ...(await entries()),
        ],
        onConflict: (failed) => {
          if (!failed.has(0)) throw idTaken(id);
        },
      };
    });
  }

  async #byId(id: string): Promise<Namespace | undefined> {
    const item = await this.#records.get(namespaceIdKey(id));
    if (item === undefined) return undefined;
    const namespace = namespaceOf(item);
    if (namespace.status !== "active") return namespace;
    return (await this.get(namespace.name))?.id === id ? namespace : stranded(namespace);
  }

  async *#active(after: string | undefined): AsyncGenerator<Namespace> {
    for await (const item of this.#registry("#NAMESPACE", after)) {
      const namespace = namespaceOf(item);
      if (namespace.status === "active") yield namespace;
    }
  }

  async *#orphans(after: string | undefined): AsyncGenerator<Namespace> {
    const ids = this.#registry("#NSID", after);
    const keyOf = (item: Attributes) => namespaceNameKey(namespaceOf(item).name);
    for await (const [item, named] of this.#records.lookUp(ids, CHUNK, keyOf)) {
      const namespace = namespaceOf(item);
      if (namespace.status !== "active") yield namespace;
      else if (named?.[NAMESPACE_ID]?.S !== namespace.id) yield stranded(namespace);
    }
  }

  #registry(kind: string, after: string | undefined): AsyncGenerator<Attributes> {
    // `!` sorts before every character of names and ids, `$` right after the `#` between them.
    const from = after === undefined ? `${kind}#` : `${kind}#${after}!`;
    return this.#records.query(tablePartition(systemPk(REGISTRY), { from, to: `${kind}$` }));
  }
}

const CHUNK = 50;

function isOther(namespaceId: string): Condition {
  return (e) => `${e.name(NAMESPACE_ID)} <> ${e.value({ S: namespaceId })}`;
}

function idTaken(id: string): ConflictError {
  return new ConflictError(
    "namespace_id_taken",
    `A namespace with the id ${id} exists already; register with another.`,
  );
}

const notActive = all(exists, (e) => `${e.name(STATUS)} <> ${e.value({ S: "active" })}`);
const notPurging: Condition = (e) => `${e.name(STATUS)} <> ${e.value({ S: "purging" })}`;

/**
 * The original deletes the two records one after the other. If it is interrupted, an "active" record stays whose name
 * leads nowhere: a deleted namespace.
 */
function stranded(namespace: Namespace): Namespace {
  return { ...namespace, status: "deleted" };
}
