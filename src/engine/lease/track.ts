import type { Tokens } from "../../domain/charge/amounts.ts";
import { LeaseClosed, ValidationError } from "../../domain/names/errors.ts";
import { shown } from "../../domain/names/shown.ts";
import { endOfThrown, isGivenBack, type WorkEnd } from "./work-end.ts";

/** The end of a stream: it was read to its end, its reader left, its signal was aborted, or it failed. */
export type StreamEnd =
  | { readonly kind: "ended" }
  | { readonly kind: "left" }
  | { readonly kind: "aborted"; readonly reason: unknown }
  | { readonly kind: "failed"; readonly error: unknown };

interface StreamObserver<Chunk> {
  /** Called with each chunk before its reader gets it. If it throws, the stream ends. */
  chunk(chunk: Chunk): void;
  /** Called once at the end, with the number of chunks. The reader's end waits for it, and gets its error. */
  closed(end: StreamEnd, chunks: number): Promise<void>;
}

interface TrackedStream<Chunk> {
  readonly observer: StreamObserver<Chunk>;
  /** Ends the stream: the reader gets the reason, the source is told to stop. */
  readonly signal: AbortSignal;
}

/** Passes chunks on, each as soon as its source has it. A `ReadableStream` becomes one, anything else an iterator. */
export function trackedStream<Chunk>(
  source: ReadableStream<Chunk> | AsyncIterable<Chunk>,
  tracked: TrackedStream<Chunk>,
): ReadableStream<Chunk> | AsyncIterableIterator<Chunk> {
  return isReadable(source) ? readableOf(source, tracked) : iteratorOf(source, tracked);
}

/** Checks a method, not the class: other realms and polyfills have their own. */
function isReadable<Chunk>(source: ReadableStream<Chunk> | AsyncIterable<Chunk>): source is ReadableStream<Chunk> {
  return typeof (source as Partial<ReadableStream<Chunk>>).getReader === "function";
}

function iteratorOf<Chunk>(
  source: AsyncIterable<Chunk>,
  { observer, signal }: TrackedStream<Chunk>,
): AsyncIterableIterator<Chunk> {
  let iterator: AsyncIterator<Chunk> | undefined;
  const opened = () => (iterator ??= source[Symbol.asyncIterator]());
  const passage = new Passage<Chunk>({ next: () => opened().next(), leave: () => opened().return?.() }, observer);
  passage.endOn(signal);
  const tracked: AsyncIterableIterator<Chunk> = {
    next: () => passage.next(),
    async return(value?: unknown) {
      await passage.leave(undefined);
      return { done: true, value };
    },
    [Symbol.asyncIterator]: () => tracked,
  };
  return tracked;
}

function readableOf<Chunk>(
  source: ReadableStream<Chunk>,
  { observer, signal }: TrackedStream<Chunk>,
): ReadableStream<Chunk> {
  const reader = source.getReader();
  const passage = new Passage<Chunk>(
    {
      next: async () => {
        const { done, value } = await reader.read();
        return done ? { done, value: undefined } : { done, value };
      },
      leave: (reason) => reader.cancel(reason),
    },
    observer,
  );
  return new ReadableStream<Chunk>(
    {
      start(controller) {
        passage.onAbort = (reason) => controller.error(reason);
        passage.endOn(signal);
      },
      async pull(controller) {
        const step = await passage.next();
        if (step.done) controller.close();
        else controller.enqueue(step.value);
      },
      cancel: (reason) => passage.leave(reason),
    },
    // Nothing is read ahead: a chunk that the reader never asks for was not delivered.
    { highWaterMark: 0 },
  );
}

interface Source<Chunk> {
  next(): Promise<IteratorResult<Chunk>>;
  leave(reason: unknown): PromiseLike<unknown> | undefined;
}

/** Hands chunks from a source to a reader until the first of: the end, the reader's leaving, a failure, an abort. */
class Passage<Chunk> {
  onAbort: (reason: unknown) => void = () => {};
  readonly #source: Source<Chunk>;
  readonly #observer: StreamObserver<Chunk>;
  #chunks = 0;
  #closed: Promise<void> | undefined;
  #stopListening: () => void = () => {};
  /** The reason of an abort, which the next read throws once. */
  #thrown: { readonly reason: unknown } | undefined;
  /** Reads that wait for the source. An abort ends them even if the source ignores the signal. */
  readonly #waiting = new Set<(reason: unknown) => void>();

  constructor(source: Source<Chunk>, observer: StreamObserver<Chunk>) {
    this.#source = source;
    this.#observer = observer;
  }

