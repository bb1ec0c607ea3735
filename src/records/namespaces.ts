import type { AuditEvent } from "../domain/config/audit.ts";
import { DEFAULT_NAMESPACE, type Namespace } from "../domain/config/namespace.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import { andThen, run, type Steps } from "../domain/steps.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import type { DueNamespace, NamespaceStore, PurgeReply, RecoverReply } from "../ports/namespace-store.ts";
import type { ListedRecord } from "../ports/record-store.ts";
import { namespaceOf, namespacePut } from "./bodies.ts";
import type { Decision } from "./changes.ts";
import { namespaceKey, REGISTRY } from "./keys.ts";
import type { RecordParts } from "./parts.ts";
import { purge } from "./purge.ts";
import type { Reading } from "./reading.ts";

export class RecordNamespaces implements NamespaceStore {
  readonly #parts: RecordParts;

  constructor(parts: RecordParts) {
    this.#parts = parts;
  }

  register(namespace: Namespace, event: AuditEvent, auditIn: string): MaybePromise<Namespace> {
    const registered = this.#parts.changes.register({ event, auditIn }, function* (reading) {
      const known = yield* activeIn(reading, namespace.name);
      if (known !== undefined) return { reply: known, bumped: known.id };
      return { reply: namespace, write: { puts: [namespacePut(namespace)] }, bumped: namespace.id };
    });
    return andThen(registered, (active) => this.#seen(active));
  }

  get(name: string): MaybePromise<Namespace | undefined> {
    const list = { kind: "namespace", of: "name", name } as const;
    return andThen(
      this.#parts.lists.list(REGISTRY, list, undefined, 1),
      ([found]) => found && this.#seen(listed(found)),
    );
  }

  list(page: PageRequest): MaybePromise<Page<Namespace>> {
    return this.#parts.lists.page(REGISTRY, { kind: "namespace", of: "active" }, page, 1, listed);
  }

  delete(name: string, nowMs: number, event: AuditEvent, auditIn: string): MaybePromise<Namespace | undefined> {
    return this.#parts.changes.register<Namespace | undefined>({ event, auditIn }, function* (reading) {
      const namespace = yield* activeIn(reading, name);
      if (namespace === undefined) return { reply: undefined, bumped: REGISTRY };
      const deleted: Namespace = { ...namespace, status: "deleted", deletedAtMs: nowMs };
      return { reply: deleted, write: { puts: [namespacePut(deleted)] }, bumped: namespace.id };
    });
  }

  recover(id: string, event: AuditEvent, auditIn: string): MaybePromise<RecoverReply> {
    return this.#parts.changes.register({ event, auditIn }, function* (reading) {
      return { ...(yield* recovered(reading, id)), bumped: id };
    });
  }

  listOrphans(page: PageRequest): MaybePromise<Page<Namespace>> {
    return this.#parts.lists.page(REGISTRY, { kind: "namespace", of: "orphans" }, page, 1, listed);
  }

  withDueLeases(untilMs: number): MaybePromise<readonly DueNamespace[]> {
    const list = { kind: "namespace", of: "due", untilMs } as const;
    return andThen(this.#parts.lists.list(REGISTRY, list, undefined, Number.MAX_SAFE_INTEGER), (found) =>
      found.map((record) => ({ namespace: listed(record), sinceMs: 0 })),
    );
  }

  nothingDue(): void {
    // What is due is known exactly.
  }

  purge(
    id: string,
    event: AuditEvent,
    auditIn: string,
    onProgress: (recordsDeleted: number) => void,
  ): MaybePromise<PurgeReply> {
    return run(purge(this.#parts, id, { event, auditIn }, onProgress));
  }

  /** Its generation is looked at once, so that the first take does not go by one that was never seen. */
  #seen(namespace: Namespace): MaybePromise<Namespace> {
    const { generations, lists } = this.#parts;
    if (generations.of(namespace.id) > 0) return namespace;
    return andThen(lists.get(namespace.id, [namespaceKey(namespace.id)]), () => namespace);
  }
}

/** The namespace that a store has from its beginning. Its id is fixed, so that two processes may make it at once. */
export const DEFAULT: Namespace = {
  id: DEFAULT_NAMESPACE,
  name: DEFAULT_NAMESPACE,
  status: "active",
  createdAtMs: 0,
};

/** Makes the namespace `default` where there is none of that name. */
export async function ensureDefault({ lists, store }: RecordParts): Promise<void> {
  const list = { kind: "namespace", of: "name", name: DEFAULT_NAMESPACE } as const;
  const [known] = await lists.list(REGISTRY, list, undefined, 1);
  if (known !== undefined) return;
  const versions = [{ ...namespaceKey(DEFAULT.id), version: 0 }];
  const puts = [namespacePut(DEFAULT)];
  const reply = await store.commit({
    ...{
      scope: REGISTRY,
      guard: { kind: "versions", versions },
      puts,
      deletes: [],
      event: undefined,
      bumps: [],
      sent: "first",
    },
  });
  if (reply.kind === "unavailable") throw reply.cause;
}

function* recovered(reading: Reading, id: string): Steps<Decision<RecoverReply>> {
  const [record] = yield* reading.get([namespaceKey(id)]);
  if (record === undefined) return { reply: { kind: "missing" } };
  const { deletedAtMs: _, ...namespace } = namespaceOf(record);
  if (namespace.status !== "deleted") return { reply: { kind: "notDeleted", status: namespace.status } };
  if ((yield* activeIn(reading, namespace.name)) !== undefined) {
    return { reply: { kind: "nameTaken", name: namespace.name } };
  }
  const active: Namespace = { ...namespace, status: "active" };
  return { reply: { kind: "recovered", namespace: active }, write: { puts: [namespacePut(active)] } };
}

function* activeIn(reading: Reading, name: string): Steps<Namespace | undefined> {
  const [found] = yield* reading.list({ kind: "namespace", of: "name", name }, undefined, 1);
  return found && listed(found);
}

function listed({ key, body }: ListedRecord): Namespace {
  return namespaceOf({ kind: "namespace", key, body });
}
