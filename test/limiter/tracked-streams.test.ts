import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { describe, test } from "node:test";
import { LeaseClosed, RateLimiterUnavailable, ValidationError } from "../../src/entry/index.ts";
import { gpt, heldBy, openLimiter } from "./limiter-kit.ts";

interface Chunk {
  readonly text: string;
  readonly usage?: { readonly tpm: number };
}

const CHUNKS: readonly Chunk[] = [
  { text: "one " },
  { text: "two " },
  { text: "three" },
  { text: "", usage: { tpm: 730 } },
];
const usageOf = ({ usage }: Chunk) => usage;
const outputOf = ({ text }: Chunk) => ({ tpm: text.length / 4 });

/** A lease of 1,000 tokens, counting how often it is settled or rolled back. */
async function openLease(signal?: AbortSignal) {
  const { limiter } = await openLimiter();
  const request = { ...gpt, consume: { rpm: 1, tpm: 1_000 } };
  const lease = await limiter.acquire(signal === undefined ? request : { ...request, signal });
  const closes: string[] = [];
  for (const name of ["settle", "rollback"] as const) {
    const plain = lease[name].bind(lease) as (...args: unknown[]) => Promise<void>;
    lease[name] = (...args: unknown[]) => {
      closes.push(`${name} ${JSON.stringify(args)}`);
      return plain(...args);
    };
  }
  const left = async () => (await heldBy(limiter, "key-1"))["key-1.tpm"];
  return { limiter, lease, closes, left };
}

/** A source that tells whether it was left, and fails after its chunks where it is told to. */
function source(chunks: readonly Chunk[], fails?: Error) {
  const told = { left: false };
  async function* generate() {
    let isOver = false;
    try {
      yield* chunks;
      isOver = true;
      if (fails !== undefined) throw fails;
    } finally {
      told.left = !isOver;
    }
  }
  return { told, stream: generate() };
}

/** Both forms of a stream. Each answers the chunks that were read, of at most `max`. */
const FORMS = {
  "an AsyncIterable": {
    of: (stream: AsyncGenerator<Chunk>): AsyncIterable<Chunk> => stream,
  },
  "a ReadableStream": {
    of: (stream: AsyncGenerator<Chunk>): ReadableStream<Chunk> => ReadableStream.from(stream) as ReadableStream<Chunk>,
  },
};

async function read(stream: AsyncIterable<Chunk>, max: number): Promise<readonly Chunk[]> {
  const chunks: Chunk[] = [];
  for await (const chunk of stream) {
    chunks.push(chunk);
    if (chunks.length === max) break;
  }
  return chunks;
}

