import type { AuditEvent } from "../../domain/config/audit.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
import type { CopyStore } from "../../ports/copy-store.ts";
import type { Digest } from "../../ports/system.ts";
import { copyOn } from "../../records/copies.ts";
import type { ScopedRecords } from "../../records/scoped-records.ts";
import { bookPut } from "../../records/usage.ts";
import { copiedMarks, rowOf } from "../../straight/row-codec.ts";
import type { RedisBatches } from "./batches.ts";
import type { RedisRecords } from "./records.ts";

interface CopyParts {
  readonly records: RedisRecords;
  readonly batches: RedisBatches;
  readonly calendar: Calendar;
  readonly digest: Digest;
}

/** A namespace as it is copied from or to. */
export function redisCopies({ records, batches, calendar, digest }: CopyParts, scoped: ScopedRecords): CopyStore {
  const { scope: namespaceId } = scoped;
  const roomForHeld = false;
  return copyOn(
    { records: scoped, store: records },
    {
      buckets: (rows) =>
        batches.putBuckets(
          namespaceId,
          rows.map(({ key, record }) => ({
            ...{ key, row: rowOf(record, (text) => digest.of(text)) },
            marks: copiedMarks(record, calendar),
          })),
        ),
      usage: (rows) => batches.putUsage(namespaceId, rows),
      counts: async (kind, rows) => {
        const puts = rows.map((row) => bookPut(kind, row));
        const guard = { kind: "versions", versions: [] } as const;
        const bare = { guard, deletes: [], event: undefined, bumps: [], touched: [] } as const;
        const reply = await records.commit({ ...bare, scope: namespaceId, puts, sent: "first" });
        if (reply.kind === "unavailable") throw reply.cause;
      },
      events: (events: readonly AuditEvent[]) => records.logAll(namespaceId, events),
    },
    { roomForHeld },
  );
}
