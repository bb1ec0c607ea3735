import type { AuditEvent } from "../../domain/config/audit.ts";
import type { Namespace } from "../../domain/config/namespace.ts";
import { ConflictError } from "../../domain/names/errors.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { DueNamespace, NamespaceStore, PurgeReply, RecoverReply } from "../../ports/namespace-store.ts";
import type { DynamoAudit } from "./audit.ts";
import type { Attributes } from "./codec.ts";
import { LeaseHours } from "./lease-hours.ts";
import { type NamespaceWatch, namespaceItem, namespaceOf } from "./namespaces-record.ts";
import { removeNamespace } from "./namespaces-removal.ts";
import { cursorOf, inChunks, pageOf, placeAfter } from "./paging.ts";
import { failAfterMaxConflicts, type Records } from "./records.ts";
import {
  all,
  any,
  type Condition,
  checkRecord,
  deleteRecord,
  exists,
  isStill,
  missing,
  putRecord,
  type RecordWrite,
  updateRecord,
} from "./records-write.ts";
import {
  DELETED_AT,
  NAMESPACE_ID,
  namespaceIdKey,
  namespaceNameKey,
  PK,
  REGISTRY,
  SK,
  STATUS,
  systemPk,
} from "./schema.ts";

/** Namespaces: two records each, one found by name and one by id, that are only ever changed together. */
export class DynamoNamespaces implements NamespaceStore {
  readonly #records: Records;
  readonly #watch: NamespaceWatch;
  readonly #auditOf: (namespaceId: string) => DynamoAudit;
  readonly #hours: LeaseHours;

  constructor(parts: {
    readonly records: Records;
    readonly watch: NamespaceWatch;
    readonly auditOf: (namespaceId: string) => DynamoAudit;
  }) {
    this.#records = parts.records;
    this.#watch = parts.watch;
    this.#auditOf = parts.auditOf;
    this.#hours = new LeaseHours(parts.records);
  }

  register(namespace: Namespace, event: AuditEvent, auditIn: string): Promise<Namespace> {
    return this.#register(namespace, async () => [await this.#auditOf(auditIn).entry(event)]);
  }

  /** The namespace that comes with the table. No caller asked for it, so there is no audit event. */
  registerFirst(namespace: Namespace): Promise<Namespace> {
    return this.#register(namespace, async () => []);
  }

  async get(name: string): Promise<Namespace | undefined> {
    const item = await this.#records.get(namespaceNameKey(name));
    return item !== undefined && namespaceOf(item).status === "active" ? namespaceOf(item) : undefined;
  }

