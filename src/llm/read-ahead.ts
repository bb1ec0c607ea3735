/** An answer whose reader asks for no chunk in this time is read ahead, so that its call ends when the provider has ended it. */
const UNREAD_MS = 1_000;

/** At most this much is read ahead; it waits in memory. */
const AHEAD_MAX = 16_000_000;

/** An answer that has not ended is cancelled if it is not read for this long. */
const LEFT_MS = 600_000;

/**
 * Passes a stream on and makes sure that it ends, even if it is not read: a caller may want the status alone, or forget the answer, and
 * its lease would be held for ever. `sizeOf` is about what a chunk takes of memory.
 */
export function readAhead<Chunk>(
  source: ReadableStream<Chunk>,
  sizeOf: (chunk: Chunk) => number,
): ReadableStream<Chunk> {
  const reader = source.getReader();
  let controller: ReadableStreamDefaultController<Chunk>;
  let hasEnded = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let step: Promise<void> | undefined;
  const after = (ms: number, then: () => void) => {
    clearTimeout(timer);
    timer = setTimeout(then, ms);
    // The timer must not keep the process alive. In browsers and workers it is a number, which has no `unref`.
    (timer as { unref?(): void }).unref?.();
  };
  const readOne = async () => {
    try {
      const { done, value } = await reader.read();
      if (!done) return controller.enqueue(value);
      hasEnded = true;
      controller.close();
    } catch (error) {
      hasEnded = true;
      controller.error(error);
    }
  };
  /** Reads one chunk at a time, for the reader and for reading ahead. */
  const next = () => {
    step ??= readOne().finally(() => {
      step = undefined;
    });
    return step;
  };
  const waiting = () => -(controller.desiredSize ?? 0);
  const cancelUnlessRead = (before: number) =>
    after(LEFT_MS, () => {
      if (waiting() < before) return cancelUnlessRead(waiting());
      hasEnded = true;
      controller.error(new Error(`The answer was not read for ${LEFT_MS / 60_000} minutes, so it was left.`));
      reader.cancel().catch(() => {});
    });
  const goAhead = async () => {
    cancelUnlessRead(waiting());
    while (!hasEnded && waiting() < AHEAD_MAX) await next();
    if (hasEnded) clearTimeout(timer);
  };
  return new ReadableStream<Chunk>(
    {
      start(given) {
        controller = given;
        after(UNREAD_MS, goAhead);
      },
      async pull() {
        clearTimeout(timer);
        await next();
        if (!hasEnded) after(UNREAD_MS, goAhead);
      },
      cancel(reason) {
        hasEnded = true;
        clearTimeout(timer);
        return reader.cancel(reason);
      },
    },
    { highWaterMark: 0, size: sizeOf },
  );
}
