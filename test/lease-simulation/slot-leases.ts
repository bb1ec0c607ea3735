import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { isSlotPin, pinOf } from "../../src/domain/bucket/give-back.ts";
import type { LeaseRecord } from "../../src/domain/lease/lease-record.ts";
import type { Limiter } from "../../src/engine/limiter/limiter.ts";
import { Limit, LimiterError, RateLimiter } from "../../src/entry/index.ts";
import { StoredLeases } from "../../src/leases/stored-leases.ts";
import { FaultStore } from "../../src/testing/fault-store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { Scheduler } from "../simulation/scheduler.ts";
import { balanceProblems, coverProblems } from "../simulation/slot-rules.ts";
import type { LeaseGround, OpenGround } from "./lease-grounds.ts";

// Stored leases hold slots that they took at once or later, extend them, and end, while the limit of the slots changes.

const T0 = Date.UTC(2026, 2, 15, 12);
const STEPS = 300;
const BUCKETS = ["key", "org"].map((entityId) => bucketKey(entityId, "api"));

/** What a call may be answered with beside a lease. */
const EXPECTED = new Set([
  "rate_limit_exceeded",
  "lease_closed",
  "lease_not_found",
  "lease_contended",
  "hold_lost",
  "hold_too_long",
  "unavailable",
]);

export interface SlotLeasesReport {
  readonly problem: string | undefined;
  readonly steps: readonly string[];
  /** How often each kind of call was answered with a lease. */
  readonly tally: Readonly<Record<string, number>>;
}

/** Plays one world until something is wrong. */
export async function playSlotLeases(seed: number, open: OpenGround): Promise<SlotLeasesReport> {
  return new SlotLeases(seed, open).play();
}

/** Slots that a lease has written down, on one bucket. */
interface WrittenSlots {
  readonly milli: number;
  /** Until when the lease says that it holds them, and until when its ticket does. */
  readonly leaseEndMs: number;
  readonly ticketEndMs: number;
}

class SlotLeases {
  readonly #random: SeededRandom;
  /** Ends of limits have a chance of their own, so that the rest of a world is the same with and without them. */
  readonly #ends: SeededRandom;
  readonly #clock = new SimulatedClock(T0);
  readonly #scheduler: Scheduler;
  readonly #ground: LeaseGround;
  readonly #faultRate: number;
  readonly #instances: StoredLeases[] = [];
  readonly #known = new Set<string>();
  readonly #steps: string[] = [];
  readonly #tally: Record<string, number> = {};
  readonly #slicesBefore = new Map<string, Slices>();
  #operator: Limiter | undefined;
  #underWay = 0;
  #isFaulty = false;
  #problem: string | undefined;

  constructor(seed: number, open: OpenGround) {
    this.#random = new SeededRandom(seed + 2 ** 42);
    this.#ends = new SeededRandom(seed + 2 ** 43);
    this.#scheduler = new Scheduler(() => this.#random);
    this.#ground = open(this.#clock, seed);
    this.#faultRate = this.#random.pick([0, 0, 0.05]);
  }

