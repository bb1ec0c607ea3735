import type { AuditEvent } from "../domain/audit.ts";
import { DEFAULT_NAMESPACE, type Namespace } from "../domain/namespace.ts";
import type { Page, PageRequest } from "../domain/paging.ts";
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

  async register(namespace: Namespace, event: AuditEvent, auditIn: string): Promise<Namespace> {
    return this.#seen(
      await this.#parts.changes.register({ event, auditIn }, async (reading) => {
        const known = await activeIn(reading, namespace.name);
        if (known !== undefined) return { reply: known, bumped: known.id };
        return { reply: namespace, write: { puts: [namespacePut(namespace)] }, bumped: namespace.id };
      }),
    );
  }

  async get(name: string): Promise<Namespace | undefined> {
    const list = { kind: "namespace", of: "name", name } as const;
    const [found] = await this.#parts.lists.list(REGISTRY, list, undefined, 1);
    return found && this.#seen(listed(found));
  }

  list(page: PageRequest): Promise<Page<Namespace>> {
    return this.#parts.lists.page(REGISTRY, { kind: "namespace", of: "active" }, page, 1, listed);
  }

  delete(name: string, nowMs: number, event: AuditEvent, auditIn: string): Promise<Namespace | undefined> {
    return this.#parts.changes.register<Namespace | undefined>({ event, auditIn }, async (reading) => {
      const namespace = await activeIn(reading, name);
      if (namespace === undefined) return { reply: undefined, bumped: REGISTRY };
      const deleted: Namespace = { ...namespace, status: "deleted", deletedAtMs: nowMs };
      return { reply: deleted, write: { puts: [namespacePut(deleted)] }, bumped: namespace.id };
    });
  }

  recover(id: string, event: AuditEvent, auditIn: string): Promise<RecoverReply> {
    return this.#parts.changes.register({ event, auditIn }, async (reading) => ({
      ...(await recovered(reading, id)),
      bumped: id,
    }));
  }

  listOrphans(page: PageRequest): Promise<Page<Namespace>> {
    return this.#parts.lists.page(REGISTRY, { kind: "namespace", of: "orphans" }, page, 1, listed);
  }

  async withDueLeases(untilMs: number): Promise<readonly DueNamespace[]> {
    const list = { kind: "namespace", of: "due", untilMs } as const;
    const found = await this.#parts.lists.list(REGISTRY, list, undefined, Number.MAX_SAFE_INTEGER);
    return found.map((record) => ({ namespace: listed(record), sinceMs: 0 }));
  }

  nothingDue(): void {
    // What is due is known exactly.
  }

  purge(
    id: string,
    event: AuditEvent,
    auditIn: string,
    onProgress: (recordsDeleted: number) => void,
  ): Promise<PurgeReply> {
    return purge(this.#parts, id, { event, auditIn }, onProgress);
  }

  /** Its generation is looked at once, so that the first take does not go by one that was never seen. */
  async #seen(namespace: Namespace): Promise<Namespace> {
    const { generations, lists } = this.#parts;
    if (generations.of(namespace.id) === 0) await lists.get(namespace.id, [namespaceKey(namespace.id)]);
    return namespace;
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

async function recovered(reading: Reading, id: string): Promise<Decision<RecoverReply>> {
  const [record] = await reading.get([namespaceKey(id)]);
  if (record === undefined) return { reply: { kind: "missing" } };
  const { deletedAtMs: _, ...namespace } = namespaceOf(record);
  if (namespace.status !== "deleted") return { reply: { kind: "notDeleted", status: namespace.status } };
  if ((await activeIn(reading, namespace.name)) !== undefined) {
    return { reply: { kind: "nameTaken", name: namespace.name } };
  }
  const active: Namespace = { ...namespace, status: "active" };
  return { reply: { kind: "recovered", namespace: active }, write: { puts: [namespacePut(active)] } };
}

async function activeIn(reading: Reading, name: string): Promise<Namespace | undefined> {
  const [found] = await reading.list({ kind: "namespace", of: "name", name }, undefined, 1);
  return found && listed(found);
}

function listed({ key, body }: ListedRecord): Namespace {
  return namespaceOf({ kind: "namespace", key, body });
}
