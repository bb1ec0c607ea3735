import { Redis } from "ioredis";
import { RateLimiter } from "../src/entry/index.ts";
import { takingOf } from "./chains.ts";
import { serveWorks } from "./fleet.ts";
import type { RedisFleetWork } from "./redis-fleet.ts";
import { flexibleOn, scriptBy } from "./redis-ways.ts";

// One of many processes with one caller.
const [url, number] = process.argv.slice(2) as [string, string];
const client = new Redis(url);
const limiter = await RateLimiter.open({ store: url, timeoutMs: 30_000 });
const [flexible, bare] = [flexibleOn(client), await scriptBy(client)];
const works: Readonly<Record<RedisFleetWork, () => Promise<unknown>>> = {
  alone: () => takingOf(limiter, `alone-${number}`)(0),
  own: () => takingOf(limiter, `own-${number}-4`)(0),
  shared: () => takingOf(limiter, `key-${number}`)(0),
  flexible: () => flexible(Number(number)),
  bare: () => bare(0),
};
serveWorks(works);
