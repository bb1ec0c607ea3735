import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Limit, type RateLimiter } from "../../src/entry/index.ts";
import { describeDynamo } from "../dynamodb/engine.ts";
import { ADA, ask, originalProcess, Shared } from "./kit.ts";
import { requestOf } from "./original.ts";

// In real time: clients of both, each asking without a pause but for the wait that it is told.

const CAPACITY = 50;
const RATE = 100;
const LASTS_MS = 6_000;
const ONE = ask({ rps: 1 });

await describeDynamo("a saturated bucket", (engine) => {
  for (const [ours, theirs] of [
    [4, 4],
    [0, 4],
    [4, 0],
  ] as const) {
    test(`${ours} clients of ours and ${theirs} of the original, ${CAPACITY} and ${RATE} a second, for ${LASTS_MS / 1000} s`, async (t) => {
      const shared = await Shared.on(engine, t, { realTime: true });
      const limits = [Limit.perSecond("rps", RATE, { burst: CAPACITY })];
      await (await shared.our()).setLimits(ADA.entityId, limits, { resource: ADA.resource });
      // As applications have them, refusals remembered.
      const our = await Promise.all(Array.from({ length: ours }, () => shared.our({ denyMemoryMs: 1_000 })));
      const their = await Promise.all(Array.from({ length: theirs }, () => shared.their({ rejection_cache_ttl: 1 })));
      const clients = their.map(({ name }) => name);
      const beganMs = Date.now();
      const [byOurs, byTheirs] = await Promise.all([
        Promise.all(our.map((limiter) => saturated(limiter, beganMs + LASTS_MS))),
        theirs === 0
          ? Promise.resolve<readonly number[]>([])
          : originalProcess().ask<readonly number[]>("saturate", {
              ...{ clients, request: requestOf(ONE), seconds: LASTS_MS / 1000 },
            }),
      ]);
      const all = [...byOurs.flat(), ...byTheirs].sort((a, b) => a - b);
      const lastMs = all.at(-1) ?? beganMs;
      const due = CAPACITY + (RATE * (lastMs - beganMs)) / 1000;
      const worst = worstBurst(all);
      t.diagnostic(
        `${all.length} of ${Math.floor(due)} due (ours ${byOurs.flat().length}, the original ${byTheirs.length}), ` +
          `worst burst ${worst.toFixed(3)} of the capacity`,
      );
      // Clocks of both are the machine's; a grant is noted when its answer has come.
      assert.ok(all.length <= due + 1, `${all.length} of ${due}`);
      assert.ok(worst <= (theirs === 0 ? 1.5 : 2), `a burst of ${worst} capacities`);
      if (ours > 0) assert.ok(all.length >= 0.9 * due, `only ${all.length} of ${due}`);
    });
  }
});

/** When it was admitted, until the time is up. */
async function saturated(limiter: RateLimiter, untilMs: number): Promise<readonly number[]> {
  const admitted: number[] = [];
  while (Date.now() < untilMs) {
    const answer = await limiter.tryAcquire(ONE);
    if (!answer.ok) {
      await sleep(Math.max(1, Math.min(answer.retryAfterMs, 1_000)));
      continue;
    }
    admitted.push(Date.now());
    await answer.lease.settle();
  }
  return admitted;
}

/** The most that any run of grants took beyond what dripped in meanwhile, as a part of the capacity. */
function worstBurst(atMs: readonly number[]): number {
  let [least, worst] = [Number.POSITIVE_INFINITY, 0];
  for (const [taken, at] of atMs.entries()) {
    const dripped = ((at - (atMs[0] ?? 0)) * RATE) / 1000;
    least = Math.min(least, taken - dripped);
    worst = Math.max(worst, taken + 1 - dripped - least);
  }
  return worst / CAPACITY;
}
