import { type BucketKey, bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { LeaseRecord } from "../../src/domain/lease/lease-record.ts";
import type { Limiter } from "../../src/engine/limiter/limiter.ts";
import { RateLimiter } from "../../src/entry/index.ts";
import { StoredLeases } from "../../src/leases/stored-leases.ts";
import type { LeaseStore } from "../../src/ports/lease-store.ts";
import type { ScopedStore } from "../../src/ports/store.ts";
import { type FaultedCall, FaultStore } from "../../src/testing/fault-store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { Scheduler } from "../simulation/scheduler.ts";
import { LeaseAccount } from "./lease-account.ts";
import { type LeaseGround, type OpenGround, scoped } from "./lease-grounds.ts";
import { atMost, type Lot } from "./lease-journal.ts";
import { type ChargedLimit, drawCharged } from "./lease-limits.ts";
import { PeriodBook } from "./lease-periods.ts";

/** A store in which something is wrong: a simulation that is worth anything finds out. */
export type Mutant = (scope: ScopedStore) => ScopedStore;

/** One service process: stored leases behind a line of its own. */
export interface Instance {
  readonly name: string;
  readonly storedLeases: StoredLeases;
  /** Splits a bucket, or joins its shards. Absent where there are none. */
  readonly resize?: (bucket: BucketKey, to: "more" | "fewer" | 1) => Promise<boolean>;
  /** Give-backs that did not arrive, or perhaps not. */
  lostCredits(): number;
  /** It is gone, in the middle of whatever it does. */
  kill(): void;
}

/** Half a minute before an hour ends. */
const START_MS = Date.UTC(2026, 2, 15, 12, 59, 30);

/** A store that several instances share; each call of each waits at a gate, and the seed says which goes on. */
export class LeaseWorld {
  readonly random: SeededRandom;
  readonly clock: SimulatedClock;
  readonly scheduler: Scheduler;
  readonly charged: readonly ChargedLimit[];
  readonly periods: PeriodBook;
  readonly account: LeaseAccount;
  /** Set once a call was lost, refused, or an instance was killed. */
  isFaulty = false;
  readonly #ground: LeaseGround;
  readonly #mutant: Mutant;
  readonly #seen = new Set<string>();
  readonly #spent: Lot[] = [];
  #operator: Limiter | undefined;
  #instances = 0;

  private constructor(open: OpenGround, seed: number, mutant: Mutant) {
    this.random = new SeededRandom(seed);
    this.clock = new SimulatedClock(START_MS + this.random.integer(0, 29_000));
    this.scheduler = new Scheduler(() => this.random);
    this.charged = drawCharged(this.random);
    this.periods = new PeriodBook(this.charged, () => this.clock.now());
    this.#ground = open(this.clock, seed);
    this.account = new LeaseAccount(this.#ground, this.charged, this.periods, this.clock.now());
    this.#mutant = mutant;
  }

  static async open(ground: OpenGround, seed: number, mutant: Mutant = (scope) => scope): Promise<LeaseWorld> {
    const world = new LeaseWorld(ground, seed, mutant);
    await world.#setUp();
    return world;
  }

  async #setUp(): Promise<void> {
    const limiter = await RateLimiter.open({ store: this.#ground.base, clock: this.clock, configTtlMs: 0 });
    this.#operator = limiter;
    await limiter.createEntity({ id: "org" });
    await limiter.createEntity({ id: "key", parentId: "org", cascade: true });
    for (const bucket of new Set(this.charged.map((one) => one.bucket.id))) {
      const own = this.charged.filter((one) => one.bucket.id === bucket);
      const { entityId, resource } = (own[0] as ChargedLimit).bucket;
      await limiter.setLimits(
        entityId,
        own.map(({ limit }) => limit),
        { resource },
      );
    }
    for (const resource of ["api", "gpu"]) {
      const own = this.charged.filter(
        ({ bucket, drained }) => bucket.id === bucketKey("key", resource).id && drained > 0,
      );
      const consume = Object.fromEntries(own.map(({ limit, drained }) => [limit.name, drained]));
      if (own.length === 0) continue;
      await (await limiter.acquire({ entityId: "key", resource, consume })).settle();
      const most = resource === "api" ? atMost(consume) : atMost({}, { gpu: consume });
      for (const [place, tokens] of most) this.#spent.push({ place, tokens, span: { fromStep: 0, toStep: 0 } });
    }
  }

  /** What was spent before the story began. */
  get drained(): readonly Lot[] {
    return this.#spent;
  }

  /** What was stored, without a line in between. */
  get leases(): LeaseStore {
    return this.#ground.base.scope("default").leases;
  }

  /** Who buys and resets; no line is in between. */
  get operator(): Limiter {
    return this.#operator as Limiter;
  }

  /** Whether a transaction covers records and buckets: then no kill and no lost answer leaves one without the other. */
  get isAtOnce(): boolean {
    return this.leases.change !== undefined;
  }

  async start(faultRate: number): Promise<Instance> {
    const name = `instance ${++this.#instances}`;
    const process = this.#ground.open(() => this.scheduler.pause(name, "between two writes"));
    // Opening is no part of the story.
    const rates: Partial<Record<FaultedCall, number>> = {};
    let lost = 0;
    const watched = scoped(process.store, (scope) => this.periods.watch(this.#mutant(scope)));
    const line: FaultStore = new FaultStore(watched, {
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
    const storedLeases = new StoredLeases(limiter, { ...holds, onChange: () => {} });
    const kill = () => {
      this.isFaulty = true;
      line.crash();
      process.crash();
      this.scheduler.drop(name);
    };
    const { resize } = process;
    return { name, storedLeases, lostCredits: () => lost, kill, ...(resize === undefined ? {} : { resize }) };
  }

  /** The records of all leases that were answered, or were ever seen. */
  async records(answered: Iterable<string>): Promise<readonly LeaseRecord[]> {
    for (const leaseId of answered) this.#seen.add(leaseId);
    const { items } = await this.leases.listOpen({}, { limit: 10_000 });
    for (const { leaseId } of items) this.#seen.add(leaseId);
    const records = await Promise.all([...this.#seen].map((leaseId) => this.leases.get(leaseId)));
    return records.filter((record) => record !== undefined);
  }

  async close(): Promise<void> {
    await this.#ground.close();
  }
}
