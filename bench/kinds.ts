import { Limit, RateLimiter } from "../src/entry/index.ts";
import { compare, type Measured } from "./measure.ts";

const KEYS = Array.from({ length: 100 }, (_, i) => `key-${i}`);
const RATE = 1_000_000_000;
const tz = "Europe/Berlin";

/** What the calendar costs a take: two limits that drip, and the same number that follow the calendar. */
export async function benchKinds(): Promise<{ title: string; rows: Measured[] }[]> {
  const sets = {
    plain: [Limit.perMinute("a", RATE), Limit.perMinute("b", RATE)],
    schedules: [
      Limit.perMinute("a", RATE, { schedule: [{ cron: "* 9-17 * * 1-5", tz, scale: 0.5 }] }),
      Limit.perMinute("b", RATE, { schedule: [{ cron: "0-29 * * * *", tz, capacity: 500_000_000 }] }),
    ],
    "soft and plain": [Limit.perMinute("a", RATE, { soft: true }), Limit.perMinute("b", RATE)],
    quotas: [
      Limit.quota("a", 9_000_000_000_000, { reset: { cron: "0 0 1 * *", tz } }),
      Limit.quota("b", 9_000_000_000_000, { resetAfterMs: 18_000_000 }),
    ],
  };
  const limiter = await RateLimiter.open({ store: "memory" });
  for (const [name, limits] of Object.entries(sets)) {
    await limiter.setResourceDefaults(name.replaceAll(" ", "-"), limits);
  }
  const taking = (resource: string) => (calls: number) => {
    for (let i = 0; i < calls; i++) {
      limiter.tryAcquireSync({ entityId: KEYS[i % KEYS.length] as string, resource, consume: { a: 1, b: 5 } });
    }
  };
  const rows = await compare(
    Object.keys(sets).map((name) => ({ name, run: taking(name.replaceAll(" ", "-")) })),
    { baseline: "plain", rounds: 25, roundMs: 60 },
  );
  await limiter.close();
  return [{ title: "memory, tryAcquireSync, two limits of a kind (ratio below 1: slower than plain)", rows }];
}
