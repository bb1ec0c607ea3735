/** An answer that nobody asks for a chunk of for so long is read ahead, so that its call ends when the provider has ended it. */
const UNREAD_MS = 1_000;

/** What is read ahead waits in memory; no more is read than this. */
const AHEAD_MAX = 16_000_000;

/** An answer that has not ended and that nobody reads for so long is left. */
const LEFT_MS = 600_000;

/**
 * The same stream, which has an end even if nobody reads it: a caller may want the status alone, or forget the answer. Its lease would be
 * held for ever otherwise. `sizeOf` is what a chunk takes of memory, about.
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
    // It must not keep the process alive. Browsers and workers answer a number, which has no `unref`.
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
  /** One at a time, whoever asks for it. */
  const next = () => {
    step ??= readOne().finally(() => {
      step = undefined;
    });
    return step;
  };
  const waiting = () => -(controller.desiredSize ?? 0);
  const leaveUnlessRead = (before: number) =>
    after(LEFT_MS, () => {
      if (waiting() < before) return leaveUnlessRead(waiting());
      hasEnded = true;
      controller.error(new Error(`The answer was not read for ${LEFT_MS / 60_000} minutes, so it was left.`));
      reader.cancel().catch(() => {});
    });
  const goAhead = async () => {
    leaveUnlessRead(waiting());
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
