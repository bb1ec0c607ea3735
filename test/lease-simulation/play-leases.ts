import type { BucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { LimiterError } from "../../src/entry/index.ts";
import type { LeaseRequest } from "../../src/leases/lease-request.ts";
import type { Answered, StoredLeases } from "../../src/leases/stored-leases.ts";
import type { OpenGround } from "./lease-grounds.ts";
import { atMost, LeaseJournal } from "./lease-journal.ts";
import { isQuota } from "./lease-limits.ts";
import type { Span } from "./lease-periods.ts";
import { type Instance, LeaseWorld, type Mutant } from "./lease-world.ts";

export interface LeaseReport {
  readonly seed: number;
  readonly violations: readonly string[];
  readonly steps: readonly string[];
  readonly answered: number;
  /** How often what happened that not every world has. */
  readonly tally: Readonly<Record<string, number>>;
}

const STEPS = 120;
const FINISHING_STEPS_MAX = 20_000;

/** Errors that say what became of the call: nothing was changed by it. */
const DECIDED = new Set([
  "lease_closed",
  "lease_not_found",
  "idempotency_key_reused",
  "lease_contended",
  "rate_limit_exceeded",
]);

/** How a change that was never answered may be refused when it is sent again. */
const CHANGE_REFUSED = new Set(["idempotency_in_progress", "lease_closed", "rate_limit_exceeded"]);

/** The same of a request for a lease. */
const REFUSED = new Set(["idempotency_in_progress", "rate_limit_exceeded"]);

/** What is due when an instance that expires it dies, or whose give-backs are lost, is given back by nobody: any lease may be. */
const ALL_DUE = atMost({ tpm: 100_000, rpm: 10_000 }, { gpu: { slots: 10_000 } });

/** Of a call that changes records and buckets in one transaction: there is nothing that records do not account for. */
const NOTHING: ReadonlyMap<string, number> = new Map();

/** A change of a lease under a key, as often as it is sent. */
interface KeyedChange {
  readonly key: string;
  readonly leaseId: string;
  readonly most: ReadonlyMap<string, number>;
  send(storedLeases: StoredLeases): Promise<Answered>;
}

/** Plays one seed: clients, time, faults and deaths against a few instances on one store. */
export async function playLeases(seed: number, ground: OpenGround, mutant?: Mutant): Promise<LeaseReport> {
  const world = await LeaseWorld.open(ground, seed, mutant);
  try {
    return await new LeasePlay(world, seed).run();
  } finally {
    await world.close();
  }
}

class LeasePlay {
  readonly #world: LeaseWorld;
  readonly #seed: number;
  readonly #journal = new LeaseJournal();
  readonly #steps: string[] = [];
  readonly #faultRate: number;
  readonly #deathRate: number;
  #instances: Instance[] = [];
  /** What each instance's calls under way may have moved, should it die. */
  readonly #underWay = new Map<Instance, Set<ReadonlyMap<string, number>>>();
  readonly #keys: { readonly key: string; readonly request: LeaseRequest }[] = [];
  readonly #changes: KeyedChange[] = [];
  readonly #tally: Record<string, number> = {};
  /** Buckets that were split, as often as they were. */
  readonly #wereSplit: BucketKey[] = [];
  #step = 0;

  constructor(world: LeaseWorld, seed: number) {
    this.#world = world;
    this.#seed = seed;
    // A third of the worlds is without faults: there everything must be exact.
    const { random } = world;
    const isCalm = random.chance(1 / 3);
    this.#faultRate = isCalm ? 0 : random.pick([0, 0.02, 0.1]);
    this.#deathRate = isCalm ? 0 : random.pick([0, 0.03, 0.08]);
  }

  async run(): Promise<LeaseReport> {
    const { random, clock, scheduler } = this.#world;
    this.#journal.spent.push(...this.#world.drained);
    await this.#check();
    for (let i = random.integer(1, 3); i > 0; i--) await this.#start();
    for (this.#step = 1; this.#step <= STEPS; this.#step++) {
      const what = random.weighted<() => unknown>([
        [10, () => scheduler.open(random.integer(1, 3))],
        [4, () => this.#act()],
        [1, () => clock.advance(random.pick([1, 500, 3_000, 16_000, 16_000, 61_000]))],
        [0.3, () => this.#operate()],
        [this.#deathRate * 15, () => this.#kill()],
      ]);
      await what();
      await this.#settleTurn();
      await this.#check();
      if (this.#journal.violations.length > 0) break;
    }
    if (this.#journal.violations.length === 0) await this.#finish();
    const { violations, answered } = this.#journal;
    return { seed: this.#seed, violations, steps: this.#steps, answered: answered.size, tally: this.#tally };
  }

  async #start(): Promise<void> {
    const instance = await this.#world.start(this.#faultRate);
    this.#underWay.set(instance, new Set());
    this.#instances.push(instance);
    // As every service does when it starts.
    this.#expire(instance);
  }

  async #kill(): Promise<void> {
    const instance = this.#world.random.pick(this.#instances);
    this.#steps.push(`${instance.name} is killed`);
    instance.kill();
    const span = { fromStep: 0, toStep: this.#step };
    for (const most of this.#underWay.get(instance) ?? []) this.#journal.unanswered(most, span);
    this.#instances = this.#instances.filter((one) => one !== instance);
    await this.#start();
  }

  /** A client does something, at any of the instances. */
  #act(): void {
    const { random } = this.#world;
    const instance = random.pick(this.#instances);
    const { storedLeases } = instance;
    const known = [...this.#journal.answered.keys()];
    const kind = random.weighted([
      [5, "acquire"],
      [this.#keys.length > 0 ? 2 : 0, "repeat"],
      [this.#changes.length > 0 ? 2 : 0, "change again"],
      ...(known.length === 0
        ? []
        : ([
            [3, "settle"],
            [2, "rollback"],
            [2, "adjust"],
            [2, "consume"],
            [1, "release"],
            [1, "extend"],
            [1, "get"],
          ] as const)),
      [2, "expire"],
      [instance.resize === undefined ? 0 : 3, "resize"],
    ] as const);
    const beganAt = this.#journal.now;
    const leaseId = known.length === 0 ? "" : random.pick(known);
    const held = this.#journal.answered.get(leaseId)?.consumed ?? {};
    const tokens = random.integer(0, 40);
    // Every call may find that the time of the lease is up, and give all of it back.
    const most = this.#world.isAtOnce
      ? NOTHING
      : atMost({ tpm: Math.max(...Object.values(held), 0) + 2_000, rpm: 200 }, { gpu: { slots: 50 } });
    switch (kind) {
      case "acquire":
        this.#acquire(instance, this.#newRequest());
        break;
      case "repeat":
        this.#acquire(instance, random.pick(this.#keys).request);
        break;
      case "settle": {
        const totals = random.chance(0.2) ? {} : { tpm: tokens };
        this.#call(instance, `settles ${leaseId} at ${tokens}`, most, async () => {
          this.#journal.settled(await storedLeases.settle(leaseId, { consumed: totals }), totals, beganAt);
        });
        break;
      }
      case "rollback":
        this.#call(instance, `rolls ${leaseId} back`, most, async () => {
          this.#journal.rolledBack(await storedLeases.rollback(leaseId), beganAt);
        });
        break;
      case "change again":
        this.#change(instance, random.pick(this.#changes));
        break;
      case "adjust": {
        const delta = { tpm: random.integer(-30, 30), rpm: random.integer(-1, 1) };
        const keyed = this.#keyOf(0.5);
        const adjust = (on: StoredLeases) => on.adjust(leaseId, { delta, ...keyed });
        if (this.#isKeyed(instance, { leaseId, most, send: adjust }, keyed)) break;
        this.#call(instance, `adjusts ${leaseId} by ${delta.tpm}`, most, async () => {
          this.#journal.shown((await adjust(storedLeases)).lease, beganAt);
        });
        break;
      }
      case "consume":
      case "release": {
        const keyed = this.#keyOf(0.5);
        const send = (on: StoredLeases) => on[kind](leaseId, { amounts: { tpm: tokens }, ...keyed });
        if (this.#isKeyed(instance, { leaseId, most, send }, keyed)) break;
        this.#call(instance, `${kind}s ${tokens} of ${leaseId}`, most, async () => {
          this.#journal.shown((await send(storedLeases)).lease, beganAt);
        });
        break;
      }
      case "extend":
        this.#call(instance, `extends ${leaseId}`, most, async () => {
          this.#journal.shown(await storedLeases.extend(leaseId, { holdMs: 5_000 }), beganAt);
        });
        break;
      case "get":
        this.#call(instance, `looks at ${leaseId}`, most, async () => {
          this.#journal.shown(await storedLeases.get(leaseId), beganAt);
        });
        break;
      case "expire":
        this.#expire(instance);
        break;
      case "resize":
        this.#resize(instance);
    }
  }

  #expire(instance: Instance): void {
    const most = this.#world.isAtOnce ? NOTHING : ALL_DUE;
    this.#call(instance, "expires what is due", most, () => instance.storedLeases.expireDue());
  }

  /** Sends a change that has a key, and remembers it: it may be sent again. */
  #isKeyed(
    instance: Instance,
    change: Omit<KeyedChange, "key">,
    { idempotencyKey: key }: { readonly idempotencyKey?: string },
  ): boolean {
    if (key === undefined) return false;
    const keyed = { ...change, key };
    this.#changes.push(keyed);
    this.#change(instance, keyed);
    return true;
  }

  #change(instance: Instance, { key, leaseId, most, send }: KeyedChange): void {
    const beganAt = this.#journal.now;
    this.#call(instance, `changes ${leaseId} under ${key}`, new Map(most), async () => {
      const answer = await send(instance.storedLeases);
      this.#journal.changed(answer, key);
      // A replay shows the lease as it was then.
      if (!answer.replayed) this.#journal.shown(answer.lease, beganAt);
    });
  }

  #newRequest(): LeaseRequest {
    const { random } = this.#world;
    const request = {
      ...{ entityId: "key", resource: "api", consume: { rpm: 1, tpm: random.integer(1, 40) } },
      ...(random.chance(0.3) ? { also: { gpu: { slots: random.integer(1, 5) } } } : {}),
      ...(random.chance(0.2) ? { holdMs: 0 } : { holdMs: random.pick([1_000, 4_000, 60_000]) }),
      onExpiry: random.pick(["charge", "refund"] as const),
      ...this.#keyOf(0.5),
    };
    const { idempotencyKey } = request;
    if (idempotencyKey !== undefined) this.#keys.push({ key: idempotencyKey, request });
    return request;
  }

  #acquire(instance: Instance, request: LeaseRequest): void {
    const { consume, idempotencyKey } = request;
    const also = request.also as Readonly<Record<string, Record<string, number>>> | undefined;
    // What is charged at once has no record.
    const isRecorded = this.#world.isAtOnce && request.holdMs !== 0;
    const most = isRecorded ? NOTHING : atMost(consume as Record<string, number>, also);
    const what = `acquires ${JSON.stringify({ ...consume, ...also?.gpu })} ${idempotencyKey ?? ""} hold ${request.holdMs}`;
    this.#call(instance, what, most, async (spanOf) => {
      const { lease, replayed } = await instance.storedLeases.acquire(request);
      this.#journal.acquired(lease, { key: idempotencyKey, replayed, span: spanOf() });
    });
  }

  /** A bucket is split, or its shards are joined, while leases are held on it. */
  #resize(instance: Instance): void {
    const { random, charged } = this.#world;
    const to = random.pick(["more", "more", "fewer", 1] as const);
    // One that was never split has no shards to join.
    const buckets = to === "more" || this.#wereSplit.length === 0 ? charged.map((one) => one.bucket) : this.#wereSplit;
    const bucket = random.pick(buckets);
    this.#call(instance, `resizes ${bucket.id} to ${to}`, NOTHING, async () => {
      if (!(await instance.resize?.(bucket, to))) return;
      if (to === "more") this.#wereSplit.push(bucket);
      this.#count(to === "more" ? "split" : "joined");
    });
  }

  #count(what: string): void {
    this.#tally[what] = (this.#tally[what] ?? 0) + 1;
  }

  /** Somebody buys for a quota, or resets it; nothing else happens meanwhile. */
  async #operate(): Promise<void> {
    const { random, charged, operator, account, periods, clock } = this.#world;
    const quotas = charged.filter((one) => isQuota(one) && account.isOpen(one, clock.now()));
    if (quotas.length === 0) return;
    const { place, bucket, limit } = random.pick(quotas);
    const { entityId, resource } = bucket;
    if (random.chance(0.5)) {
      const tokens = random.integer(1, 50);
      this.#steps.push(`somebody buys ${tokens} of ${place}`);
      await operator.topUp({ entityId, resource, amounts: { [limit.name]: tokens } });
      account.bought.push({ place, tokens, span: this.#spanFrom(this.#step) });
      return;
    }
    this.#count("reset");
    this.#steps.push(`somebody resets ${place}`);
    await operator.resetBucket({ entityId, resource, limits: [limit.name] });
    periods.reset(place);
  }

  #spanFrom(fromStep: number): Span {
    return { fromStep, toStep: this.#step };
  }

  #keyOf(chance: number): { readonly idempotencyKey?: string } {
    return this.#world.random.chance(chance) ? { idempotencyKey: `key-${this.#world.random.id()}` } : {};
  }

  #call(
    instance: Instance,
    what: string,
    atMost: ReadonlyMap<string, number>,
    call: (spanOf: () => Span) => Promise<unknown>,
  ): void {
    this.#steps.push(`${instance.name} ${what}`);
    const calls = this.#underWay.get(instance);
    const lostBefore = instance.lostCredits();
    // Each call by itself, also of those of which nothing is in doubt.
    const most = new Map(atMost);
    calls?.add(most);
    const fromStep = this.#step;
    const spanOf = () => this.#spanFrom(fromStep);
    // The promise of an instance that was killed never ends.
    call(spanOf).then(
      () => {
        calls?.delete(most);
        // It was answered, but what it gave back may not have arrived.
        if (instance.lostCredits() > lostBefore) this.#journal.unanswered(most, this.#spanFrom(0));
        this.#steps.push(`${instance.name} ${what}: done`);
      },
      (error: unknown) => {
        calls?.delete(most);
        const code = error instanceof LimiterError ? error.code : undefined;
        this.#steps.push(`${instance.name} ${what}: ${code ?? String(error)}`);
        if (code === "rate_limit_exceeded") this.#count("refused");
        if (code === undefined) this.#journal.fail(`${what} failed with ${String((error as Error)?.stack ?? error)}`);
        // Time that passed while a call waited may have used up the time it has at the store.
        if (code === "unavailable") this.#world.isFaulty = true;
        // What was refused, or lost to another, has given back all it took; unless a fault kept it from that.
        if (code === undefined || !DECIDED.has(code) || instance.lostCredits() > lostBefore) {
          this.#journal.unanswered(most, this.#spanFrom(0));
        }
      },
    );
  }

  async #settleTurn(): Promise<void> {
    for (let i = 0; i < 3; i++) await new Promise((resolve) => setImmediate(resolve));
  }

  /**
   * After every step, whatever is under way: no bucket is charged less than the leases of the store hold, and none more than they
   * hold and those may have moved that are under way, or were never answered.
   */
  async #check(): Promise<void> {
    const { world, journal } = { world: this.#world, journal: this.#journal };
    const underWay = this.#instances.flatMap((one) => [...(this.#underWay.get(one) ?? [])]);
    const isQuiet = underWay.length === 0 && world.scheduler.waiting === 0;
    const records = await world.records(journal.answered.keys());
    const { spent } = journal;
    // Without a fault nothing is in doubt once everybody is answered.
    const unsure = isQuiet && !world.isFaulty ? [] : journal.unsure;
    const standings = world.account.standings(this.#step, world.clock.now(), { records, spent, unsure });
    for (const [place, standing] of standings) {
      if (standing === undefined) {
        journal.fail(`${place} is not on all shards of its bucket, or by other rules`);
        continue;
      }
      const { chargedMilli, leastMilli, mostMilli, roundingMilli } = standing;
      const moving = underWay.reduce((sum, most) => sum + (most.get(place) ?? 0) * 1000, 0);
      if (chargedMilli < leastMilli - roundingMilli)
        journal.fail(`${place} is charged ${chargedMilli}, and ${leastMilli} are held or spent`);
      if (chargedMilli > mostMilli + moving + roundingMilli)
        journal.fail(`${place} is charged ${chargedMilli}, and only ${mostMilli + moving} can be accounted for`);
    }
    this.#tally.ended = world.periods.ended;
    for (const problem of world.periods.problems.splice(0)) journal.fail(problem);
    const stored = new Set(records.map(({ leaseId }) => leaseId));
    for (const leaseId of journal.answered.keys()) {
      if (!stored.has(leaseId)) journal.fail(`${leaseId} was answered and is gone`);
    }
  }

  /** Everybody gets an answer; then, beside what nobody was answered for, every token that is charged is accounted for. */
  async #finish(): Promise<void> {
    const { scheduler } = this.#world;
    for (let step = 0; scheduler.waiting > 0 && step < FINISHING_STEPS_MAX; step++) {
      this.#step++;
      scheduler.open(3);
      await this.#settleTurn();
      await this.#check();
    }
    await this.#checkKeys();
    // Whoever was killed in the middle of a change: its repeat has charged once, or was answered with what was done.
    if (this.#world.isAtOnce) await this.#check();
  }

  /** Every key that was answered is answered the same by a new instance, without a fault. */
  async #checkKeys(): Promise<void> {
    const instance = await this.#world.start(0);
    this.#world.scheduler.calm = true;
    this.#step++;
    for (const { key, request } of this.#keys) {
      try {
        const { lease, replayed } = await instance.storedLeases.acquire(request);
        this.#journal.acquired(lease, { key, replayed, span: this.#spanFrom(this.#step) });
      } catch (error) {
        const code = error instanceof LimiterError ? error.code : undefined;
        const isAnswered = this.#journal.isAnswered(key) && code !== "idempotency_in_progress";
        if (isAnswered || !REFUSED.has(code ?? ""))
          this.#journal.fail(`the key ${key} was answered with ${String(error)}`);
      }
    }
    for (const { key, send } of this.#changes) {
      try {
        this.#journal.changed(await send(instance.storedLeases), key);
      } catch (error) {
        const code = error instanceof LimiterError ? error.code : undefined;
        const isAnswered = this.#journal.isAnswered(key) || !CHANGE_REFUSED.has(code ?? "");
        if (isAnswered) this.#journal.fail(`the key ${key} was answered with ${String(error)}`);
      }
    }
  }
}
