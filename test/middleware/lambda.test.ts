import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { type TestContext, test } from "node:test";
import middy from "@middy/core";
import { currentLease, Limit, RateLimiter, rateLimitHeaders } from "../../src/entry/index.ts";
import {
  type LambdaHttpEvent,
  type LambdaRateLimitOptions,
  rateLimit,
  rateLimitMiddy,
} from "../../src/entry/lambda.ts";
import { SimulatedClock } from "../../src/entry/testing.ts";

const limits = [Limit.perMinute("rpm", 2)];

async function made(t: TestContext) {
  const clock = new SimulatedClock(0);
  const limiter = await RateLimiter.open({ store: "memory", clock });
  t.after(() => limiter.close());
  const closed: unknown[] = [];
  const options: LambdaRateLimitOptions = { limiter, limits, onClosed: ({ outcome }) => void closed.push(outcome) };
  const left = async () =>
    (await limiter.available({ entityId: "ip-192.0.2.7", resource: "http", limits }))[0]?.available;
  return { clock, limiter, options, closed, left };
}

/** A part of what API Gateway sends in its payload 2.0; a function URL sends the same. */
function eventOf(): LambdaHttpEvent & Record<string, unknown> {
  return {
    version: "2.0",
    rawPath: "/hello",
    headers: { host: "abc.lambda-url.eu-central-1.on.aws" },
    requestContext: { http: { method: "GET", path: "/hello", sourceIp: "192.0.2.7" } as never },
  };
}

const context = (remainingMs: number) => ({ getRemainingTimeInMillis: () => remainingMs });

test("a function is limited by the address of its caller, and its lease is closed before it answers", async (t) => {
  const { options, closed, left } = await made(t);
  const seen: unknown[] = [];
  const handler = rateLimit(async (event: LambdaHttpEvent) => {
    seen.push(event.lease?.status, currentLease() === event.lease, closed.length);
    return { statusCode: 200, headers: { "X-Mine": "1" }, body: "hello", cookies: ["a=b"] };
  }, options);
  const first = await handler(eventOf(), context(3_000));
  assert.deepEqual(first, {
    statusCode: 200,
    headers: { "X-Mine": "1", "ratelimit-policy": '"rpm";q=2;w=60', ratelimit: '"rpm";r=1;t=30' },
    body: "hello",
    cookies: ["a=b"],
  });
  assert.deepEqual(closed, [{ kind: "finished", status: 200 }]);
  await handler(eventOf(), context(3_000));
  const { statusCode, headers, body } = (await handler(eventOf(), context(3_000))) as never as Record<string, never>;
  assert.equal(statusCode, 429);
  assert.deepEqual(headers, {
    "content-type": "application/problem+json",
    ...{ "ratelimit-policy": '"rpm";q=2;w=60', ratelimit: '"rpm";r=0;t=30', "retry-after": "30" },
  });
  assert.equal((JSON.parse(body ?? "") as { code: string }).code, "rate_limit_exceeded");
  assert.deepEqual(seen, ["open", true, 0, "open", true, 1]);
  assert.equal(await left(), 0);
});

test("a result without a status is what the gateway would make of it; fields of the handler stay", async (t) => {
  const { options } = await made(t);
  const fields = { "ratelimit-policy": '"rpm";q=2;w=60', ratelimit: '"rpm";r=1;t=30' };
  const json = await rateLimit(() => ({ hello: 1 }), options)(eventOf());
  assert.deepEqual(json, {
    statusCode: 200,
    headers: { "content-type": "application/json", ...fields },
    body: '{"hello":1}',
  });
  const text = await rateLimit(() => "hello", { ...options, key: () => "b" })(eventOf());
  assert.equal((text as { body: string }).body, "hello");
  assert.equal(await rateLimit(() => undefined, { ...options, key: () => "c" })(eventOf()), undefined);
  const own = await rateLimit(() => ({ statusCode: 200, headers: { RateLimit: "mine" } }), {
    ...options,
    key: () => "d",
  })(eventOf());
  assert.deepEqual((own as { headers: unknown }).headers, { RateLimit: "mine", "ratelimit-policy": '"rpm";q=2;w=60' });
});