for (const [form, { of }] of Object.entries(FORMS)) {
  describe(`a lease that tracks ${form}`, () => {
    test("passes on every chunk as it is, and settles once by what the last one says", async () => {
      const { lease, closes, left } = await openLease();
      const chunks = await read(
        lease.track(of(source(CHUNKS).stream), { usageOf, outputOf }),
        Number.POSITIVE_INFINITY,
      );
      assert.equal(chunks.length, CHUNKS.length);
      for (const [i, chunk] of chunks.entries()) assert.equal(chunk, CHUNKS[i]);
      assert.deepEqual(closes, ['settle [{"tpm":730}]']);
      assert.equal(await left(), 6_000 - 730);
      assert.equal(lease.status, "settled");
    });

    test("settles by what came where its reader leaves, and tells the source to stop", async () => {
      const { lease, closes, left } = await openLease();
      const { told, stream } = source(CHUNKS);
      await read(lease.track(of(stream), { usageOf, outputOf }), 3);
      // 13 characters: 3.25 tokens, rounded up once.
      assert.deepEqual(closes, ['settle [{"tpm":4}]']);
      assert.equal(await left(), 6_000 - 4);
      assert.equal(told.left, true);
    });

    test("settles as it was charged where no chunk says what it cost", async () => {
      const { lease, closes, left } = await openLease();
      await read(lease.track(of(source(CHUNKS).stream)), Number.POSITIVE_INFINITY);
      assert.deepEqual(closes, ["settle []"]);
      assert.equal(await left(), 6_000 - 1_000);
    });

    test("settles by what came where the stream fails in the middle, and its reader gets the error", async () => {
      const { lease, closes } = await openLease();
      const fault = new Error("cut");
      await assert.rejects(read(lease.track(of(source(CHUNKS.slice(0, 2), fault).stream), { outputOf }), 9), fault);
      assert.deepEqual(closes, ['settle [{"tpm":2}]']);
    });

    test("gives all of it back where the stream fails before its first chunk", async () => {
      const { lease, closes, left } = await openLease();
      const fault = new Error("never began");
      await assert.rejects(read(lease.track(of(source([], fault).stream), { usageOf }), 9), fault);
      assert.deepEqual(closes, ["rollback []"]);
      assert.equal(await left(), 6_000);
    });

    test("ends at an abort, also while it waits for a source that does not listen", async () => {
      const abort = new AbortController();
      const { lease, closes } = await openLease(abort.signal);
      let isWaiting: () => void = () => {};
      const waiting = new Promise<void>((resolve) => {
        isWaiting = resolve;
      });
      async function* silent(): AsyncGenerator<Chunk> {
        yield { text: "eight ch" };
        isWaiting();
        await new Promise(() => {});
      }
      const reading = read(lease.track(of(silent()), { outputOf }), 9);
      await waiting;
      const reason = new Error("the client has left");
      abort.abort(reason);
      await assert.rejects(reading, reason);
      assert.deepEqual(closes, ['settle [{"tpm":2}]']);
    });

    test("ends at an abort while nothing is read, and the next read gets the reason once", async () => {
      const abort = new AbortController();
      const { lease, closes } = await openLease(abort.signal);
      const { told, stream } = source(CHUNKS);
      const iterator = lease.track(of(stream), { outputOf })[Symbol.asyncIterator]();
      await iterator.next();
      const reason = new Error("the client has left");
      abort.abort(reason);
      assert.deepEqual(closes, ['settle [{"tpm":1}]'], "settled at the abort, not at the next read");
      await assert.rejects(iterator.next(), reason);
      assert.equal((await iterator.next()).done, true);
      assert.equal(told.left, true);
      await iterator.return?.();
      assert.equal(closes.length, 1);
    });

    test("is settled at once where the signal is aborted already", async () => {
      const abort = new AbortController();
      const { lease, closes } = await openLease(abort.signal);
      const reason = new Error("gone before it began");
      abort.abort(reason);
      await assert.rejects(read(lease.track(of(source(CHUNKS).stream), { outputOf }), 9), reason);
      assert.deepEqual(closes, ["settle []"]);
    });

    test("settles as charged and says so where a chunk names a measure that nothing counts", async () => {
      const { lease, left } = await openLease();
      const tracked = lease.track(of(source(CHUNKS).stream), { usageOf: () => ({ dollars: 3 }) as object });
      await assert.rejects(
        read(tracked, 9),
        (error) => error instanceof ValidationError && error.code === "limit_unknown",
      );
      assert.equal(lease.status, "settled");
      assert.equal(await left(), 6_000 - 1_000);
    });

    test("a function that throws ends the stream, and the source is told", async () => {
      const { lease, closes } = await openLease();
      const { told, stream } = source(CHUNKS);
      const fault = new TypeError("no such field");
      const tracked = lease.track(of(stream), {
        usageOf: ({ text }) => {
          if (text === "two ") throw fault;
          return { tpm: 12 };
        },
      });
      await assert.rejects(read(tracked, 9), fault);
      assert.deepEqual(closes, ['settle [{"tpm":12}]']);
      assert.equal(told.left, true);
    });

    test("closed by somebody else before its end it says so, for what it came to is lost", async () => {
      const { lease } = await openLease();
      const tracked = lease.track(of(source(CHUNKS).stream), { usageOf });
      await lease.settle();
      await assert.rejects(read(tracked, 9), LeaseClosed);
    });

    test("closed by somebody else, a reader that leaves is not told", async () => {
      const { lease } = await openLease();
      const tracked = lease.track(of(source(CHUNKS).stream), { outputOf });
      await lease.settle();
      assert.equal((await read(tracked, 1)).length, 1);
    });

    test("a store that cannot be reached at the end does not fail the stream", async () => {
      const { lease } = await openLease();
      lease.settle = () => Promise.reject(new RateLimiterUnavailable("down"));
      assert.equal((await read(lease.track(of(source(CHUNKS).stream), { usageOf }), 9)).length, CHUNKS.length);
    });
  });
}

