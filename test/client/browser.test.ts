import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { createService } from "../../src/entry/server.ts";
import { browserTests } from "../dashboard/chromium.ts";
import { tokenOf } from "../server/service-kit.ts";

const { inBrowser } = browserTests();

inBrowser(
  "in a browser: taken, adjusted, settled, refused and given back, from a page of another origin",
  async (t, open) => {
    const { outputFiles } = await build({
      entryPoints: [fileURLToPath(new URL("../../src/entry/client.ts", import.meta.url))],
      ...{ bundle: true, write: false, minify: true, platform: "browser", format: "esm" },
    });
    const pages = createServer(({ url }, response) => {
      const isScript = url === "/client.js";
      response.writeHead(200, { "content-type": isScript ? "text/javascript" : "text/html" });
      response.end(isScript ? outputFiles?.[0]?.contents : "<!doctype html><title>A page</title>");
    });
    await new Promise<void>((resolve) => pages.listen(0, "127.0.0.1", resolve));
    t.after(() => pages.close().closeAllConnections());
    const origin = `http://127.0.0.1:${(pages.address() as AddressInfo).port}`;
    const limiter = await RateLimiter.open({ store: "memory", clock: { now: () => 1_800_000_000_000 } });
    await limiter.setResourceDefaults("gpt-4", [Limit.perMinute("tpm", 1_000)]);
    const { token, entry } = tokenOf("page");
    const service = await createService({ limiter, tokens: [entry], allowOrigin: [origin], log: () => {} });
    const { url } = await service.listen({ port: 0 });
    t.after(async () => {
      await service.close();
      await limiter.close();
    });
    const page = await open();
    await page.goto(origin);
    const told = await page.evaluate(
      async ({ url, token }) => {
        const path = "/client.js";
        const { LimiterClient } = await import(path);
        const client = new LimiterClient({ url, token, timeoutMs: 30_000 });
        const on = { entityId: "key-1", resource: "gpt-4" };
        const value = await client.withLease({ ...on, consume: { tpm: 600 } }, async (lease: never) => {
          await (lease as { adjust(delta: object): Promise<void> }).adjust({ tpm: -200 });
          return (lease as { consumed: object }).consumed;
        });
        const refused = await client.acquire({ ...on, consume: { tpm: 700 } }).catch((error: unknown) => error);
        const { ok } = await client.tryAcquire({ ...on, consume: { tpm: 700 } });
        const [{ available }] = await client.available(on);
        const ids: string[] = [];
        await client.createEntity({ id: "made" });
        for await (const { id } of client.listEntities()) ids.push(id);
        return { value, refused: [refused.code, refused.httpStatus, refused.retryAfterMs], ok, available, ids };
      },
      { url, token },
    );
    assert.deepEqual(told, {
      ...{
        value: { tpm: 400 },
        refused: ["rate_limit_exceeded", 429, 6_000],
        ok: false,
        available: 600,
        ids: ["made"],
      },
    });
  },
);