test("a function that throws, or answers 500, gets its tokens back; what it threw is Lambda's", async (t) => {
  const { options, closed, left } = await made(t);
  const boom = new Error("boom");
  await assert.rejects(async () => rateLimit(() => Promise.reject(boom), options)(eventOf()), boom);
  await rateLimit(() => ({ statusCode: 502 }), options)(eventOf());
  assert.deepEqual(closed, [
    { kind: "error", error: boom },
    { kind: "finished", status: 502 },
  ]);
  assert.equal(await left(), 2);
});

test("an event without an address is a 400, an error of key is Lambda's, a refusal can be answered by oneself", async (t) => {
  const { options } = await made(t);
  const nobody = (await rateLimit(() => "x", options)({})) as { statusCode: number; body: string };
  assert.deepEqual([nobody.statusCode, JSON.parse(nobody.body).code], [400, "key_missing"]);
  const key = () => {
    throw new Error("no user");
  };
  await assert.rejects(rateLimit(() => "x", { ...options, key })(eventOf()), /no user/);
  const own = rateLimit(() => "x", {
    ...{ ...options, limits: [Limit.perMinute("rpm", 1)] },
    handler: (_event, refusal) => ({ statusCode: 418, headers: {}, body: refusal.primary.limit }),
  });
  await own(eventOf());
  const refused = (await own(eventOf())) as { statusCode: number; headers: Record<string, string>; body: string };
  assert.deepEqual([refused.statusCode, refused.body, refused.headers["retry-after"]], [418, "rpm", "60"]);
});

test("a wait ends half a second before the function would be stopped", async (t) => {
  const { options, clock } = await made(t);
  const handler = rateLimit(() => "x", { ...options, wait: { maxMs: 60_000 } });
  for (const _ of [1, 2]) await handler(eventOf(), context(900_000));
  const waiting = handler(eventOf(), context(10_000));
  while (clock.nextWakeMs === undefined) await new Promise((resolve) => setImmediate(resolve));
  assert.equal(clock.nextWakeMs, 9_500);
  await clock.advance(9_500);
  assert.equal(((await waiting) as { statusCode: number }).statusCode, 429);
  // No time is left to wait at all.
  assert.equal(((await handler(eventOf(), context(400))) as { statusCode: number }).statusCode, 429);
});

test("shadow mode passes without a lease", async (t) => {
  const { options } = await made(t);
  const handler = rateLimit((event: LambdaHttpEvent) => ({ statusCode: 200, body: String(event.lease?.status) }), {
    ...{ ...options, shadow: true },
  });
  for (const _ of [1, 2]) await handler(eventOf());
  const third = (await handler(eventOf())) as unknown as { body: string; headers: Record<string, string> };
  assert.deepEqual(
    [third.body, third.headers.ratelimit, third.headers["retry-after"]],
    ["undefined", '"rpm";r=0;t=30', undefined],
  );
});

test("a streamed response is settled at the end of its stream, and a refusal is written to it", async (t) => {
  const { options, closed } = await made(t);
  const metadata: unknown[] = [];
  const runtime = globalThis as { awslambda?: unknown };
  runtime.awslambda = {
    HttpResponseStream: {
      from: (stream: PassThrough, given: unknown) => {
        metadata.push(given);
        return stream;
      },
    },
  };
  t.after(() => delete runtime.awslambda);
  const handler = rateLimit(async (event: LambdaHttpEvent, stream: PassThrough, _context: object) => {
    assert.ok(event.lease !== undefined && currentLease() === event.lease);
    metadata.push(rateLimitHeaders(event.lease).ratelimit);
    stream.write("one,");
    setImmediate(() => stream.end("two"));
  }, options);
  const streamed = async () => {
    const stream = new PassThrough();
    const chunks: string[] = [];
    stream.setEncoding("utf8").on("data", (chunk) => chunks.push(chunk));
    await handler(eventOf(), stream, context(3_000));
    return chunks.join("");
  };
  assert.equal(await streamed(), "one,two");
  assert.deepEqual(closed, [{ kind: "finished", status: 200 }]);
  await streamed();
  assert.match(await streamed(), /rate_limit_exceeded/);
  assert.deepEqual(metadata.slice(0, 2), ['"rpm";r=1;t=30', '"rpm";r=0;t=60']);
  assert.equal((metadata[2] as { statusCode: number }).statusCode, 429);
  const cut = rateLimit(async (_event: LambdaHttpEvent, stream: PassThrough) => void stream.destroy(), {
    ...options,
    key: () => "b",
  });
  await cut(eventOf(), new PassThrough());
  assert.deepEqual(closed.at(-1), { kind: "disconnected" });
});

