import { type ServerType, serve } from "@hono/node-server";
import { Hono } from "hono";
import { RateLimiter } from "../src/entry/index.ts";
import { startService } from "../src/entry/server.ts";
import { roomyLimit } from "./roomy.ts";

// One server in a process of its own: `bare` and `json` are the framework alone, anything else is a store of ours.

const [kind = "bare"] = process.argv.slice(2);

process.on("message", () => process.send?.({ cpu: process.cpuUsage() }));
process.send?.({ port: await started() });

async function started(): Promise<number> {
  if (kind === "bare" || kind === "json") return bare(kind === "json");
  const limiter = await RateLimiter.open({ store: kind });
  const limits = [roomyLimit("rpm"), roomyLimit("tpm")];
  await limiter.setResourceDefaults("gpt-4", limits);
  const service = await startService({ limiter, dashboard: false }, true);
  return (await service.listen({ port: 0 })).port;
}

function bare(readsJson: boolean): Promise<number> {
  const app = new Hono();
  const constant = { leaseId: null, namespace: "default", entityId: "key-1", resource: "gpt-4", status: "settled" };
  app.post("/v1/namespaces/:namespace/acquire", async (c) => {
    if (readsJson) await c.req.json();
    return c.json(constant);
  });
  return new Promise((resolve) => {
    const server: ServerType = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" }, ({ port }) => resolve(port));
    server.on("error", (error) => {
      throw error;
    });
  });
}
