import { setImmediate } from "node:timers/promises";
import { systemRandom } from "../../src/adapters/system/random.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import type { BucketStore } from "../../src/ports/bucket-store.ts";
import type { Store } from "../../src/ports/store.ts";
import { FaultStore } from "../../src/testing/fault-store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { without } from "../simulation/code-mutants.ts";
import type { ToldHold } from "../simulation/slot-rules.ts";
import { judged, SlotJudge, ToldHolds, told, withBuckets } from "./slot-judge.ts";

// Limiters of several processes hold slots at two levels while answers are lost, clocks are off, processes die, and limits are changed.

const T0 = Date.UTC(2026, 2, 15, 12);
const RATE = 1_000_000;

/** Opens the store that all processes share, as one of them has it. */
export type OpenStore = () => Store;

/** A deliberate bug of the store. */
export type Spoiled = (buckets: BucketStore) => BucketStore;

interface Asked {
  readonly entityId: string;
  readonly consume: { readonly parallel: number };
}

interface Process {
  readonly limiter: RateLimiter;
  readonly faults: FaultStore;
  readonly told: ToldHolds;
}

/**
 * What a world is. `exact`: nothing but requests happens and nothing is lost; of those that are `drawn` one in four is so. `changing`:
 * limits change and are reset while bodies run that take slots later, or again.
 */
export type SlotWorldKind = "drawn" | "exact" | "changing";

/** Plays one world; answers the first thing that is wrong. */
export function playSlotWorld(
  seed: number,
  open: OpenStore,
  spoiled?: Spoiled,
  kind: SlotWorldKind = "drawn",
): Promise<string | undefined> {
  return new SlotWorld(seed, open, spoiled, kind).play();
}

/** A body that is told late stops so much later than its slots end: clocks are off, and a renewal may be under way. */
const STOPS_WITHIN_MS = 2_000;

class SlotWorld {
  readonly #random: SeededRandom;
  /** Of the limiters. */
  readonly #chance: SeededRandom;
  /** Of what only changing worlds have. */
  readonly #changing: SeededRandom | undefined;
  readonly #clock = new SimulatedClock(T0);
  readonly #open: OpenStore;
  readonly #spoiled: Spoiled;
  readonly #judge: SlotJudge;
  readonly #processes: Process[] = [];
  readonly #stores = new Set<Store>();
  readonly #faults: number;
  /** Nothing but requests happens: then no more bodies run at once than there are slots. */
  readonly #isSteady: boolean;
  /** Nothing is lost either. */
  readonly #isExact: boolean;
  #limits: readonly Limit[];
  readonly #running = new Map<string, number>();
  #charged = 0;
  #isOver = false;

