import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { type Lease, RateLimitExceeded, type RateLimiter, RateLimiterUnavailable } from "../../src/entry/index.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { seeds } from "../depth.ts";
import { describeDynamo } from "./dynamodb-local.ts";
import { CAPACITY, type FaultGround, faultGround, type Scene, tokens } from "./fault-kit.ts";
import { AFTER, answerHeldUntil, BEFORE, type Fault, requestHeldUntil } from "./fault-proxy.ts";

const WORKERS = 4;
const STEPS = 4;
const DELAY_MAX_MS = 40;

/** Those that nobody has to wait for: with little time, a busy machine would be the storm. */
const SUDDEN: readonly Fault[] = Object.entries<Fault>({ ...BEFORE, ...AFTER }).flatMap(([name, fault]) =>
  name === "the request is dropped" || name === "the answer is dropped" ? [] : [fault],
);

type Child = "ada" | "bob";

await describeDynamo("a storm of all faults at once", (dynamodb) => {
  const ground = faultGround(dynamodb);

  for (const seed of seeds(2, 8)) {
    test(`seed ${seed}: never too much, nothing given back twice, no more lost than was asked for in vain`, (t) =>
      weather(t, ground, seed));
  }
});

async function weather(t: TestContext, ground: FaultGround, seed: number): Promise<void> {
  const scene = await ground.scene(t);
  const random = new SeededRandom(seed);
  const limiters = await scene.processes();
  const before = await scene.levels();
  const storm = new Storm(random);
  const account = new Account();
  scene.proxy.choose = () => storm.next();
  await Promise.all(
    limiters.flatMap((limiter) => Array.from({ length: WORKERS }, () => work(scene, limiter, random.fork(), account))),
  );
  scene.proxy.choose = () => undefined;
  await Promise.all(limiters.map((limiter) => limiter.close()));
  await scene.proxy.idle();

  const levels = await scene.levels();
  for (const name of ["parent", "ada", "bob"] as const) {
    const { granted, givenBack, inVain } = account.of(name);
    const left = levels[name];
    assert.ok(left <= before[name] - granted + givenBack, `${name}: ${left} left, more than there can be`);
    assert.ok(left >= before[name] - granted - inVain, `${name}: ${left} left, more was lost than was asked for`);
  }
  assert.ok(scene.proxy.passages.length > 100, "hardly anything was sent");
  const drained = await scene.drain(await scene.open());
  assert.equal(drained, Math.floor(Math.min(levels.parent, levels.ada + levels.bob)));
}

/** What a worker does: takes, and gives some of it back in one of the ways there are. */
async function work(scene: Scene, limiter: RateLimiter, random: SeededRandom, account: Account): Promise<void> {
  for (let step = 0; step < STEPS; step++) {
    const child = random.pick<Child>(["ada", "bob"]);
    const count = random.integer(1, 3);
    const { resource, [child]: entityId } = scene.family;
    const request = { entityId, resource, consume: tokens(count), atomic: random.chance(0.1) };
    const lease = await account.asked(child, count, () => limiter.acquire(request));
    if (lease === undefined) continue;
    assert.equal(lease.degraded, false);
    let held = count;
    if (random.chance(0.3)) {
      const more = await account.asked(child, 1, () => lease.consume(tokens(1)).then(() => lease));
      if (more !== undefined) held++;
    }
    const [amount, giveBack] = random.weighted<readonly [number, () => Promise<void>]>([
      [3, [0, () => lease.settle()]],
      [3, [held, () => lease.rollback()]],
      [1, [1, () => lease.release(tokens(1))]],
      [1, [1, () => lease.adjust(tokens(-1))]],
    ]);
    account.gaveBack(child, amount);
    await giveBack();
  }
}

interface Sums {
  /** Tokens that somebody was told to have. */
  granted: number;
  /** Tokens that somebody began to give back, whatever came of it. */
  givenBack: number;
  /** Tokens that were asked for and not granted. */
  inVain: number;
}

/** What those who ask know, as they know it. */
class Account {
  readonly #sums: Record<"parent" | Child, Sums> = { parent: nothing(), ada: nothing(), bob: nothing() };

  of(name: "parent" | Child): Readonly<Sums> {
    return this.#sums[name];
  }

  async asked(child: Child, count: number, ask: () => Promise<Lease>): Promise<Lease | undefined> {
    try {
      const lease = await ask();
      this.#add(child, "granted", count);
      for (const { granted, givenBack } of Object.values(this.#sums)) {
        assert.ok(granted - givenBack <= CAPACITY, `${granted - givenBack} of ${CAPACITY} are held at once`);
      }
      return lease;
    } catch (error) {
      const isTold = error instanceof RateLimiterUnavailable || error instanceof RateLimitExceeded;
      if (!isTold) throw error;
      this.#add(child, "inVain", count);
      return undefined;
    }
  }

  gaveBack(child: Child, count: number): void {
    this.#add(child, "givenBack", count);
  }

  #add(child: Child, what: keyof Sums, count: number): void {
    this.#sums[child][what] += count;
    this.#sums.parent[what] += count;
  }
}

function nothing(): Sums {
  return { granted: 0, givenBack: 0, inVain: 0 };
}

/** Chooses a fault for each request, of any kind. */
class Storm {
  readonly #random: SeededRandom;

  constructor(random: SeededRandom) {
    this.#random = random.fork();
  }

  next(): Fault | undefined {
    const random = this.#random;
    if (random.chance(0.7)) return undefined;
    return random.chance(0.2) ? this.#delay() : random.pick(SUDDEN);
  }

  /** Held up for a while, and then let go or dropped, so that it meets others on its way. */
  #delay(): Fault {
    const over = sleep(this.#random.integer(1, DELAY_MAX_MS));
    const dropped: Fault = async ({ reset }) => {
      await over;
      reset();
    };
    const answerDropped: Fault = async (crossing) => {
      await crossing.forward();
      await dropped(crossing);
    };
    return this.#random.pick([dropped, answerDropped, answerHeldUntil(over), requestHeldUntil(over)]);
  }
}