test("a chunk is there before the next one is asked for", async () => {
  const { lease } = await openLease();
  let asked = 0;
  const slow: AsyncIterable<number> = {
    [Symbol.asyncIterator]: () => ({ next: async () => ({ done: false, value: ++asked }) }),
  };
  const reader = lease.track(ReadableStream.from(slow) as ReadableStream<number>).getReader();
  const iterator = lease.track(slow)[Symbol.asyncIterator]();
  assert.equal((await iterator.next()).value, 1);
  assert.equal(asked, 1);
  const before = asked;
  const { value } = await reader.read();
  assert.ok((value ?? 0) > before);
  await reader.cancel();
});

test("a reader may leave while it waits for a chunk: settled at once", async () => {
  const { lease, closes } = await openLease();
  let goOn: () => void = () => {};
  const waiting = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const stream: AsyncIterable<Chunk> = {
    [Symbol.asyncIterator]: () => ({
      next: () => waiting.then(() => ({ done: false, value: { text: "late" } })),
      return: async () => ({ done: true, value: undefined }),
    }),
  };
  const iterator = lease.track(stream, { outputOf })[Symbol.asyncIterator]();
  const next = iterator.next();
  await iterator.return?.();
  assert.deepEqual(closes, ["settle []"]);
  goOn();
  assert.deepEqual(await next, { done: true, value: undefined });
  assert.equal(closes.length, 1);
});

test("a stream of Node is tracked as what it is to everybody else: something to iterate over", async () => {
  const { lease, closes } = await openLease();
  const texts: string[] = [];
  const tracked = lease.track(Readable.from(["a", "b"]) as AsyncIterable<string>, { outputOf: () => ({ tpm: 1 }) });
  for await (const text of tracked) texts.push(text);
  assert.deepEqual(texts, ["a", "b"]);
  assert.deepEqual(closes, ['settle [{"tpm":2}]']);
});

test("withLease keeps what a tracked stream came to, though its body throws", async () => {
  const { limiter } = await openLimiter();
  const fault = new Error("the socket is closed");
  const body = limiter.withLease({ ...gpt, consume: { rpm: 1, tpm: 1_000 } }, async (lease) => {
    for await (const _ of lease.track(source(CHUNKS).stream, { outputOf })) throw fault;
  });
  await assert.rejects(body, fault);
  assert.deepEqual(await heldBy(limiter, "key-1"), { "key-1.rpm": 59, "key-1.tpm": 5_999 });
});

test("what is no stream, or no option, is refused before anything is read", async () => {
  const { lease } = await openLease();
  const wrong = [
    [Promise.resolve(), {}, "stream_invalid", /not a promise of one/],
    ["text", {}, "stream_invalid", /"text"/],
    [source([]).stream, { usage: usageOf }, "option_unknown", /did you mean `usageOf`/],
    [source([]).stream, { outputOf: 3 }, "options_invalid", /outputOf of track is 3/],
  ] as const;
  for (const [stream, options, code, message] of wrong) {
    assert.throws(
      () => lease.track(stream as AsyncIterable<Chunk>, options as object),
      (error) => error instanceof ValidationError && error.code === code && message.test(error.message),
    );
  }
  assert.equal(lease.status, "open");
});
