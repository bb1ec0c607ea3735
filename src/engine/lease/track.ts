import type { Tokens } from "../../domain/charge/amounts.ts";
import { LeaseClosed, ValidationError } from "../../domain/names/errors.ts";
import { shown } from "../../domain/names/shown.ts";
import { type StreamEnd, type StreamObserver, trackedStream } from "./tracked-stream.ts";
import { endOfThrown, isGivenBack, type WorkEnd } from "./work-end.ts";

/** What the chunks of a stream say of its cost. Without either, the lease is settled as it was charged. */
export interface TrackOptions<Chunk, Measure extends string = string> {
  /**
   * Whole tokens by measure that the work has come to in total, as far as the chunk tells; `undefined` where it does
   * not. The last number of each measure counts. Default: no chunk tells.
   */
  readonly usageOf?: (chunk: Chunk) => Tokens<Measure | "requests"> | null | undefined;
  /**
   * Tokens by measure that the chunk itself costs; fractions are fine. They are added up, and the sum is rounded up. It
   * counts for a measure of which `usageOf` has told nothing: the total that the lease comes to. Default: nothing
   * is added up.
   */
  readonly outputOf?: (chunk: Chunk) => Tokens<Measure | "requests"> | null | undefined;
}

/** What tracking needs of a lease, of a limiter or of a client. */
export interface TrackableLease {
  /** Ends the stream when it is aborted. */
  readonly signal: AbortSignal;
  settle(totals?: Tokens): Promise<void>;
  rollback(): Promise<void>;
}

/** `lease.track` of every lease: see there. That there are no other options is for the lease to check. */
export function track<Chunk>(
  lease: TrackableLease,
  stream: ReadableStream<Chunk> | AsyncIterable<Chunk>,
  options: TrackOptions<Chunk>,
): ReadableStream<Chunk> | AsyncIterableIterator<Chunk> {
  checkStream(stream);
  const { usageOf, outputOf } = checkFunctions(options);
  // Numbers that are none (`undefined`, NaN) stay what they are: settling refuses them by name.
  const totals = new Map<string, number | undefined>();
  const sums = new Map<string, number>();
  const known = () => Object.fromEntries([...[...sums].map(([name, sum]) => [name, Math.ceil(sum)]), ...totals]);
  const observer: StreamObserver<Chunk> = {
    chunk(chunk) {
      for (const [name, total] of Object.entries(usageOf?.(chunk) ?? {})) totals.set(name, total);
      for (const [name, more] of Object.entries(outputOf?.(chunk) ?? {})) {
        sums.set(name, (sums.get(name) ?? 0) + (more ?? Number.NaN));
      }
    },
    closed: (end, chunks) => closeTracked(lease, { end, work: workOf(end, chunks), totals: known() }),
  };
  return trackedStream(stream, { observer, signal: lease.signal });
}

/** How a tracked stream ended, and what it came to as far as is known. */
interface TrackedEnd {
  readonly end: StreamEnd;
  readonly work: WorkEnd;
  /** By measure; empty: nothing is known. */
  readonly totals: Tokens;
}

/** A stream that throws before its first chunk has failed, unless it was given up. */
function workOf(end: StreamEnd, chunks: number): WorkEnd {
  return end.kind === "failed" && chunks === 0 ? endOfThrown(end.error, []) : "answered";
}

/**
 * Closes the lease of a stream by how its work ended. What the store did not take is no error of the stream: the lease has published
 * that it is degraded.
 */
export async function closeTracked(lease: TrackableLease, { end, work, totals }: TrackedEnd): Promise<void> {
  try {
    if (isGivenBack(work)) return await lease.rollback();
    await (Object.keys(totals).length === 0 ? lease.settle() : lease.settle(totals));
  } catch (error) {
    // A measure that nothing counts, or an amount that is none: the lease is still open, and is kept as it was charged.
    if (error instanceof ValidationError) await lease.settle().catch(() => {});
    // Closed before the stream was read to its end: what it came to is lost. A reader that leaves may come after another close.
    else if (!(error instanceof LeaseClosed) || end.kind !== "ended") return;
    throw error;
  }
}

function checkStream(stream: unknown): void {
  if (typeof stream === "object" && stream !== null) {
    if ("getReader" in stream || Symbol.asyncIterator in stream) return;
  }
  throw new ValidationError(
    "stream_invalid",
    `track was given ${shown(stream)}; give an AsyncIterable or a ReadableStream, not a promise of one.`,
  );
}

function checkFunctions<Chunk>(options: TrackOptions<Chunk>): TrackOptions<Chunk> {
  const { usageOf, outputOf } = options;
  for (const [name, given] of Object.entries({ usageOf, outputOf })) {
    if (given === undefined || typeof given === "function") continue;
    throw new ValidationError("options_invalid", `${name} of track is ${shown(given)}; give a function of a chunk.`);
  }
  return options;
}
