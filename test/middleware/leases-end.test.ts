import assert from "node:assert/strict";
import { test } from "node:test";
import middy from "@middy/core";
import { OpenAI } from "openai";
import { rateLimit } from "../../src/entry/fetch.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { type LambdaHttpEvent, rateLimitMiddy } from "../../src/entry/lambda.ts";
import { limitOpenAI } from "../../src/entry/openai.ts";
import { SeededRandom } from "../../src/entry/testing.ts";

const SLOTS = 10_000;
const limits = [Limit.concurrent("parallel", SLOTS, { holdMs: 3_600_000 })];
const turn = () => new Promise((resolve) => setImmediate(resolve));
const usage = { input_tokens: 5, output_tokens: 5, total_tokens: 10 };

/** A body in two pieces; its second may fail, or never come. */
function bodyOf(then: "ends" | "fails" | "hangs"): ReadableStream<Uint8Array> {
  let pieces = 0;
  return new ReadableStream(
    {
      async pull(controller) {
        if (pieces++ === 0) return controller.enqueue(new TextEncoder().encode("{}"));
        if (then === "fails") throw new Error("cut");
        if (then === "hangs") return new Promise<void>(() => {});
        controller.close();
      },
    },
    { highWaterMark: 0 },
  );
}

test("whatever becomes of requests, answers and calls, every lease of a front ends", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const random = new SeededRandom(41);
  const pick = <Item>(items: readonly Item[]): Item => items[Math.floor(random.next() * items.length)] as Item;
  const limiter = await RateLimiter.open({ store: "memory" });
  await limiter.setSystemDefaults(limits);
  const options = { limiter, key: () => "key-1", resource: "r", consume: { parallel: 1 } };

  /** What a reader does with an answer. */
  const reads: ((response: Response, leaving: AbortController) => unknown)[] = [
    (response) => response.text(),
    (response) => response.body?.cancel(),
    async (response) => {
      const reader = response.body?.getReader();
      await reader?.read();
      await reader?.cancel();
    },
    // Put aside, as for its status alone.
    () => {},
    (_response, leaving) => leaving.abort(),
  ];

  const overFetch = async () => {
    const leaving = new AbortController();
    const handler = rateLimit(async () => {
      const what = pick(["answers", "empty", "throws", "leaves"] as const);
      if (what === "throws") throw new Error("boom");
      if (what === "leaves") leaving.abort();
      return new Response(what === "empty" ? null : bodyOf(pick(["ends", "fails"])), { status: pick([200, 404, 500]) });
    }, options);
    await pick(reads)(await handler(new Request("http://here/", { signal: leaving.signal })), leaving);
  };

  const overMiddy = async () => {
    const step = () => pick([async () => undefined, async () => undefined, async () => ({ statusCode: 304 })]);
    const fails = () => Promise.reject(new Error("boom"));
    const more = { before: step(), after: pick([step(), fails]), onError: pick([step(), fails]) };
    const base = pick([async () => ({ statusCode: 200 }), fails]);
    const handler = middy(base as never).use([rateLimitMiddy(options), more] as never) as unknown as (
      event: LambdaHttpEvent,
      context: object,
    ) => Promise<unknown>;
    await handler({}, {});
  };

  const overOpenAI = async () => {
    const leaving = new AbortController();
    const read = pick(reads);
    // Whoever waits for an answer that hangs holds it until he leaves.
    const isWaited = read === reads[0] || read === reads[2];
    const fetch = async () => {
      const what = pick(["answers", "answers", "error", "resets", "leaves"] as const);
      if (what === "error") return Response.json({}, { status: 400 });
      if (what === "resets") throw new TypeError("fetch failed");
      if (what === "leaves") leaving.abort();
      if (pick([true, false])) return Response.json({ object: "response", output: [], usage });
      return new Response(bodyOf(pick(["ends", "fails", isWaited ? "ends" : "hangs"])), {
        headers: { "content-type": pick(["application/json", "text/event-stream"]) },
      });
    };
    const client = limitOpenAI(new OpenAI({ apiKey: "k", fetch, maxRetries: 0 }), {
      ...{ limiter, entityId: "key-1", resource: "r", weights: { parallel: { requests: 1 } } },
    });
    const asked = client.responses.create({ model: "m", input: "hi" }, { signal: leaving.signal });
    void asked
      .asResponse()
      .then((response) => read(response, leaving))
      .then(undefined, () => {});
    for (let i = 0; i < 20; i++) await turn();
  };

  for (let i = 0; i < 300; i++) await pick([overFetch, overMiddy, overOpenAI])().catch(() => {});
  const held = async () => {
    for (let i = 0; i < 50; i++) await turn();
    return SLOTS - ((await limiter.available({ entityId: "key-1", resource: "r" }))[0]?.available ?? 0);
  };
  const before = await held();
  assert.ok(before > 0, "some were forgotten");
  // Read ahead after a second, closed unread after 30; the time of a function is 15 minutes, and an answer that hangs is left after 10.
  for (const ms of [1_000, 30_000, 900_000]) {
    t.mock.timers.tick(ms);
    await held();
  }

  assert.equal(await held(), 0);
  await limiter.close();
});
