import type { LeaseRecord } from "../../src/domain/lease-record.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { LeaseDesk } from "../../src/leases/desk.ts";
import type { LeaseStore } from "../../src/ports/lease-store.ts";
import type { Store } from "../../src/ports/store.ts";
import { type FaultedCall, FaultStore } from "../../src/testing/fault-store.ts";
import { overriding } from "../../src/testing/overriding.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { Scheduler } from "../simulation/scheduler.ts";

export const T0 = Date.UTC(2026, 2, 15, 12);

/** Nothing drips in, so that what a bucket lacks is what it is charged. */
const still = (name: string, capacity: number): Limit =>
  Limit.custom(name, { capacity, refillAmount: 1, refillPeriodMs: 1_000_000_000_000 });

const CAPACITY = 1_000_000;

/** Every limit that is charged, as `entity/resource/limit`. */
export const CHARGED = ["key/api/rpm", "key/api/tpm", "org/api/tpm", "key/gpu/slots"] as const;

/** A store in which something is wrong: a simulation that is worth anything finds out. */
export type Mutant = (leases: LeaseStore) => LeaseStore;

/** The store without its transaction over leases and buckets, as one has it that writes single items. */
export function inSteps(store: Store): Store {
  return overriding(store, {
    scope: (id: string) => {
      const scope = store.scope(id);
      return { ...scope, leases: overriding(scope.leases, { isWrittenByTake: false, change: undefined as never }) };
    },
  });
}

/** One service process: a desk behind a line of its own. */
export interface Instance {
  readonly name: string;
  readonly desk: LeaseDesk;
  /** Give-backs that did not arrive, or perhaps not. */
  lostCredits(): number;
  /** It is gone, in the middle of whatever it does. */
  kill(): void;
}

/** A store that several instances share; each call of each waits at a gate, and the seed says which goes on. */
export class LeaseWorld {
  readonly random: SeededRandom;
  readonly clock: SimulatedClock;
  readonly scheduler: Scheduler;
  /** Set once a call was lost, refused, or an instance was killed. */
  isFaulty = false;
  readonly #base: Store;
  readonly #mutant: Mutant | undefined;
  readonly #seen = new Set<string>();
  #instances = 0;

  private constructor(base: Store, clock: SimulatedClock, random: SeededRandom, mutant: Mutant | undefined) {
    this.#base = base;
    this.clock = clock;
    this.random = random;
    this.#mutant = mutant;
    this.scheduler = new Scheduler(() => random);
  }

  static async open(base: (clock: SimulatedClock) => Store, seed: number, mutant?: Mutant): Promise<LeaseWorld> {
    const clock = new SimulatedClock(T0);
    const store = base(clock);
    const world = new LeaseWorld(store, clock, new SeededRandom(seed), mutant);
    const limiter = await RateLimiter.open({ store, clock });
    await limiter.setResourceDefaults("api", [still("rpm", CAPACITY), still("tpm", CAPACITY)]);
    await limiter.setResourceDefaults("gpu", [still("slots", CAPACITY)]);
    await limiter.createEntity({ id: "org" });
    await limiter.createEntity({ id: "key", parentId: "org", cascade: true });
    await limiter.setLimits("org", [still("tpm", CAPACITY)], { resource: "api" });
    await limiter.close();
    return world;
  }

  /** What was stored, without a line in between. */
  get leases(): LeaseStore {
    return this.#base.scope("default").leases;
  }

  /** Whether a transaction covers records and buckets: then no kill and no lost answer leaves one without the other. */
  get isAtOnce(): boolean {
    return this.leases.change !== undefined;
  }

  async start(faultRate: number): Promise<Instance> {
    const name = `instance ${++this.#instances}`;
    // Opening is no part of the story.
    const rates: Partial<Record<FaultedCall, number>> = {};
    let lost = 0;
    const line: FaultStore = new FaultStore(this.#mutated(), {
      random: this.random,
      rates,
      pause: (call, before) => this.scheduler.pause(name, `${before} ${call}`),
      onFault: (call) => {
        this.isFaulty = true;
        if (call === "credit") lost++;
      },
    });
    this.scheduler.calm = true;
    const limiter = await RateLimiter.open({ store: line, clock: this.clock, denyMemoryMs: 0 });
    this.scheduler.calm = false;
    for (const call of ["take", "debit", "credit", "lease", "key", "look"] as const) rates[call] = faultRate;
    const holds = { holdMs: 10_000, holdMaxMs: 86_400_000, onExpiry: "charge" } as const;
    const desk = new LeaseDesk(limiter, { ...holds, onChange: () => {} });
    const kill = () => {
      this.isFaulty = true;
      line.crash();
      this.scheduler.drop(name);
    };
    return { name, desk, lostCredits: () => lost, kill };
  }

  /** What each limit is charged, in tokens, as the buckets have it. */
  async charges(): Promise<ReadonlyMap<string, number>> {
    const limiter = await RateLimiter.open({ store: this.#base, clock: this.clock, configTtlMs: 0 });
    const found = new Map<string, number>();
    for (const resource of ["api", "gpu"]) {
      for (const { entityId, limit, available } of await limiter.available({ entityId: "key", resource })) {
        found.set(`${entityId}/${resource}/${limit}`, CAPACITY - available);
      }
    }
    await limiter.close();
    return found;
  }

  /** What the records of all leases that were answered, or were ever seen, say is held, in tokens; by our own sum. */
  async held(answered: Iterable<string>): Promise<ReadonlyMap<string, number>> {
    for (const leaseId of answered) this.#seen.add(leaseId);
    const { items } = await this.leases.listOpen({}, { limit: 10_000 });
    for (const { leaseId } of items) this.#seen.add(leaseId);
    const found = new Map<string, number>();
    for (const leaseId of this.#seen) {
      const record = await this.leases.get(leaseId);
      if (record !== undefined) addHeld(found, record);
    }
    return found;
  }

  #mutated(): Store {
    const mutant = this.#mutant;
    if (mutant === undefined) return this.#base;
    const base = this.#base;
    return overriding(base, {
      scope: (id: string) => {
        const scope = base.scope(id);
        return { ...scope, leases: mutant(scope.leases) };
      },
    });
  }
}

function addHeld(found: Map<string, number>, record: LeaseRecord): void {
  for (const { at, held } of record.holdings) {
    const resource = record.resources[at[0]];
    const place = `${resource?.levels[at[1]]?.entityId}/${resource?.resource}`;
    for (const { limit, milli } of held) {
      found.set(`${place}/${limit}`, (found.get(`${place}/${limit}`) ?? 0) + milli / 1000);
    }
  }
}
