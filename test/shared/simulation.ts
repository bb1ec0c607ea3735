import type { BucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { Limit } from "../../src/domain/limits/limit.ts";
import { ConfigReadings } from "../../src/protocol/config/config-readings.ts";
import { namesOf, SHARD_COUNT, TTL, WCU } from "../../src/protocol/item/attributes.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { type ConditionalWorld, conditionalWorld, openConditional } from "../kit/conditional-store.ts";
import { calendar } from "../limits/calendar-kit.ts";
import { SHARED_FAULTLESS, type SharedFaulty } from "../protocol/faulty-shared-clients.ts";
import { Journal } from "../simulation/journal.ts";
import { OriginalClient } from "../simulation/original-client.ts";
import { Scheduler, WORKS } from "../simulation/scheduler.ts";
import { SharedChecks } from "./checks.ts";
import { CACHE_MS, OurProcess } from "./our-process.ts";
import { type Profile, profileOf, RESET } from "./profile.ts";
import { readingsOf, shown } from "./readings.ts";
import { Truth } from "./truth.ts";
import { Wires } from "./wire.ts";
import { type Floor, workOurs, workTheirs } from "./workers.ts";

export interface SharedOptions {
  readonly verbose: boolean;
  /** What our processes lack, to see that something fails then. */
  readonly faulty?: SharedFaulty;
}

export interface SharedOutcome {
  readonly seed: number;
  readonly violations: readonly string[];
  readonly lastSteps: readonly string[];
  readonly tally: Readonly<Record<string, number>>;
}

/** One table that several processes of ours and several clients of the original write, with all that can go wrong. */
export async function simulateShared(
  seed: number,
  { verbose, faulty = SHARED_FAULTLESS }: SharedOptions,
): Promise<SharedOutcome> {
  const random = new SeededRandom(seed);
  const profile = profileOf(random);
  const scene = new SharedScene(profile, random, new Journal(verbose), faulty);
  await scene.play(STEPS);
  const { violations, steps, tally } = scene.journal;
  return { seed, violations, lastSteps: steps, tally };
}

const STEPS = 450;
const NAMESPACE = "ns";

class SharedScene {
  readonly journal: Journal;
  readonly #profile: Profile;
  readonly #random: SeededRandom;
  readonly #clock: SimulatedClock;
  readonly #world: ConditionalWorld;
  readonly #scheduler: Scheduler;
  readonly #truth: Truth;
  readonly #checks: SharedChecks;
  readonly #wires: Wires;
  readonly #ours: OurProcess[];
  readonly #theirs: OriginalClient[];
  readonly #rates = { write: 0, transact: 0, read: 0 };
  #isOver = false;

  constructor(profile: Profile, random: SeededRandom, journal: Journal, faulty: SharedFaulty) {
    const { startMs, errorMs, staleMs, buckets, limits, faults } = profile;
    this.journal = journal;
    this.#profile = profile;
    this.#random = random;
    this.#clock = new SimulatedClock(startMs);
    const now = () => this.#clock.now();
    this.#world = conditionalWorld(
      { now, random: random.fork(), writesPerSecond: Number.POSITIVE_INFINITY, staleMs },
      calendar,
    );
    const scheduled = random.fork();
    this.#scheduler = new Scheduler(() => scheduled);
    this.#truth = new Truth(now);
    this.#wires = new Wires();
    const resetOf = (name: string) => (name === "q" ? RESET : undefined);
    const accessOf = (bucket: BucketKey) => this.#truth.get(bucket).access;
    this.#checks = new SharedChecks({ wires: this.#wires, journal, calendar, errorMs, resetOf, accessOf });
    this.#world.table.watchTogether((changes) => this.#checks.applied(changes));
    for (const bucket of buckets) this.#truth.set(bucket, { limits: limits.get(bucket.id) ?? [] });
    Object.assign(this.#rates, { write: faults, transact: faults, read: faults / 2 });
    this.#ours = Array.from({ length: profile.ours }, (_, i) => this.#processOf(`our${i}`, faulty));
    this.#theirs = Array.from({ length: profile.theirs }, (_, i) => this.#clientOf(`their${i}`));
  }

  async play(steps: number): Promise<void> {
    const { journal } = this;
    journal.note(describe(this.#profile));
    const floor: Floor = {
      profile: this.#profile,
      truth: this.#truth,
      journal,
      checks: this.#checks,
      wires: this.#wires,
      random: this.#random.fork(),
      turn: (owner) => this.#scheduler.pause(owner, WORKS),
      isOver: () => this.#isOver,
    };
    const workers = [
      ...this.#ours.flatMap((process, i) => [0, 1].map((w) => workOurs(floor, `our${i}.${w}`, process))),
      ...this.#theirs.map((client, i) => workTheirs(floor, `their${i}`, client)),
    ];
    for (let step = 0; step < steps && journal.violations.length === 0; step++) await this.#step(step);
    this.#isOver = true;
    this.#scheduler.calm = true;
    await this.#drain();
    if (!(await this.#finish(Promise.all(workers)))) journal.violation("somebody never came to an end");
    if (journal.violations.length === 0) await this.#reach();
  }

  async #step(step: number): Promise<void> {
    const random = this.#random;
    const { table } = this.#world;
    if (this.#profile.shards > 1 && step % 60 === 30) this.#split();
    const what = random.weighted([
      [80, "open"],
      [12, "moment"],
      [5, "seconds"],
      [0.7, "minutes"],
      [0.5, "hours"],
      [2, "sweep"],
    ] as const);
    switch (what) {
      case "open":
        this.#scheduler.open(random.integer(1, 3));
        if (this.#scheduler.waiting === 0) await this.#clock.advance(20);
        break;
      case "moment":
        await this.#clock.advance(random.integer(1, 40));
        break;
      case "seconds":
        await this.#clock.advance(random.integer(200, 3_000));
        break;
      case "minutes":
        await this.#clock.advance(random.integer(40_000, 150_000));
        break;
      case "hours": {
        // What is under way may come hours late, but seldom.
        if (random.chance(0.8)) await this.#drain();
        const hours = random.integer(1, 4);
        this.journal.note(`${hours} idle hours`);
        await this.#clock.advance(hours * 3_600_000);
        this.journal.count("idle hours");
        break;
      }
      case "sweep":
        if (table.sweep(0.8) > 0) this.journal.count("swept");
    }
    await turns(2);
  }

  /** Opens every gate at which somebody waits for the store; whoever works next stays. */
  async #drain(): Promise<void> {
    for (let i = 0; i < 400 && this.#scheduler.waiting > 0; i++) {
      if (this.#scheduler.calm) this.#scheduler.open(100);
      else if (!this.#scheduler.openDated()) break;
      await turns(2);
      const { nextWakeMs } = this.#clock;
      if (nextWakeMs !== undefined) await this.#clock.advance(Math.max(0, nextWakeMs - this.#clock.now()));
    }
  }

  /** Lets time pass for those who sleep until this is done; false when it never is. */
  async #finish(work: Promise<unknown>): Promise<boolean> {
    let isDone = false;
    void work.finally(() => {
      isDone = true;
    });
    for (let i = 0; i < 2_000 && !isDone; i++) {
      await turns(1);
      const { nextWakeMs } = this.#clock;
      if (!isDone && nextWakeMs !== undefined) await this.#clock.advance(Math.max(0, nextWakeMs - this.#clock.now()));
    }
    return isDone;
  }

  /** When all is quiet and no cache holds any more, every live bucket goes by configuration. */
  async #reach(): Promise<void> {
    Object.assign(this.#rates, { write: 0, transact: 0, read: 0 });
    await this.#clock.advance(CACHE_MS + 2 * this.#profile.errorMs + 1_000);
    for (const bucket of this.#profile.buckets) {
      for (const process of this.#ours) {
        await this.#finish(process.take(bucket, (limits) => [{ limit: (limits[0] as Limit).name, milli: 0 }]));
      }
      const { limits, access } = this.#truth.get(bucket);
      const item = this.#world.table.get(NAMESPACE, { bucket, shard: 0 });
      if (item === undefined || access === "disabled" || this.#profile.shards > 1) continue;
      const on = new Map(readingsOf(item).map((limit) => [limit.name, limit]));
      this.journal.count("reached");
      for (const { name, capacity, refillAmount, refillPeriodMs } of limits) {
        const is = on.get(name);
        const isReached =
          is?.capacityMilli === capacity * 1000 &&
          is.refillMilli === refillAmount * 1000 &&
          is.periodMs === refillPeriodMs;
        if (!isReached) this.journal.violation(`${name} of ${bucket.entityId} did not reach the item: ${shown(item)}`);
      }
    }
  }

  /** As the original leaves a bucket that it has split: shard 0 says how many there are, some of the others exist. */
  #split(): void {
    const { shards, buckets } = this.#profile;
    const { table } = this.#world;
    for (const bucket of buckets) {
      const item = table.get(NAMESPACE, { bucket, shard: 0 });
      if (item === undefined) continue;
      if (item[SHARD_COUNT] === 1) {
        const { [TTL]: _, ...kept } = item;
        table.put(NAMESPACE, { bucket, shard: 0 }, { ...kept, [SHARD_COUNT]: shards });
        this.journal.note(`${bucket.entityId} is split into ${shards} by hand`);
      } else if (this.#profile.doubles) {
        table.put(NAMESPACE, { bucket, shard: 0 }, { ...item, [namesOf(WCU).tk]: 0 });
      }
    }
  }

  #processOf(owner: string, faulty: SharedFaulty): OurProcess {
    const { errorMs, conflicts, coalesce, exact, staleMs } = this.#profile;
    const random = this.#random.fork();
    const clock = this.#clock.skewed(random.integer(-errorMs, errorMs));
    const { dialect, readings = new ConfigReadings() } = faulty();
    const store = openConditional(this.#world, {
      clock,
      random: () => random.next(),
      dialect,
      coalesce,
      exact,
      readings,
      line: this.#lineOf(owner, random.fork(), conflicts),
      through: (line) => this.#wires.tap(line, "ours", owner),
    });
    return new OurProcess({
      clock,
      buckets: store.bucketsOf(NAMESPACE),
      readings,
      truth: this.#truth,
      staleMs,
      random: () => random.next(),
      trip: () => this.#scheduler.pause(owner, "reading configuration"),
      onRead: (origin, read) => this.#checks.read(origin, read),
    });
  }

  #clientOf(owner: string): OriginalClient {
    const { errorMs, conflicts, doubles, expires } = this.#profile;
    const random = this.#random.fork();
    const clock = this.#clock.skewed(random.integer(-errorMs, errorMs));
    const known = new Map<string, { readonly limits: readonly Limit[]; readonly atMs: number }>();
    const line = this.#world.table.lineTo(NAMESPACE, this.#lineOf(owner, random.fork(), conflicts));
    return new OriginalClient(this.#wires.tap(line, "theirs", owner), {
      now: () => clock.now(),
      random: () => random.next(),
      calendar,
      doubles,
      expires: () => expires,
      resolve: (bucket: BucketKey) => {
        const cached = known.get(bucket.id);
        if (cached !== undefined && clock.now() - cached.atMs < CACHE_MS) return cached.limits;
        const { limits } = this.#truth.get(bucket);
        known.set(bucket.id, { limits, atMs: clock.now() });
        return limits;
      },
    });
  }

  #lineOf(owner: string, random: SeededRandom, conflicts: number) {
    const rates = this.#rates;
    return {
      random,
      conflicts,
      rates,
      pause: (call: string, before: string) => this.#scheduler.pause(owner, `${before} ${call}`),
      onFault: (_call: string, fault: string) => this.journal.count(`fault ${fault}`),
    };
  }
}

function describe({
  ours,
  theirs,
  errorMs,
  faults,
  shards,
  doubles,
  expires,
  coalesce,
  exact,
  limits,
}: Profile): string {
  return JSON.stringify({
    ours,
    theirs,
    errorMs,
    faults,
    shards,
    doubles,
    expires,
    coalesce,
    exact,
    limits: [...limits],
  });
}

/** Lets everything run that can run without time passing. */
async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve));
}