/** A stream of the runtime: what `HttpResponseStream.from` was given is written before the first chunk, and eight bytes of zero. */
class RuntimeStream extends PassThrough {
  _onBeforeFirstWrite: ((write: (chunk: string | Uint8Array) => void) => void) | undefined;
  readonly sent: string[] = [];

  override write(chunk: string | Uint8Array): boolean {
    const before = this._onBeforeFirstWrite;
    this._onBeforeFirstWrite = undefined;
    before?.((first) => this.#send(first));
    return this.#send(chunk);
  }

  override end(chunk?: unknown): this {
    if (typeof chunk === "string") this.write(chunk);
    return super.end();
  }

  #send(chunk: string | Uint8Array): boolean {
    this.sent.push(Buffer.from(chunk as string).toString());
    return super.write(chunk);
  }
}

/** As the runtime has it. */
const HttpResponseStream = {
  from(stream: RuntimeStream, prelude: object): RuntimeStream {
    const text = JSON.stringify(prelude);
    stream._onBeforeFirstWrite = (write) => {
      write(text);
      write(new Uint8Array(8));
    };
    return stream;
  },
};

test("a streamed response has the header fields beside those of its metadata, and its status counts", async (t) => {
  const { options, closed, left } = await made(t);
  const runtime = globalThis as { awslambda?: unknown };
  runtime.awslambda = { HttpResponseStream };
  t.after(() => delete runtime.awslambda);
  const streamed = async (prelude: object | undefined, more: Partial<LambdaRateLimitOptions> = {}) => {
    const stream = new RuntimeStream();
    stream.resume();
    const handler = rateLimit(
      async (_event: LambdaHttpEvent, given: RuntimeStream) => {
        const answer = prelude === undefined ? given : HttpResponseStream.from(given, prelude);
        answer.write("{}");
        answer.end();
      },
      { ...options, ...more },
    );
    await handler(eventOf(), stream, context(3_000));
    return stream.sent;
  };
  const ratelimit = { "ratelimit-policy": '"rpm";q=2;w=60', ratelimit: '"rpm";r=1;t=30' };
  const [prelude, gap, body] = await streamed({ statusCode: 500, headers: { "X-Mine": "1" }, cookies: ["a=b"] });
  const said = { statusCode: 500, headers: { "X-Mine": "1", ...ratelimit }, cookies: ["a=b"] };
  assert.deepEqual([JSON.parse(prelude ?? ""), gap, body], [said, "\0".repeat(8), "{}"]);
  assert.deepEqual([closed, await left()], [[{ kind: "finished", status: 500 }], 2], "given back");
  const [own] = await streamed({ headers: { RateLimit: "mine" } });
  assert.deepEqual(JSON.parse(own ?? "").headers, { RateLimit: "mine", "ratelimit-policy": '"rpm";q=2;w=60' });
  assert.deepEqual(await streamed(undefined), ["{}"], "bytes alone");
  assert.equal(await left(), 0);
  const [passed] = await streamed({ statusCode: 204 }, { shadow: true });
  assert.deepEqual(JSON.parse(passed ?? "").headers.ratelimit, '"rpm";r=0;t=30');
  const [refused] = await streamed({ statusCode: 200 });
  const { statusCode, headers } = JSON.parse(refused ?? "");
  assert.deepEqual([statusCode, headers["retry-after"]], [429, "30"]);
});

