import type { AddressInfo } from "node:net";
import express from "express";
import fastify from "fastify";
import { rateLimit as limitExpress } from "../../src/entry/express.ts";
import { rateLimit as limitFastify } from "../../src/entry/fastify.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";

// An application in a process of its own, whose requests stay open until they are told to end. It tells its parent where it listens,
// and when a request has its lease.

const [framework = "express", file = "", stop = "at once"] = process.argv.slice(2);

export const LIMITS = [Limit.perMinute("rpm", 10), Limit.perMinute("tpm", 1_000)];
export const NOW_MS = 1_800_000_000_000;

if (file !== "") await run();

async function run(): Promise<void> {
  const limiter = await RateLimiter.open({ store: `sqlite:${file}`, clock: { now: () => NOW_MS } });
  const options = { limiter, limits: LIMITS, key: () => "key-1", resource: "chat", consume: { rpm: 1, tpm: 300 } };
  const told = new Promise<void>((resolve) => process.once("message", () => resolve()));
  const answer = async (lease: { adjust(delta: { tpm: number }): Promise<void> } | undefined) => {
    process.send?.("open");
    await told;
    await lease?.adjust({ tpm: -200 });
    return "done";
  };
  let port: number;
  let closeServer: () => Promise<unknown>;
  if (framework === "express") {
    const app = express();
    app.use(limitExpress(options));
    app.get("/", async (req, res) => void res.send(await answer(req.lease)));
    const server = app.listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    port = (server.address() as AddressInfo).port;
    closeServer = () => new Promise((resolve) => server.close(resolve));
  } else {
    const app = fastify();
    await app.register(limitFastify, options);
    app.get("/", (request) => answer(request.lease));
    await app.listen({ port: 0, host: "127.0.0.1" });
    port = (app.server.address() as AddressInfo).port;
    closeServer = () => app.close();
  }
  if (stop === "by exit") process.once("SIGTERM", () => process.exit(0));
  if (stop === "drained") {
    process.once("SIGTERM", async () => {
      process.send?.("stopping");
      await Promise.all([closeServer(), limiter.close({ drainMs: 60_000 })]);
      process.disconnect();
    });
  }
  process.send?.({ port });
}
