import pg from "pg";
import { RateLimiter } from "../src/entry/index.ts";
import { serveWorks } from "./fleet.ts";
import type { FleetWork } from "./postgres-fleet.ts";
import { flexibleOn, storeOn, updateBy } from "./postgres-ways.ts";

// One of many processes with one caller. It has few connections, for a server has a hundred.
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
serveWorks(calls);