test("Middy: decided before, closed after, given back on an error", async (t) => {
  const { options, closed, left } = await made(t);
  const run = (base: (event: LambdaHttpEvent) => Promise<unknown>) => {
    const handler = middy(base as never).use(rateLimitMiddy(options) as never) as unknown as (
      event: LambdaHttpEvent,
      context: object,
    ) => Promise<{ statusCode: number; headers: Record<string, string> }>;
    return handler(eventOf(), context(3_000));
  };
  const boom = new Error("boom");
  await assert.rejects(
    run(() => Promise.reject(boom)),
    boom,
  );
  assert.equal(await left(), 2);
  const answer = await run(async ({ lease }) => ({ statusCode: 200, body: lease?.status }));
  assert.deepEqual(answer, {
    ...{ statusCode: 200, body: "open" },
    headers: { "ratelimit-policy": '"rpm";q=2;w=60', ratelimit: '"rpm";r=1;t=30' },
  });
  await run(async () => "ok");
  let ran = false;
  const refused = await run(async () => {
    ran = true;
  });
  assert.deepEqual([refused.statusCode, refused.headers["retry-after"], ran], [429, "30", false]);
  assert.deepEqual(closed, [
    { kind: "error", error: boom },
    { kind: "finished", status: 200 },
    { kind: "finished", status: 200 },
  ]);
});

test("Middy: currentLease() answers the lease of its own request in the handler, wherever the middleware stands", async (t) => {
  const { options } = await made(t);
  const seen: boolean[] = [];
  const later = () => new Promise((resolve) => setImmediate(resolve));
  const base = async (event: LambdaHttpEvent & { readonly parsed?: true }) => {
    seen.push(currentLease() === event.lease && event.lease !== undefined);
    await later();
    seen.push(currentLease() === event.lease && event.parsed === true);
    return { statusCode: 200 };
  };
  const parses = {
    before: async (request: { event: LambdaHttpEvent }) => {
      await later();
      request.event = { ...request.event, parsed: true } as LambdaHttpEvent;
    },
  };
  const handler = middy(base as never).use([
    { before: later },
    rateLimitMiddy(options),
    parses,
  ] as never) as unknown as (event: LambdaHttpEvent, context: object) => Promise<unknown>;
  await Promise.all([handler(eventOf(), context(3_000)), handler(eventOf(), context(3_000))]);
  assert.deepEqual(seen, [true, true, true, true]);
  assert.equal(currentLease(), undefined, "nothing of it is left outside");
});

test("Middy: whichever middleware answers early, or fails, the lease is closed before the answer is there", async (t) => {
  const { options, closed, limiter } = await made(t);
  const boom = new Error("boom");
  const early = async () => ({ statusCode: 304, body: "" });
  const run = async (more: object, base = async (): Promise<unknown> => ({ statusCode: 200 })) => {
    const limit = rateLimitMiddy({ ...options, limits: [Limit.concurrent("parallel", 1, { holdMs: 60_000 })] });
    const handler = middy(base as never).use([limit, more] as never) as unknown as (
      event: LambdaHttpEvent,
      context: object,
    ) => Promise<{ statusCode: number; headers: Record<string, string> }>;
    const answer = await handler(eventOf(), context(1)).catch((error: Error) => error);
    return [answer, closed.splice(0)];
  };
  const headers = { "ratelimit-policy": '"parallel";q=1', ratelimit: '"parallel";r=0' };
  const fails = () => Promise.reject(boom);
  assert.deepEqual(await run({ before: early }), [
    { statusCode: 304, body: "", headers },
    [{ kind: "finished", status: 304 }],
  ]);
  assert.deepEqual(await run({ after: early }), [
    { statusCode: 304, body: "", headers },
    [{ kind: "finished", status: 304 }],
  ]);
  assert.deepEqual(await run({ onError: early }, fails), [
    { statusCode: 304, body: "", headers },
    [{ kind: "error", error: boom }],
  ]);
  // Middy tells nobody of this one, so it ends with the time of the function.
  const [thrown] = await run({ onError: () => Promise.reject(new Error("worse")) }, fails);
  assert.match(String(thrown), /worse/);
  while (closed.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  assert.deepEqual(closed, [{ kind: "disconnected" }]);
  const [slots] = await limiter.available({
    ...{ entityId: "ip-192.0.2.7", resource: "http" },
    limits: [Limit.concurrent("parallel", 1, { holdMs: 60_000 })],
  });
  assert.equal(slots?.available, 1);
});
