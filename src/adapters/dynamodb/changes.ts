import { ConflictError } from "../../domain/names/errors.ts";
import type { Records } from "./records.ts";
import type { RecordWrite } from "./records-write.ts";
import { RETRY } from "./retry-policy.ts";

/** The outcome of a decision: a reply, and the writes that it needs; none if nothing changes. */
export interface Decision<Reply> {
  readonly reply: Reply;
  /** Each on condition of what was read. */
  readonly writes?: readonly RecordWrite[];
  /** Called when the writes are applied, before the reply. */
  readonly onApplied?: () => void | Promise<void>;
  /** Called when conditions did not hold, with the indexes of those writes. What it throws ends the change. */
  readonly onConflict?: (failed: ReadonlySet<number>) => void;
}

/** Reads, decides and writes in one transaction; starts again if another change came first. */
export async function change<Reply>(
  records: Records,
  what: string,
  decide: () => Promise<Decision<Reply>>,
): Promise<Reply> {
  for (let attempt = 0; ; attempt++) {
    failAfterMaxConflicts(attempt, what);
    const { reply, writes, onApplied, onConflict } = await decide();
    if (writes === undefined) return reply;
    const answer = await records.transact(writes);
    if (answer.kind === "applied") {
      await onApplied?.();
      return reply;
    }
    onConflict?.(answer.failed);
  }
}

/** Ends a change that failed too often because of others: so many conflicts in a row mean that its condition is wrong. */
export function failAfterMaxConflicts(attempt: number, what: string): void {
  if (attempt < RETRY.changesMax) return;
  throw new ConflictError(
    "contended",
    `${what} was changed by others at each of ${RETRY.changesMax} attempts; nothing was changed. Try again.`,
  );
}