  async play(): Promise<SlotLeasesReport> {
    this.#operator = await RateLimiter.open({ store: this.#ground.base, clock: this.#clock, configTtlMs: 0 });
    await this.#operator.createEntity({ id: "org" });
    await this.#operator.createEntity({ id: "key", parentId: "org", cascade: true });
    await this.#change(undefined);
    for (let i = 1; i <= 2; i++) await this.#start(`instance ${i}`);
    for (let step = 0; step < STEPS && this.#problem === undefined; step++) {
      await this.#random.weighted<() => unknown>([
        [20, () => this.#scheduler.open(1)],
        [4, () => this.#act()],
        [0.7, () => this.#clock.advance(this.#random.pick([1, 500, 1_500, 4_000, 9_000]))],
        [0.4, () => this.#change(this.#ends.pick([undefined, undefined, 500, 3_000, 9_000]))],
      ])();
      await this.#check();
    }
    if (this.#problem === undefined) await this.#finish();
    await this.#ground.close();
    return { problem: this.#problem, steps: this.#steps, tally: this.#tally };
  }

  async #start(name: string): Promise<void> {
    const process = this.#ground.open(() => this.#scheduler.pause(name, "between two writes"));
    const rate = this.#faultRate;
    const line = new FaultStore(process.store, {
      random: this.#random.fork(),
      rates: { take: rate, credit: rate, renew: rate, lease: rate },
      pause: (call, before) => this.#scheduler.pause(name, `${before} ${call}`),
      onFault: () => {
        this.#isFaulty = true;
      },
    });
    this.#scheduler.calm = true;
    const limiter = await RateLimiter.open({ store: line, clock: this.#clock, denyMemoryMs: 0 });
    this.#scheduler.calm = false;
    const holds = { holdMs: 10_000, holdMaxMs: 86_400_000, onExpiry: "charge" } as const;
    this.#instances.push(new StoredLeases(limiter, { ...holds, onChange: () => {} }));
  }

  /**
   * The limit of slots becomes another one: with more or fewer of them, held for longer or not as long; now and then for a while, after which
   * it is by itself what it was.
   */
  async #change(forMs: number | undefined): Promise<void> {
    const [slots, holdMs] = [this.#random.integer(1, 5), this.#random.pick([2_000, 6_000, 20_000])];
    this.#steps.push(`${this.#clock.now() - T0}: ${slots} slots for ${holdMs} ms, ending in ${forMs}`);
    const parallel = Limit.concurrent("parallel", slots, { holdMs });
    const end = forMs === undefined ? {} : { untilMs: this.#clock.now() + forMs };
    await this.#operator?.setResourceDefaults("api", [Limit.perMinute("rpm", 1_000_000), parallel], end);
  }

  #act(): void {
    const random = this.#random;
    const on = random.pick(this.#instances);
    const known = [...this.#known];
    const leaseId = known.length === 0 ? "" : random.pick(known.slice(-3));
    const holdMs = random.pick([1_000, 2_000, 2_000, 6_000, 30_000]);
    const amounts = { parallel: 1 };
    const ofLease = known.length === 0 ? 0 : 1;
    const [what, call] = random.weighted<readonly [string, () => Promise<unknown>]>([
      [5, ["acquire", () => this.#acquire(on, holdMs)]],
      [4 * ofLease, ["consume", () => on.consume(leaseId, { amounts })]],
      [2 * ofLease, ["release", () => on.release(leaseId, { amounts })]],
      [4 * ofLease, ["extend", () => on.extend(leaseId, { holdMs })]],
      [1.5 * ofLease, ["settle", () => on.settle(leaseId)]],
      [1 * ofLease, ["rollback", () => on.rollback(leaseId)]],
      [1, ["expire", () => on.expireDue()]],
    ]);
    const told = `${what} ${what === "acquire" ? "" : leaseId} for ${holdMs} ms`;
    this.#steps.push(`${this.#clock.now() - T0}: ${told}`);
    this.#underWay++;
    call()
      .then(
        () => {
          this.#tally[what] = (this.#tally[what] ?? 0) + 1;
        },
        (error: unknown) => {
          const code = error instanceof LimiterError ? error.code : undefined;
          this.#steps.push(`${this.#clock.now() - T0}: ${told}: ${code}`);
          // A call that waits for long has no time left at the store.
          if (code === "unavailable") this.#isFaulty = true;
          if (code === undefined || !EXPECTED.has(code)) this.#found(`${told}: ${String((error as Error).stack)}`);
        },
      )
      .finally(() => {
        this.#underWay--;
      });
  }

  async #acquire(on: StoredLeases, holdMs: number): Promise<void> {
    const consume = { rpm: 1, parallel: this.#random.pick([0, 1, 1]) };
    const { lease } = await on.acquire({ entityId: "key", resource: "api", consume, holdMs });
    if (lease.leaseId !== null) this.#known.add(lease.leaseId);
  }

  #found(problem: string): void {
    this.#problem ??= `${this.#clock.now() - T0}: ${problem}`;
  }

  async #check(): Promise<void> {
    for (let i = 0; i < 3; i++) await new Promise((resolve) => setImmediate(resolve));
    const records = await this.#records();
    for (const bucket of BUCKETS) {
      for (const { state } of this.#ground.stored(bucket)) {
        const limit = state.limits.find(({ name }) => name === "parallel");
        if (limit === undefined) continue;
        const { slices = [], tokensMilli, terms } = limit;
        const tell = (problem: string) => this.#found(`${bucket.entityId}: ${problem}`);
        for (const problem of balanceProblems(tokensMilli, terms.capacityMilli, slices)) tell(problem);
        const nowMs = Math.max(this.#clock.now(), state.epochMs);
        const written = records.flatMap((record) => slotsWritten(record, bucket.entityId));
        const live = written
          .filter(({ leaseEndMs }) => leaseEndMs > nowMs)
          .map(({ leaseEndMs, milli }) => ({ endMs: leaseEndMs, heldMilli: milli }));
        for (const problem of coverProblems(slices, live)) tell(problem);
        const held = heldAt(slices, nowMs);
        // One call went on since: where more is held than before, it has taken. The store's instant counts: an extension that was sent in
        // time and lands late moves what was held then.
        const before = heldAt(this.#slicesBefore.get(bucket.id) ?? [], state.epochMs);
        if (heldAt(slices, state.epochMs) > before && tokensMilli < 0)
          tell(`${-tokensMilli} more are held than there are after a take`);
        this.#slicesBefore.set(bucket.id, slices);
        const due = sum(written.filter(({ ticketEndMs }) => ticketEndMs > nowMs).map(({ milli }) => milli));
        if (!this.#isFaulty && this.#underWay === 0 && held !== due)
          tell(`${held} are held, and open leases have ${due}`);
      }
    }
  }

  /** Open leases, as they are written down. */
  async #records(): Promise<readonly LeaseRecord[]> {
    const { items } = await this.#ground.base.scope("default").leases.listOpen({}, { limit: 10_000 });
    return items;
  }

  /** Waits until a call has ended, however it ends. One that tries again after a fault waits for the clock. */
  async #ended(call: (() => Promise<unknown>) | undefined): Promise<void> {
    let isOver = false;
    void call?.()
      .catch(() => {})
      .finally(() => {
        isOver = true;
      });
    for (;;) {
      await this.#clock.advance(0);
      if (isOver || call === undefined) return;
      await this.#clock.advance(100);
    }
  }

  /** Everybody is answered; then whatever is open ends in one way or another, and nothing is held. */
  async #finish(): Promise<void> {
    for (let i = 0; i < 5_000 && (this.#underWay > 0 || this.#scheduler.waiting > 0); i++) {
      if (this.#scheduler.waiting === 0) await this.#clock.advance(100);
      this.#scheduler.open(1);
      await this.#check();
    }
    this.#scheduler.calm = true;
    const [on] = this.#instances as [StoredLeases];
    for (const [i, { leaseId }] of (await this.#records()).entries())
      await this.#ended(
        [() => on.settle(leaseId), () => on.rollback(leaseId), () => on.extend(leaseId, { holdMs: 1_000 })][i % 3],
      );
    await this.#check();
    // What was lost ends by itself.
    await this.#clock.advance(40_000);
    await this.#ended(() => on.expireDue());
    await this.#check();
    for (const { limit, available, capacity } of (await this.#operator?.available({
      entityId: "key",
      resource: "api",
    })) ?? [])
      if (limit === "parallel" && available !== capacity) this.#found(`${available} of ${capacity} came back`);
  }
}

function slotsWritten(record: LeaseRecord, entityId: string): readonly WrittenSlots[] {
  return record.holdings.flatMap(({ at, ticket, held }) => {
    if (record.resources[at[0]]?.levels[at[1]]?.entityId !== entityId) return [];
    return held.flatMap(({ limit, milli }) => {
      const pin = pinOf(ticket, limit);
      return isSlotPin(pin) && milli > 0 ? [{ milli, leaseEndMs: record.expiresAtMs, ticketEndMs: pin.endMs }] : [];
    });
  });
}

type Slices = readonly { readonly endMs: number; readonly heldMilli: number }[];

function heldAt(slices: Slices, atMs: number): number {
  return sum(slices.filter(({ endMs }) => endMs > atMs).map(({ heldMilli }) => heldMilli));
}

function sum(amounts: readonly number[]): number {
  return amounts.reduce((all, one) => all + one, 0);
}
