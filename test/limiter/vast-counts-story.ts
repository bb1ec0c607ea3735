import assert from "node:assert/strict";
import { Limit, RateLimiter, type UsageSnapshot } from "../../src/entry/index.ts";
import type { Store } from "../../src/ports/store.ts";
import type { SimulatedClock } from "../../src/testing/simulated-clock.ts";

/** The most that one request may ask for. A thousand times that is just below 2^53. */
export const MOST = 9_000_000_000_000;
const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;
const EVER = { fromMs: 0, toMs: 4_000_000_000_000 } as const;

/**
 * Counts of an hour past 2^53 millitokens: by a soft limit, by a bypass, by a hard limit that drips fast. Whoever counts them, the
 * buckets go on, for all keys of the project, and usage is exact to the token.
 */
export async function vastCountsStory(store: Store, clock: SimulatedClock, options: object): Promise<void> {
  const limiter = await RateLimiter.open({ ...options, store, clock });
  const used = async (entityId: string, resource: string, window: UsageSnapshot["window"]) => {
    const found: (readonly [number | undefined, number | undefined, number])[] = [];
    for await (const { counters, bypassed, requests } of limiter.usage({ entityId, resource, window, ...EVER })) {
      found.push([counters.tpm, bypassed.tpm, requests]);
    }
    return found;
  };
  await limiter.setResourceDefaults("soft", [Limit.perMinute("tpm", 10_000, { soft: true })]);
  await limiter.setResourceDefaults("fast", [Limit.perMinute("tpm", 5_000_000_000_000)]);
  await limiter.createEntity({ id: "proj" });
  for (const id of ["mallory", "alice"]) await limiter.createEntity({ id, parentId: "proj" });
  const take = (entityId: string, resource: string, tpm: number) =>
    limiter.acquire({ entityId, resource, consume: { tpm } });

  for (let i = 0; i < 3; i++) await take("mallory", "soft", MOST);
  const undone = await take("mallory", "soft", MOST);
  await undone.rollback();
  // In the same hour, in the next one, and after that is closed, too.
  for (let hours = 0; hours < 3; hours++) {
    await take("alice", "soft", 1);
    await clock.advance(HOUR_MS);
  }
  assert.deepEqual(await used("mallory", "soft", "monthly"), [[3 * MOST, undefined, 4]]);
  assert.deepEqual(await used("proj", "soft", "hourly"), [
    [3 * MOST + 1, undefined, 5],
    [1, undefined, 1],
    [1, undefined, 1],
  ]);

  const levels = ["mallory", "proj"];
  for (const entityId of levels) await limiter.setAccess({ entityId }, "bypass");
  for (let i = 0; i < 3; i++) assert.equal((await take("mallory", "fast", MOST)).bypassed, true);
  for (const entityId of levels) await limiter.setAccess({ entityId }, "inherit");
  for (let i = 0; i < 3; i++) {
    await take("mallory", "fast", 5_000_000_000_000);
    // A little more than a minute: writes that move the epoch run ahead of the clock by a millisecond each.
    await clock.advance(MINUTE_MS + 10);
  }
  assert.deepEqual(await used("mallory", "fast", "daily"), [[3 * MOST + 15_000_000_000_000, 3 * MOST, 6]]);
  await limiter.resetBucket({ entityId: "mallory", resource: "fast" });
  assert.equal((await limiter.available({ entityId: "mallory", resource: "fast" }))[0]?.available, 5_000_000_000_000);
  await clock.advance(HOUR_MS);
  await take("alice", "fast", 1);
  await take("mallory", "fast", 1);
  await clock.advance(HOUR_MS);
  await take("mallory", "fast", 1);
  assert.deepEqual((await used("mallory", "fast", "daily"))[0]?.[0], 3 * MOST + 15_000_000_000_002);
  const { total } = await limiter.usageSummary({ entityId: "mallory", resource: "fast", window: "hourly", ...EVER });
  assert.equal(total.tpm, 3 * MOST + 15_000_000_000_002);
  for await (const { limits } of limiter.listBuckets({ resource: "fast" })) assert.equal(limits.length, 1);
  await limiter.close();
}

/**
 * A total counts the resources of a request as one amount, and the charges of a lease add up. Whatever they come to is counted
 * exactly, or refused before anything is taken, by a limit that is soft as by one that is not.
 */
export async function vastSumsStory(store: Store, clock: SimulatedClock, options: object): Promise<void> {
  const limiter = await RateLimiter.open({ ...options, store, clock });
  for (const soft of [true, false]) {
    const [org, key] = soft ? ["soft-org", "soft-key"] : ["org", "key"];
    await limiter.createEntity({ id: org });
    await limiter.createEntity({ id: key, parentId: org });
    await limiter.setTotals(org, [Limit.perMinute("tpm", MOST, { soft })]);
    await limiter.setLimits(key, [Limit.perMinute("tpm", MOST, { soft })]);
    const used = async (entityId: string, resource: string) => {
      const { total } = await limiter.usageSummary({ entityId, resource, window: "hourly", ...EVER });
      return total.tpm ?? 0;
    };
    const left = async () => {
      const shown = await limiter.available({ entityId: org, resource: "*" });
      return shown.map(({ available }) => available);
    };
    const asking = (api: number, web: number) =>
      limiter.acquire({ entityId: key, resource: "api", consume: { tpm: api }, also: { web: { tpm: web } } });

    // Known to the store and not known yet.
    for (let i = 0; i < 2; i++) {
      await assert.rejects(asking(MOST, 1), {
        code: "amount_invalid",
        message:
          `consume of "tpm" is ${MOST + 1} on all resources of the request together, and a total of ${org} ` +
          `counts their sum; ask for at most ${MOST} in one request.`,
      });
      assert.deepEqual([await used(org, "*"), await used(key, "api"), await used(key, "web")], [0, 0, 0]);
      await (await asking(1, 1)).rollback();
    }
    const both = await asking(MOST - 5, 5);
    assert.deepEqual(await left(), [0]);
    await both.settle({ tpm: MOST }, { also: { web: { tpm: MOST } } });
    assert.deepEqual(await left(), [-MOST]);
    assert.equal(await used(org, "*"), 2 * MOST);

    await clock.advance(3 * MINUTE_MS);
    const again = await limiter.acquire({ entityId: key, resource: "api", consume: { tpm: MOST } });
    for (let i = 0; i < 3; i++) {
      await again.adjust({ tpm: MOST });
      await clock.advance(3 * MINUTE_MS);
    }
    assert.equal(await used(org, "*"), 6 * MOST);
    await again.settle({ tpm: 7 });
    assert.deepEqual([await used(org, "*"), await used(key, "api")], [2 * MOST + 7, MOST + 7]);
    assert.deepEqual(await left(), [MOST]);
    const last = await limiter.acquire({ entityId: key, resource: "api", consume: { tpm: MOST } });
    for (let i = 0; i < 2; i++) {
      await last.adjust({ tpm: MOST });
      await clock.advance(3 * MINUTE_MS);
    }
    await last.rollback();
    assert.deepEqual([await used(org, "*"), await used(key, "api")], [2 * MOST + 7, MOST + 7]);
    assert.deepEqual(await left(), [MOST]);
  }
  await limiter.close();
}
