import type { AuditEvent } from "../domain/config/audit.ts";
import { DEFAULT_NAMESPACE, type Namespace } from "../domain/config/namespace.ts";
import { andThen, run, type Steps, waitFor } from "../domain/steps.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import type { EndCopyReply, NamespaceStore, PurgeReply, RecoverReply } from "../ports/config-store.ts";
import type { CommitReply, ListedRecord, RecordCommit } from "../ports/record-store.ts";
import { namespaceKey, namespaceOf, namespacePut, REGISTRY } from "./bodies.ts";
import type { Reading } from "./reading.ts";
import { CommitUnavailable, type Decision, type RecordParts, ScopedRecords } from "./scoped-records.ts";

/** Rows of one step where the store does not say: a transaction of some milliseconds. */
const CHUNK_ROWS = 1_000;

/**
 * Removes a deleted namespace in steps. It is marked first, so that it cannot be recovered half; its own record goes last, so that a
 * purge that was cut off is found and run again.
 */
function* purge(
  { store, registry }: RegistryParts,
  id: string,
  about: { readonly event: AuditEvent; readonly auditIn: string },
  onProgress: (recordsDeleted: number) => void,
): Steps<PurgeReply> {
  const marked = { event: undefined, auditIn: about.auditIn };
  const refusal = yield* waitFor(
    registry.register<PurgeReply | undefined>(marked, function* (reading) {
      const [record] = yield* reading.get([namespaceKey(id)]);
      return { ...begun(record && namespaceOf(record)), bumped: id };
    }),
  );
  if (refusal !== undefined) return refusal;
  let records = 0;
  const limitMax = store.purgedAtOnce ?? CHUNK_ROWS;
  for (let mayBeMore = true; mayBeMore; ) {
    const deletes = [{ kind: "someIn", namespaceId: id, limitMax }] as const;
    const reply = yield* waitFor(store.commit({ ...BARE, scope: id, deletes }));
    const deleted = deletedBy(reply, limitMax);
    mayBeMore = deleted >= limitMax || (reply.kind === "done" && reply.mayBeMore === true);
    records += deleted;
    if (deleted > 0) onProgress(records);
  }
  yield* waitFor(
    registry.register<void>(about, function* (reading) {
      yield* reading.get([]);
      return { reply: undefined, write: { deletes: [namespaceKey(id)] }, bumped: id };
    }),
  );
  return { kind: "purged", records };
}

interface RegistryParts extends RecordParts {
  readonly registry: ScopedRecords;
}

/** A commit that is no change of configuration, and on no condition. */
const BARE: Omit<RecordCommit, "scope"> = {
  guard: { kind: "versions", versions: [] },
  puts: [],
  deletes: [],
  event: undefined,
  bumps: [],
  touched: [],
  sent: "first",
};

function begun(namespace: ReturnType<typeof namespaceOf> | undefined): Decision<PurgeReply | undefined> {
  if (namespace === undefined) return { reply: { kind: "missing" } };
  if (namespace.status === "active") return { reply: { kind: "active", name: namespace.name } };
  return { reply: undefined, write: { puts: [namespacePut({ ...namespace, status: "purging" })] } };
}

/** A step whose answer was lost is no harm: the next one goes on where it ended. */
function deletedBy(reply: CommitReply, limitMax: number): number {
  if (reply.kind === "done") return reply.deleted;
  if (reply.kind === "moved") return limitMax;
  throw new CommitUnavailable(reply.applied, reply.cause);
}

