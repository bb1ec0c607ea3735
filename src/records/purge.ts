import type { AuditEvent } from "../domain/config/audit.ts";
import { type Steps, waitFor } from "../domain/steps.ts";
import type { PurgeReply } from "../ports/namespace-store.ts";
import type { CommitReply } from "../ports/record-store.ts";
import { namespaceOf, namespacePut } from "./bodies.ts";
import { CommitUnavailable, type Decision } from "./changes.ts";
import { namespaceKey } from "./keys.ts";
import type { RecordParts } from "./parts.ts";

/** Rows of one step where the store does not say: a transaction of some milliseconds. */
const CHUNK_ROWS = 1_000;

/**
 * Removes a deleted namespace in steps. It is marked first, so that it cannot be recovered half; its own record goes last, so that a
 * purge that was cut off is found and run again.
 */
export function* purge(
  { changes, store }: RecordParts,
  id: string,
  about: { readonly event: AuditEvent; readonly auditIn: string },
  onProgress: (recordsDeleted: number) => void,
): Steps<PurgeReply> {
  const marked = { event: undefined, auditIn: about.auditIn };
  const refusal = yield* waitFor(
    changes.register<PurgeReply | undefined>(marked, function* (reading) {
      const [record] = yield* reading.get([namespaceKey(id)]);
      return { ...begun(record && namespaceOf(record)), bumped: id };
    }),
  );
  if (refusal !== undefined) return refusal;
  let records = 0;
  const limitMax = store.purgedAtOnce ?? CHUNK_ROWS;
  for (let mayBeMore = true; mayBeMore; ) {
    const reply = yield* waitFor(
      store.commit({
        ...{ scope: id, guard: { kind: "versions", versions: [] }, puts: [], event: undefined, bumps: [] },
        deletes: [{ kind: "someIn", namespaceId: id, limitMax }],
        sent: "first",
      }),
    );
    const deleted = deletedBy(reply, limitMax);
    mayBeMore = deleted >= limitMax || (reply.kind === "done" && reply.mayBeMore === true);
    records += deleted;
    if (deleted > 0) onProgress(records);
  }
  yield* waitFor(
    changes.register<void>(about, function* (reading) {
      yield* reading.get([]);
      return { reply: undefined, write: { deletes: [namespaceKey(id)] }, bumped: id };
    }),
  );
  return { kind: "purged", records };
}

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
