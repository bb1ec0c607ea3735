// A Fastify application in which each route says what it costs: `node examples/fastify/main.ts`.
import { fastify } from "fastify";
import { rateLimit } from "../../src/entry/fastify.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";

const limiter = await RateLimiter.open({ store: "memory" });

const app = fastify();
await app.register(rateLimit, { limiter, limits: [Limit.perDay("points", 10)], consume: { points: 1 } });
app.get("/cheap", () => ({ points: 1 }));
app.get("/dear", { config: { rateLimit: { consume: { points: 6 } } } }, () => ({ points: 6 }));
app.get("/health", { config: { rateLimit: false } }, () => ({ ok: true }));

const url = await app.listen({ host: "127.0.0.1", port: 0 });
for (const path of ["/cheap", "/dear", "/dear", "/health", "/cheap"]) {
  const answer = await fetch(url + path);
  await answer.text();
  console.log(path, answer.status, answer.headers.get("ratelimit")?.replaceAll(/;t=\d+/g, "") ?? "not limited");
}
await app.close();
await limiter.close();