export function namespacesOn(parts: RecordParts): NamespaceStore {
  const registry = new ScopedRecords(parts, REGISTRY);
  /** Looks at the generation of a namespace once, so that the first take does not go by one that was never seen. */
  const seen = (namespace: Namespace): MaybePromise<Namespace> => {
    const records = new ScopedRecords(parts, namespace.id);
    if (records.generation() > 0) return namespace;
    return andThen(records.get([namespaceKey(namespace.id)]), () => namespace);
  };
  return {
    register: (namespace, event, auditIn) => {
      const registered = registry.register({ event, auditIn }, function* (reading) {
        const known = yield* activeIn(reading, namespace.name);
        if (known !== undefined) return { reply: known, bumped: known.id };
        return { reply: namespace, write: { puts: [namespacePut(namespace)] }, bumped: namespace.id };
      });
      return andThen(registered, seen);
    },
    get: (name) => {
      const list = { kind: "namespace", of: "name", name } as const;
      return andThen(registry.list(list, undefined, 1), ([found]) => found && seen(listed(found)));
    },
    list: (page) => registry.page({ kind: "namespace", of: "active" }, page, 1, listed),
    delete: (name, nowMs, event, auditIn) =>
      registry.register<Namespace | undefined>({ event, auditIn }, function* (reading) {
        const namespace = yield* activeIn(reading, name);
        if (namespace === undefined) return { reply: undefined, bumped: REGISTRY };
        const deleted: Namespace = { ...namespace, status: "deleted", deletedAtMs: nowMs };
        return { reply: deleted, write: { puts: [namespacePut(deleted)] }, bumped: namespace.id };
      }),
    recover: (id, event, auditIn) =>
      registry.register({ event, auditIn }, function* (reading) {
        return { ...(yield* recovered(reading, id)), bumped: id };
      }),
    beginCopy: (namespace, from) =>
      registry.register<boolean>({ event: undefined, auditIn: namespace.id }, function* (reading) {
        const active = yield* activeIn(reading, namespace.name);
        const isFree = from === "nothing" ? active === undefined : active?.id === namespace.id;
        const hidden: Namespace = { ...namespace, status: "copying" };
        const write = isFree ? { write: { puts: [namespacePut(hidden)] } } : {};
        return { reply: isFree, bumped: namespace.id, ...write };
      }),
    endCopy: (id, event) =>
      registry.register<EndCopyReply>({ event, auditIn: id }, function* (reading) {
        return { ...(yield* shownAgain(reading, id)), bumped: id };
      }),
    listOrphans: (page) => registry.page({ kind: "namespace", of: "orphans" }, page, 1, listed),
    withDueLeases: (untilMs) => {
      const list = { kind: "namespace", of: "due", untilMs } as const;
      return andThen(registry.list(list, undefined, Number.MAX_SAFE_INTEGER), (found) =>
        found.map((record) => ({ namespace: listed(record), sinceMs: 0 })),
      );
    },
    nothingDue: () => {
      // The list of due leases is exact.
    },
    purge: (id, event, auditIn, onProgress) => run(purge({ ...parts, registry }, id, { event, auditIn }, onProgress)),
  };
}

/** The namespace that a store has from its beginning. Its id is fixed, so that two processes may make it at once. */
export const DEFAULT: Namespace = {
  id: DEFAULT_NAMESPACE,
  name: DEFAULT_NAMESPACE,
  status: "active",
  createdAtMs: 0,
};

/** Makes the namespace `default` where there is none of that name. */
export async function ensureDefault(parts: RecordParts): Promise<void> {
  const list = { kind: "namespace", of: "name", name: DEFAULT_NAMESPACE } as const;
  const [known] = await new ScopedRecords(parts, REGISTRY).list(list, undefined, 1);
  if (known !== undefined) return;
  const guard = { kind: "versions", versions: [{ ...namespaceKey(DEFAULT.id), version: 0 }] } as const;
  const reply = await parts.store.commit({ ...BARE, scope: REGISTRY, guard, puts: [namespacePut(DEFAULT)] });
  if (reply.kind === "unavailable") throw reply.cause;
}

/** The ids of all namespaces, also of those that are deleted, and may be recovered. */
export async function everyNamespace(namespaces: NamespaceStore): Promise<readonly string[]> {
  const ids: string[] = [];
  for (const list of ["list", "listOrphans"] as const) {
    let page = await namespaces[list]({ limit: 100 });
    for (;;) {
      ids.push(...page.items.map(({ id }) => id));
      if (page.cursor === undefined) break;
      page = await namespaces[list]({ limit: 100, cursor: page.cursor });
    }
  }
  return ids;
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

function* shownAgain(reading: Reading, id: string): Steps<Decision<EndCopyReply>> {
  const [record] = yield* reading.get([namespaceKey(id)]);
  const namespace = record && namespaceOf(record);
  if (namespace?.status !== "copying") return { reply: "missing" };
  if ((yield* activeIn(reading, namespace.name)) !== undefined) return { reply: "nameTaken" };
  return { reply: "active", write: { puts: [namespacePut({ ...namespace, status: "active" })] } };
}

function* activeIn(reading: Reading, name: string): Steps<Namespace | undefined> {
  const [found] = yield* reading.list({ kind: "namespace", of: "name", name }, undefined, 1);
  return found && listed(found);
}

function listed({ key, body }: ListedRecord): Namespace {
  return namespaceOf({ kind: "namespace", key, body });
}