  async list({ limit, cursor }: PageRequest): Promise<Page<Namespace>> {
    const [after] = placeAfter(cursor, 1) ?? [];
    return pageOf(this.#active(after), limit, ({ name }) => cursorOf(name));
  }

  withDueLeases(untilMs: number): Promise<readonly DueNamespace[]> {
    return this.#hours.withDueLeases(untilMs);
  }

  nothingDue(namespaceId: string, sinceMs: number, nowMs: number): Promise<void> {
    return this.#hours.nothingDue(namespaceId, sinceMs, nowMs);
  }

  async delete(name: string, nowMs: number, event: AuditEvent, auditIn: string): Promise<Namespace | undefined> {
    for (let attempt = 0; ; attempt++) {
      failAfterMaxConflicts(attempt, `Namespace ${name}`);
      const namespace = await this.get(name);
      if (namespace === undefined) return undefined;
      const { id } = namespace;
      const deleted: Namespace = { ...namespace, status: "deleted", deletedAtMs: nowMs };
      const reply = await this.#records.transact([
        deleteRecord(namespaceNameKey(name), isStill(NAMESPACE_ID, { S: id })),
        // The whole record, also where it is there: without it the data of the namespace could not be found.
        putRecord(namespaceIdKey(id), namespaceItem(deleted), any(missing, notPurging)),
        await this.#auditOf(auditIn).entry(event),
      ]);
      this.#watch.forget(id);
      if (reply.kind === "applied") return deleted;
    }
  }

  async recover(id: string, event: AuditEvent, auditIn: string): Promise<RecoverReply> {
    for (let attempt = 0; ; attempt++) {
      failAfterMaxConflicts(attempt, `Namespace ${id}`);
      const namespace = await this.#byId(id);
      if (namespace === undefined) return { kind: "missing" };
      if (namespace.status !== "deleted") return { kind: "notDeleted", status: namespace.status };
      const { name } = namespace;
      const named = await this.get(name);
      // The name is registered for this very id: an earlier recovery was cut off half-way.
      if (named !== undefined && named.id !== id) return { kind: "nameTaken", name };
      const { deletedAtMs: _, ...rest } = namespace;
      const recovered: Namespace = { ...rest, status: "active" };
      const reply = await this.#records.transact([
        putRecord(
          namespaceNameKey(name),
          namespaceItem(recovered),
          any(missing, notActive, isStill(NAMESPACE_ID, { S: id })),
        ),
        updateRecord(
          namespaceIdKey(id),
          { set: { [STATUS]: { S: "active" } }, remove: [DELETED_AT] },
          all(exists, notPurging),
        ),
        await this.#auditOf(auditIn).entry(event),
      ]);
      if (reply.kind === "applied") return { kind: "recovered", namespace: recovered };
    }
  }

  async listOrphans({ limit, cursor }: PageRequest): Promise<Page<Namespace>> {
    const [after] = placeAfter(cursor, 1) ?? [];
    return pageOf(this.#orphans(after), limit, ({ id }) => cursorOf(id));
  }

  async purge(
    id: string,
    event: AuditEvent,
    auditIn: string,
    onProgress: (recordsDeleted: number) => void,
  ): Promise<PurgeReply> {
    for (let attempt = 0, isMarked = false; !isMarked; attempt++) {
      failAfterMaxConflicts(attempt, `Namespace ${id}`);
      const namespace = await this.#byId(id);
      if (namespace === undefined) return { kind: "missing" };
      if (namespace.status === "active") return { kind: "active", name: namespace.name };
      // From here on it cannot be recovered half; its own record goes last, so that a purge that was cut off is run again.
      const reply = await this.#records.transact([
        updateRecord(namespaceIdKey(id), { set: { [STATUS]: { S: "purging" } } }, exists),
        checkRecord(namespaceNameKey(namespace.name), any(missing, isOther(id))),
      ]);
      isMarked = reply.kind === "applied";
    }
    this.#watch.forget(id);
    const records = await removeNamespace(this.#records, id, onProgress);
    // A namespace that purges itself loses its audit log too, so an event there would be lost.
    const entries = auditIn === id ? [] : [await this.#auditOf(auditIn).entry(event)];
    // Where another process was faster with the last step, it has told the event too.
    await this.#records.transact([deleteRecord(namespaceIdKey(id), exists), ...entries]);
    return { kind: "purged", records };
  }

  async #register(namespace: Namespace, entries: () => Promise<readonly RecordWrite[]>): Promise<Namespace> {
    for (let attempt = 0; ; attempt++) {
      failAfterMaxConflicts(attempt, `Namespace ${namespace.name}`);
      const known = await this.get(namespace.name);
      if (known !== undefined) return known;
      const item = namespaceItem(namespace);
      const reply = await this.#records.transact([
        putRecord(namespaceNameKey(namespace.name), item, any(missing, notActive)),
        putRecord(namespaceIdKey(namespace.id), item, missing),
        ...(await entries()),
      ]);
      if (reply.kind === "applied") return namespace;
      if (!reply.failed.has(0)) throw idTaken(namespace.id);
    }
  }

  async #byId(id: string): Promise<Namespace | undefined> {
    const item = await this.#records.get(namespaceIdKey(id));
    if (item === undefined) return undefined;
    const namespace = namespaceOf(item);
    return namespace.status === "active" && (await this.#isStranded(namespace)) ? stranded(namespace) : namespace;
  }

  // The original deletes the two records one after the other: cut off between, it leaves one that says "active" by an id to
  // which no name leads. That is a deleted namespace.
  async #isStranded({ id, name }: Namespace): Promise<boolean> {
    return (await this.get(name))?.id !== id;
  }

  async *#active(after: string | undefined): AsyncGenerator<Namespace> {
    for await (const item of this.#registry("#NAMESPACE", after)) {
      const namespace = namespaceOf(item);
      if (namespace.status === "active") yield namespace;
    }
  }

  async *#orphans(after: string | undefined): AsyncGenerator<Namespace> {
    for await (const chunk of inChunks(this.#registry("#NSID", after), CHUNK)) {
      const found = chunk.map(namespaceOf);
      const names = await this.#records.getAll(
        found.map(({ name }) => namespaceNameKey(name)),
        { consistent: true },
      );
      for (const [i, namespace] of found.entries()) {
        if (namespace.status !== "active") yield namespace;
        else if (names[i]?.[NAMESPACE_ID]?.S !== namespace.id) yield stranded(namespace);
      }
    }
  }

  #registry(kind: string, after: string | undefined): AsyncGenerator<Attributes> {
    // `!` sorts before every character of names and ids, `$` right after the `#` between them.
    const from = after === undefined ? `${kind}#` : `${kind}#${after}!`;
    return this.#records.query({
      partition: [PK, systemPk(REGISTRY)],
      range: { name: SK, from, to: `${kind}$` },
      consistent: true,
    });
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

function stranded(namespace: Namespace): Namespace {
  return { ...namespace, status: "deleted" };
}