  endOn(signal: AbortSignal): void {
    const abort = () => this.#abort(signal.reason);
    if (signal.aborted) {
      abort();
      return;
    }
    signal.addEventListener("abort", abort, { once: true });
    this.#stopListening = () => signal.removeEventListener("abort", abort);
  }

  async next(): Promise<IteratorResult<Chunk>> {
    if (this.#closed !== undefined) return this.#afterTheEnd();
    let step: IteratorResult<Chunk>;
    try {
      step = await this.#read();
      if (!step.done && this.#closed === undefined) this.#observer.chunk(step.value);
    } catch (error) {
      if (this.#closed === undefined) {
        await this.#close({ kind: "failed", error }).catch(ignored);
        // The error may be that of the observer: the source must be told to stop.
        this.#leaveSource(error);
      }
      throw error;
    }
    // The reader left while the source was asked.
    if (this.#closed !== undefined) return { done: true, value: undefined };
    if (step.done) {
      await this.#close({ kind: "ended" });
      return step;
    }
    this.#chunks++;
    return step;
  }

  async leave(reason: unknown): Promise<void> {
    if (this.#closed !== undefined) return;
    const closed = this.#close({ kind: "left" });
    const left = (async () => this.#source.leave(reason))();
    // A rejection of the first that is awaited must not leave the other unhandled.
    await Promise.allSettled([closed, left]);
    await left;
    await closed;
  }

  #read(): Promise<IteratorResult<Chunk>> {
    return new Promise((resolve, reject) => {
      this.#waiting.add(reject);
      const over = () => this.#waiting.delete(reject);
      this.#source.next().then(resolve, reject).finally(over);
    });
  }

  #abort(reason: unknown): void {
    if (this.#closed !== undefined) return;
    this.#close({ kind: "aborted", reason }).catch(ignored);
    const waiting = [...this.#waiting];
    for (const reject of waiting) reject(reason);
    if (waiting.length === 0) this.#thrown = { reason };
    this.onAbort(reason);
    this.#leaveSource(reason);
  }

  #leaveSource(reason: unknown): void {
    (async () => this.#source.leave(reason))().catch(ignored);
  }

  async #afterTheEnd(): Promise<IteratorResult<Chunk>> {
    const thrown = this.#thrown;
    this.#thrown = undefined;
    if (thrown !== undefined) throw thrown.reason;
    return { done: true, value: undefined };
  }

  #close(end: StreamEnd): Promise<void> {
    this.#stopListening();
    this.#closed = this.#observer.closed(end, this.#chunks);
    return this.#closed;
  }
}

function ignored(): void {}

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

/** The methods of a lease that tracking needs. */
export interface TrackableLease {
  /** Ends the stream when it is aborted. */
  readonly signal: AbortSignal;
  settle(totals?: Tokens): Promise<void>;
  rollback(): Promise<void>;
}

/** Implements `lease.track`. The lease has checked that there are no other options. */
export function track<Chunk>(
  lease: TrackableLease,
  stream: ReadableStream<Chunk> | AsyncIterable<Chunk>,
  options: TrackOptions<Chunk>,
): ReadableStream<Chunk> | AsyncIterableIterator<Chunk> {
  checkStream(stream);
  const { usageOf, outputOf } = checkFunctions(options);
  // `undefined` and NaN stay: settling refuses them by name.
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

/** The end of a tracked stream, with its known totals. */
interface TrackedEnd {
  readonly end: StreamEnd;
  readonly work: WorkEnd;
  /** By measure; empty: unknown. */
  readonly totals: Tokens;
}

/** A stream that throws before its first chunk has failed, unless it was aborted. */
function workOf(end: StreamEnd, chunks: number): WorkEnd {
  return end.kind === "failed" && chunks === 0 ? endOfThrown(end.error, []) : "answered";
}

/**
 * Closes the lease of a stream. A store that did not answer is no error of the stream: the lease has published that it is degraded.
 */
export async function closeTracked(lease: TrackableLease, { end, work, totals }: TrackedEnd): Promise<void> {
  try {
    if (isGivenBack(work)) return await lease.rollback();
    await (Object.keys(totals).length === 0 ? lease.settle() : lease.settle(totals));
  } catch (error) {
    // A measure that no limit counts, or an invalid amount: the lease is still open, and is kept as charged.
    if (error instanceof ValidationError) await lease.settle().catch(() => {});
    // Closed before the end of the stream: its totals are lost. A reader that leaves may come after another close.
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
