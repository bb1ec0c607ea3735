import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { type HeldLimit, levelAt, stateOf } from "../../src/dashboard/level.ts";
import { Limit, RateLimitExceeded, RateLimiter } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { here } from "../cli/in-process.ts";
import { runs } from "../depth.ts";
import { floorDiv } from "../limits/exact-bucket.ts";
import { fc } from "../properties.ts";
import { NS, serviceOf } from "../server/service-kit.ts";
import { tempFile } from "../sqlite/temp-store.ts";
import { EVERY_STORE } from "./every-store.ts";

// Whole tokens are the exact ones rounded down, wherever they are shown. A limit that owes anything never shows 0.

const T0 = 1_800_000_000_000;
const DAY_MS = 86_400_000;
const about = { entityId: "k", resource: "r" };
/** A token every 2 h 24 min: fractions of one stay for long. */
const TEN_A_DAY = Limit.perDay("n", 10);

/** What the limit holds after it was emptied, charged `owed` more and left alone, rounded down; worked out apart. */
function exactTokens(owed: number, elapsedMs: number): number {
  const parts = BigInt(elapsedMs) * 10n - BigInt(owed) * BigInt(DAY_MS);
  const floor = floorDiv(parts, BigInt(DAY_MS));
  return Number(floor > 10n ? 10n : floor);
}

const debts = fc.record({ owed: fc.integer({ min: 0, max: 12 }), elapsedMs: fc.integer({ min: 0, max: 2 * DAY_MS }) });

for (const [name, open] of EVERY_STORE) {
  describe(`whole tokens on ${name}`, () => {
    test("every surface of the library shows the exact balance rounded down", async (t) => {
      const clock = new SimulatedClock(T0);
      const { store, options } = open(clock, t);
      const limiter = await RateLimiter.open({ ...options, store, clock });
      await limiter.setSystemDefaults([TEN_A_DAY]);
      let stories = 0;
      const property = fc.asyncProperty(debts, async ({ owed, elapsedMs }) => {
        const asked = { entityId: `k${stories++}`, resource: "r" };
        const lease = await limiter.acquire({ ...asked, consume: { n: 10 } });
        await lease.adjust({ n: owed });
        assert.equal(lease.remaining[0]?.available, 0);
        await clock.advance(elapsedMs);
        const shown = exactTokens(owed, elapsedMs);
        assert.equal((await limiter.available(asked))[0]?.available, shown);
        const { levels } = await limiter.explain(asked);
        assert.equal(levels[0]?.limits[0]?.available, shown);
        for await (const { limits } of limiter.listBuckets({ entityId: asked.entityId })) {
          assert.equal(limits[0]?.available, shown);
        }
        const outcome = await limiter.tryAcquire({ ...asked, consume: { n: 0 } });
        assert.equal(outcome.ok, shown >= 0, "0 is granted where nothing is owed, and only there");
        if (outcome.ok) assert.equal(outcome.lease.remaining[0]?.available, shown);
        else assert.equal(outcome.primary.available, shown);
      });
      await fc.assert(property, { numRuns: runs(60) });
      await limiter.close();
    });
  });
}

/** Owes 0.375 tokens: for 54 minutes nothing is granted. */
async function owing(limiter: RateLimiter, advance: (ms: number) => Promise<unknown>): Promise<void> {
  await limiter.setResourceDefaults("r", [TEN_A_DAY]);
  const lease = await limiter.acquire({ ...about, consume: { n: 10 } });
  await lease.adjust({ n: 1 });
  await lease.settle();
  await advance(5_400_000);
}

test("a refusal of 0 by a limit that owes less than a token says that it owes, not that it holds 0 of 0", async () => {
  const clock = new SimulatedClock(T0);
  const limiter = await RateLimiter.open({ store: "memory", clock });
  await owing(limiter, (ms) => clock.advance(ms));
  const { outcome, reason, retryAfterMs } = await limiter.explain({ ...about, consume: { n: 0 } });
  assert.deepEqual([outcome, retryAfterMs], ["refused", 3_240_000]);
  assert.equal(reason, "n of k is 1 in debt, 0 requested; nothing is granted until the debt is refilled");
  await assert.rejects(limiter.acquire({ ...about, consume: { n: 0 } }), (error) => {
    assert.ok(error instanceof RateLimitExceeded);
    const { statuses } = error.toProblem() as { statuses: { available: number; exceeded: boolean }[] };
    assert.deepEqual([statuses[0]?.available, statuses[0]?.exceeded], [-1, true]);
    return true;
  });
  await limiter.close();
});

test("over HTTP a debt below a token is -1 in bodies, and 0 in header fields, which have nothing below it", async (t) => {
  const { limiter, clock, call } = await serviceOf(t);
  await owing(limiter, (ms) => clock.advance(ms));
  const query = "entityId=k&resource=r";
  assert.equal((await call("GET", `${NS}/available?${query}`)).body.items[0].available, -1);
  const refused = await call("POST", `${NS}/acquire`, { body: { ...about, consume: { n: 0 } } });
  assert.equal(refused.status, 429);
  assert.equal(refused.body.statuses[0].available, -1);
  assert.match(refused.headers.get("ratelimit") ?? "", /"n";r=0/);
  const buckets = await call("GET", `${NS}/buckets?entityId=k`);
  assert.equal(buckets.body.items[0].limits[0].available, -1);
});

test("the command line shows a debt below a token as -1, and says that it owes", async (t) => {
  const file = tempFile(t);
  // The command goes by this machine's clock: the story begins so long ago that it ends now.
  const clock = new SimulatedClock(Date.now() - 5_400_000);
  const limiter = await RateLimiter.open({ store: `sqlite:${file}`, clock });
  await owing(limiter, async () => {});
  await limiter.close();
  const on = ["--store", `sqlite:${file}`, "--json"];
  const [available, listed, explained] = [
    await here(["available", "k", "r", ...on]),
    await here(["bucket", "list", "-r", "r", ...on]),
    await here(["explain", "k", "r", "-c", "n=0", ...on]),
  ].map(({ stdout }) => stdout);
  assert.match(available ?? "", /"available":\s*-1\b/);
  assert.match(listed ?? "", /"available":\s*-1\b/);
  assert.match(explained ?? "", /"available":\s*-1\b/);
  const refused = await here(["acquire", "k", "r", "-c", "n=0", "--allow-unknown", "--store", `sqlite:${file}`]);
  assert.match(
    refused.stdout,
    /^Refused: n of k is 1 in debt, 0 requested; nothing is granted until the debt is refilled\. /,
  );
});

test("the page counts on from what it was told, and shows no debt as paid before it is", () => {
  const property = fc.property(
    fc.integer({ min: -20_000, max: 10_000 }),
    fc.integer({ min: 0, max: 3 * DAY_MS }),
    (milli, elapsedMs) => {
      const held: HeldLimit = {
        limit: "n",
        counts: "n",
        kind: "drip",
        soft: false,
        shadow: false,
        available: Math.floor(milli / 1000),
        capacity: 10,
      };
      const level = levelAt(held, { amount: 10, periodMs: DAY_MS }, elapsedMs);
      const exact = Math.min(10_000, milli + (elapsedMs * 10_000) / DAY_MS);
      assert.ok(level * 1000 <= exact, `${level} where ${exact} millitokens are there`);
      if (exact < 0) assert.equal(stateOf(level, 10), "debt");
    },
  );
  fc.assert(property, { numRuns: runs(1_000) });
});
