import { Limit, RateLimiter } from "../src/entry/index.ts";
import { type BenchTable, type Contender, compare } from "./measure.ts";
import { roomyLimit } from "./roomy.ts";

const KEYS = Array.from({ length: 100 }, (_, i) => `key-${i}`);
const BURST = 1_000_000_000;
const tz = "Europe/Berlin";

/** What the calendar costs a take: two limits that drip, and the same number that follow the calendar. */
export async function benchKinds(): Promise<BenchTable[]> {
  const sets = {
    plain: [roomyLimit("a"), roomyLimit("b")],
    schedules: [
      Limit.perMinute("a", 60_000, { burst: BURST, schedule: [{ cron: "* 9-17 * * 1-5", tz, scale: 0.5 }] }),
      Limit.perMinute("b", 60_000, { burst: BURST, schedule: [{ cron: "0-29 * * * *", tz, capacity: 500_000_000 }] }),
    ],
    "soft and plain": [Limit.perMinute("a", 60_000, { burst: BURST, soft: true }), roomyLimit("b")],
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
  const [plain, ...others] = Object.keys(sets).map(
    (name): Contender => ({ name, owner: "ours", run: taking(name.replaceAll(" ", "-")) }),
  );
  const { rows } = await compare(plain as Contender, others, { by: ["thread CPU"], rounds: 9, extent: "all" });
  await limiter.close();
  return [{ title: "memory, tryAcquireSync, two limits of a kind (ratio below 1: slower than plain)", rows }];
}
