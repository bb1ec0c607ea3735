import assert from "node:assert/strict";
import { once } from "node:events";
import { get } from "node:http";
import { PassThrough, Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { describe, test } from "node:test";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { type LambdaHttpEvent, rateLimit as lambdaLimit } from "../../src/entry/lambda.ts";
import type { ClosedRequest } from "../../src/middleware/options.ts";
import { FRONTS, type Handle } from "./fronts.ts";

// Whoever leaves pays: what a handler does after its client has left changes nothing, on any front.

const limits = [Limit.quota("calls", 5, { reset: "daily" })];

async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, "abort");
}

/** What a handler does when its client has left before the answer. */
const WHOLE: Readonly<Record<string, () => Awaited<ReturnType<Handle>>>> = {
  "throws, as `fetch` with the signal does": () => {
    throw new DOMException("aborted", "AbortError");
  },
  "throws an error of its own": () => {
    throw new Error("the model did not answer");
  },
  "answers all the same": () => ({ body: "ok" }),
  "answers an error": () => ({ status: 502 }),
};

const HANDLES: readonly (readonly [string, Handle])[] = [
  ...Object.entries(WHOLE).map(
    ([what, then]) =>
      [
        `before the answer, and the handler ${what}`,
        async ({ signal }: Parameters<Handle>[0]) => {
          await aborted(signal());
          return then();
        },
      ] as const,
  ),
  ...[new DOMException("aborted", "AbortError"), new Error("the model broke off"), undefined].map(
    (error) =>
      [
        `in the middle of a stream, which ${error === undefined ? "ends" : `throws ${error.name}`}`,
        async ({ signal }: Parameters<Handle>[0]) => ({
          body: (async function* () {
            const left = signal();
            yield "first words";
            await aborted(left);
            if (error !== undefined) throw error;
          })(),
        }),
      ] as const,
  ),
];

interface Closing {
  readonly options: {
    readonly limiter: RateLimiter;
    readonly limits: readonly Limit[];
    readonly key: () => string;
    readonly onClosed: (closed: ClosedRequest) => void;
  };
  /** How the next lease was closed. */
  next(): Promise<string>;
}

async function closing(limiter: RateLimiter): Promise<Closing> {
  const closed: string[] = [];
  const waiting: (() => void)[] = [];
  return {
    options: {
      ...{ limiter, limits, key: () => "key-1" },
      onClosed: ({ lease, outcome }: ClosedRequest) => {
        closed.push(`${outcome.kind}, ${lease.status}`);
        waiting.shift()?.();
      },
    },
    async next() {
      while (closed.length === 0) await new Promise<void>((resolve) => waiting.push(resolve));
      return closed.shift() as string;
    },
  };
}

/** Asks, and leaves: at the first words of the answer, or when the handler has begun. */
function leave(url: string, begun: Promise<void>): Promise<void> {
  return new Promise((resolve) => {
    const sent = get(url, { agent: false }, (answer) => {
      answer.on("error", () => {});
      answer.once("data", () => {
        sent.destroy();
        resolve();
      });
    });
    sent.on("error", () => {});
    begun.then(() => {
      sent.destroy();
      resolve();
    });
  });
}

for (const front of FRONTS) {
  describe(front.name, () => {
    for (const [when, handle] of HANDLES) {
      test(`a client that leaves ${when}`, async (t) => {
        const limiter = await RateLimiter.open({ store: "memory" });
        const { options, next } = await closing(limiter);
        for (const [giveBackOn, ended, left] of [
          [["error"], "disconnected, settled", 4],
          [["error", "disconnect"], "disconnected, rolledBack", 4],
        ] as const) {
          let begins = () => {};
          const begun = new Promise<void>((resolve) => {
            begins = resolve;
          });
          const server = await front.start({ ...options, giveBackOn }, async (handled) => {
            const isStream = when.includes("stream");
            if (!isStream) setImmediate(begins);
            return handle(handled);
          });
          t.after(() => server.close());
          await leave(`${server.url}/found/a`, begun);
          assert.equal(await next(), ended);
          const [calls] = await limiter.available({ entityId: "key-1", resource: "http", limits });
          assert.equal(calls?.available, left);
        }
        await limiter.close();
      });
    }
  });
}

describe("Lambda streams", () => {
  const words = async function* (fails: Error | undefined) {
    for (;;) {
      yield "word ";
      if (fails !== undefined) throw fails;
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  const cutBy = (error?: Error) => (stream: PassThrough) => void stream.once("data", () => stream.destroy(error));
  const reset = Object.assign(new Error("reset"), { code: "ECONNRESET" });
  for (const [what, source, act, ended] of [
    ["is closed under the function", undefined, cutBy(), "disconnected, settled"],
    ["is reset under the function", undefined, cutBy(reset), "disconnected, settled"],
    [
      "fails by the function's own fault",
      new Error("no model"),
      (stream: PassThrough) => void stream.resume(),
      "error, rolledBack",
    ],
  ] as const) {
    test(`a stream that ${what}`, async () => {
      const limiter = await RateLimiter.open({ store: "memory" });
      const { options, next } = await closing(limiter);
      const handler = lambdaLimit(
        (_event: LambdaHttpEvent, stream: PassThrough) => pipeline(Readable.from(words(source)), stream),
        options,
      );
      const stream = new PassThrough();
      act(stream);
      await assert.rejects(handler({}, stream));
      assert.equal(await next(), ended);
      await limiter.close();
    });
  }
});
