/** How a stream ended: it was read to its end, its reader left, its signal was aborted, or it failed. */
export type StreamEnd =
  | { readonly kind: "ended" }
  | { readonly kind: "left" }
  | { readonly kind: "aborted"; readonly reason: unknown }
  | { readonly kind: "failed"; readonly error: unknown };

/** What is told of a stream while it is passed on. */
export interface StreamObserver<Chunk> {
  /** Each chunk, before its reader gets it. What it throws ends the stream. */
  chunk(chunk: Chunk): void;
  /** Once, whichever way the stream ends; `chunks` is how many came. The reader's end waits for it, and gets what it throws. */
  closed(end: StreamEnd, chunks: number): Promise<void>;
}

/** A stream that is passed on, and what is told of it. */
interface TrackedStream<Chunk> {
  readonly observer: StreamObserver<Chunk>;
  /** Ends the stream: its reader gets the reason, its source is told to stop. */
  readonly signal: AbortSignal;
}

/** The same chunks, each as soon as its source has it. A `ReadableStream` becomes one, anything else an iterator. */
export function trackedStream<Chunk>(
  source: ReadableStream<Chunk> | AsyncIterable<Chunk>,
  tracked: TrackedStream<Chunk>,
): ReadableStream<Chunk> | AsyncIterableIterator<Chunk> {
  return isReadable(source) ? readableOf(source, tracked) : iteratorOf(source, tracked);
}

/** Not by its class: other realms and polyfills have their own. */
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
    // Nothing is read ahead: a chunk that its reader never asks for was not delivered.
    { highWaterMark: 0 },
  );
}

interface Source<Chunk> {
  next(): Promise<IteratorResult<Chunk>>;
  /** Tells the source that no more is read. */
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
  /** Of an abort: what the next read throws, once. */
  #thrown: { readonly reason: unknown } | undefined;
  /** Reads that wait for the source. An abort ends them, also where the source does not listen to the signal. */
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
        // The source may be well, and what counts its chunks at fault.
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
