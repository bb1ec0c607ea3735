import assert from "node:assert/strict";
import { Limit } from "../../src/domain/limits/limit.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { claim, MINUTE_MS, type Suite, T0, type TestedNamespace } from "./contract-kit.ts";

/** Tokens that were granted at an instant; what came back is below 0. */
export interface Granted {
  readonly atMs: number;
  readonly tokens: number;
}

/** The most that was granted, less what came back, in any stretch of one period, both ends included. */
export function mostInAnyStretch(granted: readonly Granted[], periodMs: number): number {
  let most = 0;
  for (const [i, { atMs: fromMs }] of granted.entries()) {
    let sum = 0;
    for (const { atMs, tokens } of granted.slice(i)) {
      if (atMs - fromMs > periodMs) break;
      sum += tokens;
      most = Math.max(most, sum);
    }
  }
  return most;
}

const LIMITS: readonly (readonly [most: number, periodMs: number, limit: Limit])[] = [
  [7, 1_000, Limit.perSecond("x", 7, { strictWindow: true })],
  [100, MINUTE_MS, Limit.perMinute("x", 100, { strictWindow: true, burst: 20 })],
  [2, MINUTE_MS, Limit.perMinute("x", 2, { strictWindow: true })],
  [50, 3_600_000, Limit.perHour("x", 50, { strictWindow: true, burst: 49 })],
  [1_000, 86_400_000, Limit.perDay("x", 1_000, { strictWindow: true, burst: 1 })],
];

/** How often something is taken from each of them. */
const STEPS = 25;

/** Never more than n in any stretch of one period. */
export function strictWindowsContract(suite: Suite): void {
  suite.test(
    "whoever takes all there is at once and then what drips in gets n in a period, and no more",
    async (place) => {
      const granted = await greedily(place, Limit.perMinute("x", 100, { strictWindow: true, burst: 20 }));
      assert.equal(mostInAnyStretch(granted, MINUTE_MS), 100);
      // Without a strict window the burst comes on top of what drips in, at the last millisecond of the minute: 199.
      const plain = await greedily(place, Limit.perMinute("plain", 100));
      assert.equal(mostInAnyStretch(plain, MINUTE_MS - 1), 199);
    },
  );

  suite.test("never more than n in any stretch of one period, whatever is taken and given back when", async (place) => {
    const random = new SeededRandom(7);
    for (const [most, periodMs, limit] of LIMITS.slice(0, Math.ceil(suite.repeatsMax / STEPS))) {
      const granted: Granted[] = [];
      const entityId = `of-${limit.refillPeriodMs}-${most}`;
      const claimOf = (tokens: number) => claim(entityId, [limit], { x: tokens });
      let nowMs = T0;
      for (let step = 0; step < STEPS; step++) {
        nowMs += Math.floor(random.next() * (random.next() < 0.3 ? periodMs : periodMs / 8));
        const tokens = 1 + Math.floor(random.next() ** 3 * limit.capacity);
        if (!(await place.grants(claimOf(tokens), nowMs))) continue;
        granted.push({ atMs: nowMs, tokens });
        if (random.next() > 0.2) continue;
        await place.credit(claimOf(tokens), { x: tokens }, nowMs);
        granted.push({ atMs: nowMs, tokens: -tokens });
      }
      assert.ok(granted.length >= 4, `${granted.length} grants of ${most}`);
      assert.ok(mostInAnyStretch(granted, periodMs) <= most, `more than ${most} in ${periodMs} ms`);
    }
  });

  suite.test("a request for more than the burst never fits a strict window", async (place) => {
    const limit = Limit.perMinute("x", 100, { strictWindow: true, burst: 20 });
    const claimOf = (tokens: number) => claim("a", [limit], { x: tokens });
    assert.equal(await place.grants(claimOf(21), T0), false);
    assert.equal(await place.grants(claimOf(20), T0), true);
    assert.equal(await place.grants(claimOf(21), T0 + 10 * MINUTE_MS), false);
  });
}

/** All there is, and each token as soon as it drips in, until a minute is over. */
async function greedily(place: TestedNamespace, limit: Limit): Promise<readonly Granted[]> {
  const claimOf = (tokens: number) => claim(limit.name, [limit], { [limit.name]: tokens });
  const granted: Granted[] = [{ atMs: T0, tokens: await place.drain(claimOf, T0, limit.capacity) }];
  const stepMs = limit.refillPeriodMs / limit.refillAmount;
  for (let i = 1; i <= limit.refillAmount; i++) {
    const atMs = T0 + i * stepMs;
    if (await place.grants(claimOf(1), atMs)) granted.push({ atMs, tokens: 1 });
    if (await place.grants(claimOf(1), atMs)) granted.push({ atMs, tokens: 1 });
  }
  return granted;
}
