import type { AddressInfo } from "node:net";
import fastifyRateLimit from "@fastify/rate-limit";
import express from "express";
import { rateLimit as expressRateLimit } from "express-rate-limit";
import fastify from "fastify";
import { rateLimit as limitExpress } from "../src/entry/express.ts";
import { LimiterStore } from "../src/entry/express-rate-limit-store.ts";
import { rateLimit as limitFastify } from "../src/entry/fastify.ts";
import { RateLimiter } from "../src/entry/index.ts";
import { roomyLimit } from "./roomy.ts";

// One application in a process of its own: a framework that answers a constant, and what limits its requests by the client's address.

const [framework = "express", way = "bare", store = "memory"] = process.argv.slice(2);
const BODY = { hello: "world" };
const WINDOW_MS = 60_000;
const LIMIT = 1_000_000_000;

/** As both peers do by default: header fields on every answer. */
const EXPRESS_RATE_LIMIT = {
  windowMs: WINDOW_MS,
  limit: LIMIT,
  standardHeaders: "draft-8",
  legacyHeaders: false,
} as const;

process.on("message", () => process.send?.({ cpu: process.cpuUsage() }));
process.send?.({ port: framework === "express" ? await onExpress() : await onFastify() });

async function onExpress(): Promise<number> {
  const app = express();
  if (way === "peer") app.use(expressRateLimit(EXPRESS_RATE_LIMIT));
  if (way === "store") {
    const limiter = await RateLimiter.open({ store });
    app.use(expressRateLimit({ ...EXPRESS_RATE_LIMIT, store: new LimiterStore({ limiter }) }));
  }
  if (way === "limits" || way === "stored") app.use(limitExpress(await options()));
  app.get("/", (_req, res) => {
    res.json(BODY);
  });
  const server = app.listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  return (server.address() as AddressInfo).port;
}

async function onFastify(): Promise<number> {
  const app = fastify();
  if (way === "peer") await app.register(fastifyRateLimit, { max: LIMIT, timeWindow: WINDOW_MS });
  if (way === "limits" || way === "stored") await app.register(limitFastify, await options());
  app.get("/", async () => BODY);
  await app.listen({ port: 0, host: "127.0.0.1" });
  return (app.server.address() as AddressInfo).port;
}

async function options() {
  const limiter = await RateLimiter.open({ store });
  const limits = [roomyLimit("requests")];
  if (way === "limits") return { limiter, limits };
  await limiter.setResourceDefaults("http", limits);
  return { limiter, consume: { requests: 1 } };
}
