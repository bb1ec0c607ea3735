import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Limit, type RateLimiter } from "../../src/entry/index.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { Wire } from "../dynamodb/store-kit.ts";
import { Agenda } from "./agenda.ts";
import { ask, originalProcess, Shared } from "./kit.ts";
import { type Ask, type Original, requestOf } from "./original.ts";
import { OriginalError } from "./original-process.ts";
import { ourWith } from "./rules-kit.ts";

// Clients of both, each asking without a pause but for the wait that it is told: by a common clock, so that calls take as long as
// in a data centre whatever else the machine does; and in real time.

/** 100 a second; in real time as many as this machine can be asked for twice over, if that is less. */
const RATE_MAX = 100;
const LASTS_MS = 4_000;
const PLAYED_MS = 1_000;
const TRIED_MS = 1_000;
const CLIENTS = 4;
const ONE = ask({ rps: 1 });

await describeDynamo("a saturated bucket", (dynamodb) => {
  for (const [ours, theirs] of [
    [CLIENTS, CLIENTS],
    [0, CLIENTS],
  ] as const) {
    test(`a call takes 2 to 8 ms: ${ours} clients of ours and ${theirs} of the original, ${PLAYED_MS / 1000} s`, async (t) => {
      const terms = { rate: RATE_MAX, capacity: RATE_MAX / 2 };
      const shared = await Shared.on(dynamodb, t);
      const { all, ...run } = await played(shared, { ours, theirs }, terms);
      const worst = worstBurst(all, terms);
      tell(t, "common clock", { ...terms, all, ...run, worst });
      assert.ok(all.length <= run.due + 1, `${all.length} of ${run.due}`);
      assert.ok(worst <= (ours === 0 ? 2 : 1.1), `a burst of ${worst} capacities`);
      if (ours > 0) assert.ok(all.length >= 0.9 * run.due, `only ${all.length} of ${run.due}`);
    });
  }

  test(`in real time, ${CLIENTS} clients of each side, ${LASTS_MS / 1000} s`, async (t) => {
    const shared = await Shared.on(dynamodb, t, { realTime: true });
    // As applications have them, refusals remembered.
    const our = await Promise.all(Array.from({ length: CLIENTS }, () => shared.our({ denyMemoryMs: 1_000 })));
    const their = await Promise.all(Array.from({ length: CLIENTS }, () => shared.their({ rejection_cache_ttl: 1 })));
    const rate = Math.max(10, Math.min(RATE_MAX, Math.floor((await triedPerSecond(our)) / 2)));
    const capacity = Math.ceil(rate / 2);
    const limits = [Limit.perSecond("rps", rate, { burst: capacity })];
    await our[0]?.setLimits(ONE.entityId, limits, { resource: ONE.resource });
    const { all, due, ours, theirs } = await run(our, their, { rate, capacity });
    const worst = worstBurst(all, { rate, capacity });
    tell(t, "real time", { rate, capacity, all, due, ours, theirs, worst });
    // Clocks of both are the machine's; a grant is noted when its answer has come. How much is delivered depends on how busy the
    // machine is: with every slow pass the original loses what drips in during its own round trips (W10).
    assert.ok(all.length <= due + 1, `${all.length} of ${due}`);
    assert.ok(worst <= 2, `a burst of ${worst} capacities`);
  });
});

/** The same by a clock that passes only while all of them wait. */
async function played(
  shared: Shared,
  { ours, theirs }: { readonly ours: number; readonly theirs: number },
  terms: Terms,
) {
  const limits = [Limit.perSecond("rps", terms.rate, { burst: terms.capacity })];
  await (await shared.our()).setLimits(ONE.entityId, limits, { resource: ONE.resource });
  const random = new SeededRandom(5);
  const beganMs = shared.now();
  const untilMs = beganMs + PLAYED_MS;
  const agenda = new Agenda(beganMs, (nowMs) => shared.at(nowMs));
  const trip = () => agenda.sleep(1 + random.next() * 3);
  const granted = { ours: [] as number[], theirs: [] as number[] };
  const our = async () => {
    const wire = new Wire(shared.dynamodb.client);
    const clock = { now: () => shared.now(), sleep: (ms: number) => agenda.sleep(ms) };
    const limiter = await ourWith(shared, { client: wire, clock, denyMemoryMs: 1_000 });
    wire.fault = async ({ send }) => {
      await trip();
      const answer = await send();
      await trip();
      return answer;
    };
    return async () => {
      while (agenda.now() < untilMs) {
        const answer = await limiter.tryAcquire(ONE);
        if (answer.ok) granted.ours.push(agenda.now());
        else await agenda.sleep(answer.retryAfterMs);
      }
      wire.fault = ({ send }) => send();
    };
  };
  const their = async () => {
    const client = await shared.their({ rejection_cache_ttl: 1 });
    const work = async () => {
      while (agenda.now() < untilMs) {
        const waitMs = await waitOf(client, ONE);
        if (waitMs === undefined) granted.theirs.push(agenda.now());
        else await agenda.sleep(waitMs);
      }
    };
    return () => client.between(trip, work);
  };
  const actors = [];
  for (let i = 0; i < ours; i++) actors.push(await our());
  for (let i = 0; i < theirs; i++) actors.push(await their());
  await Promise.all(actors.map((work) => agenda.act(work)));
  const all = [...granted.ours, ...granted.theirs].sort((a, b) => a - b);
  const due = terms.capacity + (terms.rate * ((all.at(-1) ?? beganMs) - beganMs)) / 1000;
  return { all, due, ours: granted.ours.length, theirs: granted.theirs.length };
}

/** How long the original tells to wait; undefined where it admits. */
async function waitOf(client: Original, one: Ask): Promise<number | undefined> {
  try {
    await (await client.acquire(one)).end();
    return undefined;
  } catch (error) {
    if (!(error instanceof OriginalError) || error.retryAfterMs === undefined) throw error;
    return error.retryAfterMs;
  }
}

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
  run: {
    rate: number;
    capacity: number;
    all: readonly number[];
    due: number;
    ours: number;
    theirs: number;
    worst: number;
  },
): void {
  const { rate, capacity, all, due, ours, theirs, worst } = run;
  t.diagnostic(
    `${who}, ${capacity} and ${rate} a second: ${all.length} of ${Math.floor(due)} due ` +
      `(ours ${ours}, the original ${theirs}), worst burst ${worst.toFixed(3)} of the capacity`,
  );
}