  constructor(seed: number, open: OpenStore, spoiled: Spoiled = (buckets) => buckets, kind: SlotWorldKind) {
    this.#random = new SeededRandom(seed);
    this.#chance = new SeededRandom(seed + 2 ** 40);
    this.#changing = kind === "changing" ? new SeededRandom(seed + 2 ** 41) : undefined;
    this.#open = open;
    this.#spoiled = spoiled;
    const [faults, isSteady] = [this.#random.pick([0, 0, 0.1, 0.25]), this.#random.chance(0.5)];
    this.#faults = kind === "exact" ? 0 : faults;
    this.#isSteady = kind === "exact" || (kind === "drawn" && isSteady);
    this.#isExact = this.#faults === 0 && this.#isSteady;
    this.#judge = new SlotJudge(this.#isExact);
    this.#limits = this.#drawn();
  }

  async play(): Promise<string | undefined> {
    // Whoever waits for slots sleeps by chance a little less: as the seed says, so that it plays the same world each time.
    const mended = without(systemRandom, "id", () => this.#chance.id());
    try {
      return await this.#played();
    } finally {
      mended();
    }
  }

  async #played(): Promise<string | undefined> {
    for (let i = 0; i < 3; i++) await this.#begin();
    const [first] = this.#processes as [Process];
    await this.#uninterrupted(async () => {
      await first.limiter.createEntity({ id: "org" });
      for (const id of ["ada", "ben"]) await first.limiter.createEntity({ id, parentId: "org", cascade: true });
      await first.limiter.setResourceDefaults("api", this.#limits);
    });
    for (let step = 0; step < 80 && this.#judge.problem === undefined; step++) {
      this.#act();
      await this.#clock.advance(
        this.#random.chance(0.15) ? this.#random.integer(500, 6_000) : this.#random.integer(0, 60),
      );
      await setImmediate();
      this.#lookAfterBodies();
    }
    this.#isOver = true;
    await this.#clock.advance(60_000);
    await this.#afterwards();
    for (const { limiter } of this.#processes) await limiter.close();
    for (const store of this.#stores) await store.close();
    return this.#judge.problem;
  }

  /** Where only bodies hold slots: each is renewed, or told to stop, and gives its slots back. */
  #lookAfterBodies(): void {
    if (this.#changing === undefined) return;
    const isOver = ({ pin, milli }: ToldHold) =>
      pin.limit === "parallel" && milli > 0 && pin.endMs + STOPS_WITHIN_MS < this.#clock.now();
    for (const { told } of this.#processes) {
      const over = told.all.find(isOver);
      if (over !== undefined) this.#judge.found(`a body runs on without its slots: ${JSON.stringify(over)}`);
    }
  }

  /** Whatever was lost or died: all slots are free once the longest hold is over; and settled work has charged its rates. */
  async #afterwards(): Promise<void> {
    const [{ limiter }] = this.#processes as [Process];
    for (const { told } of this.#processes) {
      const kept = told.all.filter(({ milli }) => milli > 0);
      if (kept.length > 0) this.#judge.found(`all leases were closed, and ${JSON.stringify(kept)} never given back`);
    }
    await this.#uninterrupted(async () => {
      for (const entityId of ["ada", "ben"]) {
        for (const { limit, available, capacity } of await limiter.available({ entityId, resource: "api" })) {
          const isHeld = this.#limits[0]?.holdMs !== undefined;
          if (isHeld && limit === "parallel" && available !== capacity)
            this.#judge.found(`${available} of ${capacity} came back`);
        }
      }
      const [, rate] = (await limiter.available({ entityId: "org", resource: "api" })) ?? [];
      if (this.#isExact && rate !== undefined && rate.available !== RATE - this.#charged) {
        this.#judge.found(`${RATE - rate.available} were charged, and ${this.#charged} used`);
      }
    });
  }

  async #begin(): Promise<void> {
    const random = this.#random.fork();
    const holds = new ToldHolds();
    this.#judge.told.push(holds);
    const pause = () =>
      this.#isOver ? Promise.resolve() : this.#clock.sleep(random.pick([0, 0, 0, 1, 7, 40, 300]), undefined);
    const rate = this.#faults;
    const store = this.#open();
    this.#stores.add(store);
    const faults = new FaultStore(withBuckets(judged(store, this.#judge), this.#spoiled), {
      random,
      rates: { take: rate / 2, credit: rate, renew: rate },
      pause: (call) => (["take", "credit", "renew"].includes(call) ? pause() : Promise.resolve()),
    });
    const clock = this.#clock.skewed(random.integer(-200, 200));
    const limiter = await RateLimiter.open({
      store: told(faults, holds, this.#judge),
      clock,
      timeoutMs: 5_000,
      denyMemoryMs: 0,
    });
    this.#processes.push({ limiter, faults, told: holds });
  }

  #act(): void {
    const random = this.#random;
    const process = random.pick(this.#processes);
    const changes = this.#isSteady ? 0 : 1;
    const limits = [this.#changing?.pick(["parallel", "trial", "trial"]) ?? "parallel"];
    const action = random.weighted<() => Promise<unknown>>([
      [8, () => this.#body(process)],
      [this.#changing === undefined ? 3 : 0, () => this.#lease(process)],
      [0.5 * changes, () => this.#change(process)],
      [0.3 * changes, () => process.limiter.resetBucket({ entityId: "org", resource: "api", limits })],
      [0.3 * Math.sign(this.#faults), () => this.#die(process)],
    ]);
    action().catch((error: unknown) => {
      const name = (error as Error).name;
      if (["RateLimiterUnavailable", "RateLimitExceeded", "HoldLost", "ValidationError"].includes(name)) return;
      this.#judge.found(`an error: ${(error as Error).stack}`);
    });
  }

  #request() {
    const random = this.#random;
    const slots = random.pick([1, 1, 1, 2]);
    const holdMs = random.chance(0.2) ? { holdMs: 2_000 } : {};
    const wait = random.chance(0.3) ? { wait: { maxMs: 3_000 } } : {};
    return {
      entityId: random.pick(["ada", "ben"]),
      resource: "api",
      consume: { parallel: slots, used: 1 },
      ...holdMs,
      ...wait,
    };
  }

  /** Work that stops when its signal says so. It may take its slot later than it begins, or give it back and take one again. */
  async #body(process: Process): Promise<void> {
    const random = this.#random;
    const request = this.#request();
    const draws = this.#isSteady ? random : this.#changing;
    const [takesLater, takesAgain] = [draws?.chance(0.3) ?? false, draws?.chance(0.3) ?? false];
    const ms = random.pick([10, 300, 2_000, 9_000, 30_000]);
    const [beforeMs, betweenMs, againMs] = [0, 1, 2].map(() => random.pick([10, 300, 2_000, 9_000])) as [
      number,
      number,
      number,
    ];
    const { parallel } = request.consume;
    const first = takesLater ? { ...request, consume: { used: 1, parallel: 0 } } : request;
    await process.limiter.withLease(first, async (lease) => {
      this.#charged++;
      const { signal } = lease;
      const runs = async (forMs: number) => {
        this.#runs(request, process, 1);
        await this.#clock.sleep(forMs, signal).catch(() => {});
        this.#runs(request, process, -1);
      };
      const consumed = () => lease.consume({ parallel }).then(() => lease.consumed.parallel === parallel, unavailable);
      if (takesLater) await this.#clock.sleep(beforeMs, signal).catch(() => {});
      if (takesLater && !(await consumed())) return;
      await runs(ms);
      if (takesAgain && !signal.aborted) {
        await lease.release({ parallel });
        await this.#clock.sleep(betweenMs, signal).catch(() => {});
        if (await consumed()) await runs(againMs);
      }
      if (this.#isExact && lease.degraded !== false)
        this.#judge.found(`a slot was lost, and nothing was wrong: ${lease.degraded}`);
    });
  }

  #runs({ entityId, consume }: Asked, process: Process, sign: 1 | -1): void {
    for (const id of [entityId, "org"]) {
      const now = (this.#running.get(id) ?? 0) + sign * consume.parallel;
      this.#running.set(id, now);
      const most = this.#limits[0]?.capacity ?? 0;
      if (this.#isSteady && sign > 0 && !process.told.isDead && now > most && !this.#hasDied) {
        this.#judge.found(`${now} run at once for ${id}, of at most ${most}`);
      }
    }
  }

  #hasDied = false;

  /** A lease by hand: renewed, given back in part, taken more for, settled or rolled back, or forgotten. */
  async #lease({ limiter }: Process): Promise<void> {
    const random = this.#random;
    const lease = await limiter.acquire(this.#request());
    this.#charged++;
    for (let i = random.integer(0, 4); i > 0; i--) {
      await this.#clock.sleep(random.pick([5, 400, 1_500, 12_000]), undefined);
      const change = random.pick(["renew", "release", "consume", "keep", "adjust"] as const);
      if (change === "keep") lease.keep();
      else if (change === "renew") await lease.renew().catch(unavailable);
      else if (change === "adjust") await lease.adjust({ parallel: -1 }).catch(unavailable);
      else await lease[change]({ parallel: 1 }).catch(unavailable);
    }
    if (random.chance(0.3)) {
      this.#charged--;
      await lease.rollback();
    } else await lease.settle();
  }

  async #change({ limiter }: Process): Promise<void> {
    this.#limits = this.#drawn();
    await limiter.setResourceDefaults("api", this.#limits);
  }

  async #die(process: Process): Promise<void> {
    this.#hasDied = true;
    process.told.isDead = true;
    process.faults.crash();
    this.#processes.splice(this.#processes.indexOf(process), 1);
    await this.#begin();
  }

  #drawn(): readonly Limit[] {
    const random = this.#random;
    const used = Limit.quota("used", RATE, { reset: "yearly" });
    if (!this.#isSteady && random.chance(0.15)) return [Limit.perMinute("parallel", 6), used];
    const slots = Limit.concurrent("parallel", random.integer(1, 4), { holdMs: random.pick([4_000, 8_000, 20_000]) });
    return [slots, used, ...this.#drawnBeside()];
  }

  /** Another limit of the same slots. Who loses one loses no other. */
  #drawnBeside(): readonly Limit[] {
    if (this.#changing === undefined) return [];
    const holdMs = this.#changing.pick([4_000, 8_000, 20_000]);
    const shadow = this.#changing.chance(0.7) ? { shadow: true } : {};
    return [Limit.concurrent("trial", this.#changing.integer(2, 6), { counts: "parallel", holdMs, ...shadow })];
  }

  /** Work that waits for pauses of stores: time goes on meanwhile. */
  async #uninterrupted(work: () => Promise<void>): Promise<void> {
    let isDone = false;
    const done = work().finally(() => {
      isDone = true;
    });
    while (!isDone) {
      await this.#clock.advance(1);
      await setImmediate();
    }
    await done;
  }
}

/** Whoever is refused, or does not reach the store, goes on and closes the lease. */
function unavailable(error: unknown): void {
  if (!["RateLimiterUnavailable", "RateLimitExceeded", "ValidationError"].includes((error as Error).name)) throw error;
}
