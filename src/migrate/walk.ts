import { PK } from "../adapters/dynamodb/schema.ts";
import { addCounts, NO_COUNTS, type StepCounts } from "./planned.ts";
import type { MigratedTable, ScanKey } from "./table.ts";

/** The place at which each segment continues; "end": it is done. */
export type Cursors = readonly (ScanKey | "end")[];

/** Segments that are scanned side by side. */
const SEGMENTS = 4;
/** Partitions of each segment that are visited at once. */
const AT_ONCE = 8;

export const FROM_THE_BEGINNING: Cursors = Array.from({ length: SEGMENTS }, () => null);

interface Walk {
  readonly from: Cursors;
  /** Stops after the partitions in hand. */
  readonly signal: AbortSignal;
  /** Visits a partition and returns what there is to do in it. */
  readonly visit: (pk: string) => Promise<StepCounts>;
  /** Called when all partitions of a page are done, with what there was to do in them. */
  readonly onPage?: (cursors: Cursors, counts: StepCounts) => Promise<void>;
}

/** Visits every partition once, several at a time. Throws the first fault, after the others have stopped. */
export async function walk(table: MigratedTable, { from, signal, visit, onPage }: Walk): Promise<void> {
  const cursors = [...from];
  const stop = new AbortController();
  const ended = AbortSignal.any([signal, stop.signal]);
  let saving = Promise.resolve();
  const segment = async (index: number) => {
    // A partition that continues on the next page was visited as a whole.
    let last = pkIn(cursors[index]);
    while (cursors[index] !== "end") {
      ended.throwIfAborted();
      const at = { segment: index, segments: cursors.length };
      const { pks, next } = await table.scan(at, cursors[index] as ScanKey);
      const left = pks.filter((pk) => pk !== last);
      const counts = await each(left, ended, visit);
      last = pks.at(-1) ?? last;
      cursors[index] = next ?? "end";
      const reached = [...cursors];
      // Saves run one after the other: each has the place of all segments.
      saving = saving.then(() => onPage?.(reached, counts));
      await saving;
    }
  };
  const results = await Promise.allSettled(
    cursors.map((_, index) =>
      segment(index).catch((error: unknown) => {
        stop.abort(error);
        throw error;
      }),
    ),
  );
  signal.throwIfAborted();
  if (stop.signal.aborted) throw stop.signal.reason;
  for (const result of results) if (result.status === "rejected") throw result.reason;
}

async function each(pks: readonly string[], ended: AbortSignal, visit: Walk["visit"]): Promise<StepCounts> {
  const left = [...pks];
  let counts = NO_COUNTS;
  const worker = async () => {
    for (let pk = left.shift(); pk !== undefined; pk = left.shift()) {
      ended.throwIfAborted();
      const own = await visit(pk);
      counts = addCounts(counts, own);
    }
  };
  const results = await Promise.allSettled(Array.from({ length: AT_ONCE }, worker));
  for (const result of results) if (result.status === "rejected") throw result.reason;
  return counts;
}

function pkIn(cursor: ScanKey | "end" | undefined): string | undefined {
  if (cursor === null || cursor === undefined || cursor === "end") return undefined;
  return (cursor[PK] as { readonly S?: string } | undefined)?.S;
}
