// A Hono application that streams its answers: `node examples/hono/main.ts`. The same code runs on Bun, Deno and workers.
import { Hono } from "hono";
import { streamText } from "hono/streaming";
import { type HonoRateLimitEnv, rateLimit } from "../../src/entry/hono.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";

const limiter = await RateLimiter.open({ store: "memory" });
const limits = [Limit.perDay("words", 10)];

const app = new Hono<HonoRateLimitEnv>();
app.use(
  rateLimit({
    ...{ limiter, limits, consume: { words: 6 }, key: (c) => c.req.header("x-api-key") },
    onClosed: ({ lease, outcome }) => console.log(`  ${outcome.kind}, ${lease.consumed.words} words charged`),
  }),
);
app.get("/story", (c) =>
  streamText(c, async (stream) => {
    for (const word of ["once", "upon", "a", "time"]) await stream.write(`${word} `);
    // Four words came, six were estimated.
    await c.var.lease?.adjust({ words: -2 });
  }),
);

for (const _ of [1, 2, 3]) {
  const answer = await app.request("/story", { headers: { "x-api-key": "alice" } });
  const text = await answer.text();
  // The lease is closed by then.
  await new Promise((resolve) => setImmediate(resolve));
  console.log(
    answer.status,
    answer.status === 200 ? text.trim() : answer.headers.get("ratelimit")?.replace(/;t=\d+/, ""),
  );
}
await limiter.close();
