import pg from "pg";
import { RateLimiter } from "../src/entry/index.ts";
import type { FleetWork } from "./postgres-fleet.ts";
import { flexibleOn, storeOn, updateBy } from "./postgres-ways.ts";

// One of many processes with one caller: takes for so many ms, one call after the other with a pause between them, and tells how often. It has few
// connections, for a server has a hundred.
const [url, number] = process.argv.slice(2) as [string, string];
const pool = new pg.Pool({ connectionString: url, max: 1 });
const limiter = await RateLimiter.open({ store: storeOn(url), poolMax: 2, timeoutMs: 30_000 });
const flexible = await flexibleOn(pool);
const bare = updateBy(pool, `own-${number}`);
const taking = (entityId: string) => () =>
  limiter.tryAcquire({ entityId, resource: "two", consume: { rpm: 1, tpm: 500 } });
const calls: Readonly<Record<FleetWork, () => Promise<unknown>>> = {
  own: taking(`own-${number}-4`),
  shared: taking(`key-${number}`),
  flexible: () => flexible(`key-${number}`),
  bare: () => bare(0),
};
process.on("message", async ({ work, ms }: { readonly work: FleetWork; readonly ms: number }) => {
  const until = performance.now() + ms;
  let count = 0;
  for (; performance.now() < until; count++) {
    await calls[work]();
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  process.send?.(count);
});
process.on("disconnect", () => process.exit());
process.send?.("ready");
