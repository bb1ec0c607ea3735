import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Limit, type RateLimiter } from "../../src/entry/index.ts";
import { describeDynamo } from "../dynamodb/engine.ts";
import { ask, originalProcess, Shared } from "./kit.ts";
import { type Ask, type Original, requestOf } from "./original.ts";

// In real time: clients of both, each asking without a pause but for the wait that it is told.

/** 100 a second, or as many as this machine can be asked for twice over, so that the bucket is saturated. */
const RATE_MAX = 100;
const LASTS_MS = 6_000;
const TRIED_MS = 1_000;
const CLIENTS = 4;
const ONE = ask({ rps: 1 });

await describeDynamo("a saturated bucket", (engine) => {
  test(`of ${CLIENTS} clients of each side, for ${LASTS_MS / 1000} s, nearly all due tokens are delivered`, async (t) => {
    const shared = await Shared.on(engine, t, { realTime: true });
    // As applications have them, refusals remembered.
    const our = await Promise.all(Array.from({ length: CLIENTS }, () => shared.our({ denyMemoryMs: 1_000 })));
    const their = await Promise.all(Array.from({ length: CLIENTS }, () => shared.their({ rejection_cache_ttl: 1 })));
    const rate = Math.max(10, Math.min(RATE_MAX, Math.floor((await triedPerSecond(our)) / 2)));
    const capacity = Math.ceil(rate / 2);
    await our[0]?.setLimits(ONE.entityId, [Limit.perSecond("rps", rate, { burst: capacity })], {
      resource: ONE.resource,
    });
    const { all, due, ours, theirs } = await run(our, their, { rate, capacity });
    const worst = worstBurst(all, { rate, capacity });
    tell(t, "both", { rate, all, due, ours, theirs, worst });
    // Clocks of both are the machine's; a grant is noted when its answer has come.
    assert.ok(all.length <= due + 1, `${all.length} of ${due}`);
    assert.ok(worst <= 2, `a burst of ${worst} capacities`);
    // With every slow pass the original loses what drips in during its own round trips (W10): where those are long, because the
    // machine is busy with something else, that is a large part.
    const isQuiet = rate === RATE_MAX;
    if (isQuiet) assert.ok(all.length >= 0.9 * due, `only ${all.length} of ${due}`);
    else t.diagnostic("too busy a machine to tell how much is delivered");

    const alone = { ...ONE, entityId: "alone" };
    await our[0]?.setLimits("alone", [Limit.perSecond("rps", rate, { burst: capacity })], { resource: ONE.resource });
    const without = await run([], their, { rate, capacity }, alone);
    tell(t, "the original alone", { rate, ...without, worst: worstBurst(without.all, { rate, capacity }) });
    if (isQuiet) assert.ok(all.length / due > without.all.length / without.due, "the original alone delivers more");
  });
});

interface Terms {
  readonly rate: number;
  readonly capacity: number;
}

async function run(our: readonly RateLimiter[], their: readonly Original[], terms: Terms, one: Ask = ONE) {
  const seconds = LASTS_MS / 1000;
  const beganMs = Date.now();
  const request = { clients: their.map(({ name }) => name), request: requestOf(one), seconds };
  const [ours, theirs] = await Promise.all([
    Promise.all(our.map((limiter) => saturated(limiter, one, beganMs + LASTS_MS))),
    originalProcess().ask<readonly number[]>("saturate", request),
  ]);
  const all = [...ours.flat(), ...theirs].sort((a, b) => a - b);
  const due = terms.capacity + (terms.rate * ((all.at(-1) ?? beganMs) - beganMs)) / 1000;
  return { all, due, ours: ours.flat().length, theirs: theirs.length };
}

/** When it was admitted, until the time is up. */
async function saturated(limiter: RateLimiter, one: Ask, untilMs: number): Promise<readonly number[]> {
  const admitted: number[] = [];
  while (Date.now() < untilMs) {
    const answer = await limiter.tryAcquire(one);
    if (!answer.ok) {
      await sleep(Math.max(1, Math.min(answer.retryAfterMs, 1_000)));
      continue;
    }
    admitted.push(Date.now());
    await answer.lease.settle();
  }
  return admitted;
}

/** How often these clients can take from a bucket that is neither empty nor full. */
async function triedPerSecond(our: readonly RateLimiter[]): Promise<number> {
  const limits = [Limit.custom("rps", { capacity: 1_000_000, refillAmount: 1, refillPeriodMs: 3_600_000 })];
  await our[0]?.setLimits("tried", limits, { resource: ONE.resource });
  const one = { ...ONE, entityId: "tried" };
  // The first time is another matter.
  for (const limiter of our) await saturated(limiter, one, Date.now() + 1);
  const untilMs = Date.now() + TRIED_MS;
  const tried = await Promise.all(our.map((limiter) => saturated(limiter, one, untilMs)));
  return (tried.flat().length * 1000) / TRIED_MS;
}

/** The most that any run of grants took beyond what dripped in meanwhile, as a part of the capacity. */
function worstBurst(atMs: readonly number[], { rate, capacity }: Terms): number {
  let [least, worst] = [Number.POSITIVE_INFINITY, 0];
  for (const [taken, at] of atMs.entries()) {
    const dripped = ((at - (atMs[0] ?? 0)) * rate) / 1000;
    least = Math.min(least, taken - dripped);
    worst = Math.max(worst, taken + 1 - dripped - least);
  }
  return worst / capacity;
}

function tell(
  t: TestContext,
  who: string,
  run: { rate: number; all: readonly number[]; due: number; ours: number; theirs: number; worst: number },
): void {
  const { rate, all, due, ours, theirs, worst } = run;
  t.diagnostic(
    `${who}, ${Math.ceil(rate / 2)} and ${rate} a second: ${all.length} of ${Math.floor(due)} due ` +
      `(ours ${ours}, the original ${theirs}), worst burst ${worst.toFixed(3)} of the capacity`,
  );
}
