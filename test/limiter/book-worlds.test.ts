import assert from "node:assert/strict";
import { after, type TestContext, test } from "node:test";
import pg from "pg";
import { dynamoOver } from "../../src/adapters/dynamodb/store.ts";
import { hourOf } from "../../src/domain/charge/usage.ts";
import { type Lease, Limit, type LoggedRefusal, RateLimiter } from "../../src/entry/index.ts";
import { openPostgres } from "../../src/entry/postgres.ts";
import type { Store } from "../../src/ports/store.ts";
import type { RowReply } from "../../src/ports/usage-store.ts";
import { FaultStore, overriding } from "../../src/testing/fault-store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { seeds } from "../depth.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { newGround, optionsFor } from "../dynamodb/store-kit.ts";
import { describePostgres } from "../postgres/postgres.ts";
import { EVERY_STORE, type OpenedStore } from "./every-store.ts";

// What processes write down beside their takes: the usage of callers that no bucket counts, and refusals, as counts and one by one. Several
// processes take for the same ids, with limits that change, over hours; writes are refused or lost, and sent again. In the end all of it is
// stored, once.

const T0 = Date.UTC(2026, 2, 15, 12, 40);
const STEPS = 120;
const IDS = ["acme", "acme-key", "solo", "guest"];
const RESOURCES = ["chat", "jobs"];
const MEASURES = ["rpm", "tpm"];

/** Numbers by the hour, the entity, the resource, and what is counted. */
class Sums {
  readonly #sums = new Map<string, number>();

  add(place: readonly (string | number)[], amount: number): void {
    if (amount === 0) return;
    const key = place.join(" ");
    const sum = (this.#sums.get(key) ?? 0) + amount;
    if (sum === 0) this.#sums.delete(key);
    else this.#sums.set(key, sum);
  }

  sorted(): readonly (readonly [string, number])[] {
    return [...this.#sums].sort(([one], [other]) => (one < other ? -1 : 1));
  }
}

/** A request that was granted, and is not given back. */
interface Open {
  readonly lease: Lease;
  readonly entityId: string;
  readonly resource: string;
}

interface Process {
  readonly limiter: RateLimiter;
  readonly open: Open[];
  /** By entity and hour, those that it was refused, the oldest first. */
  readonly refused: Map<string, string[]>;
}

/** One world: what was asked and answered, to be compared with what is stored in the end. */
class BookWorld {
  readonly #random: SeededRandom;
  readonly #clock: SimulatedClock;
  readonly #rates = { count: 0 };
  readonly #used = new Sums();
  readonly #counted = new Sums();
  readonly #processes: Process[] = [];
  faults = 0;

  constructor(seed: number, clock: SimulatedClock) {
    this.#random = new SeededRandom(seed);
    this.#clock = clock;
  }

  async play(store: Store, options: { readonly denyMemoryMs?: number }): Promise<void> {
    const operator = await RateLimiter.open({ store, clock: this.#clock, ...options });
    await operator.createEntity({ id: "acme" });
    await operator.createEntity({ id: "acme-key", parentId: "acme", cascade: true });
    // Of totals alone, which no bucket of the resource counts.
    const totals = MEASURES.map((counts) => Limit.perDay(`all-${counts}`, 1_000_000, { counts }));
    await operator.setSystemTotals(totals);
    for (let i = 0; i < 3; i++) await this.#begin(store, options);
    this.#rates.count = this.#random.pick([0.2, 0.6]);
    for (let step = 0; step < STEPS; step++) {
      await this.#random.weighted<() => Promise<unknown>>([
        [12, () => this.#take()],
        [4, () => this.#useLease()],
        [1, () => this.#change(operator)],
        [2, () => this.#clock.advance(this.#random.pick([1, 5_000, 10_000, 61_000, 1_800_000]))],
        [0.3, () => this.#askOne()],
      ])();
    }
    this.#rates.count = 0;
    for (const { limiter, open } of this.#processes) {
      for (const one of open) await this.#giveBack(one);
      await limiter.close();
    }
    await this.#compare(operator);
    await operator.close();
  }

  async #begin(inner: Store, options: { readonly denyMemoryMs?: number }): Promise<void> {
    const onFault = () => {
      this.faults++;
    };
    const store = new FaultStore(inner, { random: this.#random.fork(), rates: this.#rates, onFault });
    const limiter = await RateLimiter.open({ store, clock: this.#clock, ...options });
    this.#processes.push({ limiter, open: [], refused: new Map() });
  }

  async #take(): Promise<void> {
    const random = this.#random;
    const process = random.pick(this.#processes);
    const [entityId, resource] = [random.pick(IDS), random.pick(RESOURCES)];
    const consume = { rpm: random.integer(1, 9), tpm: random.pick([0, random.integer(1, 9)]) };
    const hourMs = hourOf(this.#clock.now());
    const taken = await process.limiter.tryAcquire({ entityId, resource, consume });
    if (taken.ok) {
      this.#used.add([hourMs, entityId, resource, "requests"], 1);
      for (const [name, amount] of Object.entries(consume)) this.#used.add([hourMs, entityId, resource, name], amount);
      process.open.push({ lease: taken.lease, entityId, resource });
      return;
    }
    const { primary } = taken;
    this.#counted.add([hourMs, entityId, resource, primary.limit], 1);
    const of = `${entityId} ${hourMs}`;
    const log = process.refused.get(of) ?? [];
    log.push(`${this.#clock.now()} ${entityId} ${resource} ${primary.limit} ${primary.requested}`);
    process.refused.set(of, log);
  }

  async #useLease(): Promise<void> {
    const { open } = this.#random.pick(this.#processes);
    const [one] = open.splice(this.#random.integer(0, Math.max(0, open.length - 1)), 1);
    if (one === undefined) return;
    if (this.#random.chance(0.4)) return this.#giveBack(one);
    const { lease, entityId, resource } = one;
    const name = this.#random.pick(Object.keys(lease.consumed));
    const by = this.#random.integer(-(lease.consumed[name] ?? 0), 20);
    this.#used.add([hourOf(this.#clock.now()), entityId, resource, name], by);
    await lease.adjust({ [name]: by });
    open.push(one);
  }

  /** All that a lease has is given back; that the request was made stays counted. */
  async #giveBack({ lease, entityId, resource }: Open): Promise<void> {
    const hourMs = hourOf(this.#clock.now());
    for (const [name, amount] of Object.entries(lease.consumed))
      this.#used.add([hourMs, entityId, resource, name], -amount);
    await lease.rollback();
  }

  async #change(operator: RateLimiter): Promise<void> {
    const random = this.#random;
    const amount = random.pick([10, 40, 100_000]);
    const limits = MEASURES.filter(() => random.chance(0.6)).map((name) => Limit.perDay(name, amount, { soft: false }));
    const where = random.pick(["acme", "solo", "resource"]);
    const resource = random.pick(RESOURCES);
    if (where === "resource") {
      if (limits.length === 0) await operator.deleteResourceDefaults(resource);
      else await operator.setResourceDefaults(resource, limits, { appliesTo: "callers" });
    } else if (limits.length === 0) await operator.deleteLimits(where, { resource });
    else await operator.setLimits(where, limits, { resource });
  }

  /** Whoever asks while something is unwritten is told no more than there is. */
  async #askOne(): Promise<void> {
    const { limiter } = this.#random.pick(this.#processes);
    let requests = 0;
    for await (const row of limiter.usage({ window: "hourly", fromMs: 0 }))
      requests += row.entityId === "guest" ? row.requests : 0;
    const all = this.#used.sorted().filter(([key]) => key.includes(" guest ") && key.endsWith(" requests"));
    const most = all.reduce((sum, [, count]) => sum + count, 0);
    assert.ok(requests <= most, `${requests} of ${most} requests of guest`);
  }

  async #compare(operator: RateLimiter): Promise<void> {
    const used = new Sums();
    for await (const { windowStartMs, entityId, resource, requests, counters } of operator.usage({
      window: "hourly",
      fromMs: 0,
    })) {
      // An entity above others is charged for them, too.
      if (entityId === "acme") continue;
      used.add([windowStartMs, entityId, resource, "requests"], requests);
      for (const [name, amount] of Object.entries(counters))
        used.add([windowStartMs, entityId, resource, name], amount);
    }
    const own = this.#used.sorted().filter(([key]) => !key.includes(" acme "));
    assert.deepEqual(used.sorted(), own, "usage");
    const counted = new Sums();
    for await (const { windowStartMs, entityId, resource, limit, count } of operator.refusals({
      window: "hourly",
      fromMs: 0,
    }))
      counted.add([windowStartMs, entityId, resource, limit], count);
    assert.deepEqual(counted.sorted(), this.#counted.sorted(), "refusals");
    const log: string[] = [];
    for await (const row of operator.refusalLog({ fromMs: 0 })) log.push(textOf(row));
    const kept = this.#processes.flatMap(({ refused }) =>
      [...refused.values()].flatMap((all) => (all.length <= 40 ? all : [...all.slice(0, 20), ...all.slice(-20)])),
    );
    assert.deepEqual(log.toSorted(), kept.toSorted(), "the log of refusals");
  }
}

function textOf({ atMs, entityId, resource, limit, requested }: LoggedRefusal): string {
  return `${atMs} ${entityId} ${resource} ${limit} ${requested}`;
}

async function play(seed: number, t: TestContext, open: OpenStore, spoiled?: Spoil): Promise<BookWorld> {
  const clock = new SimulatedClock(T0);
  const { store, options } = await open(clock, t);
  const world = new BookWorld(seed, clock);
  await world.play(spoiled === undefined ? store : spoiled(store), options);
  return world;
}

type OpenStore = (clock: SimulatedClock, t: TestContext) => OpenedStore | Promise<OpenedStore>;

function testWorlds(name: string, worlds: readonly number[], open: OpenStore): void {
  test(`on ${name} what callers used and who was refused is stored once, whatever is lost on the way`, async (t) => {
    let faults = 0;
    for (const seed of worlds) {
      try {
        faults += (await play(seed, t, open)).faults;
      } catch (error) {
        throw new Error(`seed ${seed}`, { cause: error });
      }
    }
    assert.ok(faults >= worlds.length, `${faults} faults`);
  });
}

for (const [name, open] of EVERY_STORE) {
  // The others are simulated, and keep no usage of callers.
  if (name === "memory" || name === "SQLite") testWorlds(name, seeds(3, 60), open);
}

await describePostgres("books of processes on PostgreSQL", ({ url, newSchema }) => {
  const pool = new pg.Pool({ connectionString: url, max: 4 });
  after(() => pool.end());
  testWorlds("PostgreSQL", seeds(2, 10), async (clock) => {
    const store = await openPostgres({ client: pool, schema: newSchema(), clock, adminTimeoutMs: 60_000 });
    return { store, options: {} };
  });
});

await describeDynamo("books of processes on DynamoDB", (dynamodb) => {
  testWorlds("DynamoDB", seeds(1, 5), async (clock, t) => {
    const { table } = await newGround(dynamodb, t);
    return { store: dynamoOver(optionsFor(dynamodb.client, table, { clock })), options: {} };
  });
});

type Spoil = (store: Store) => Store;

/** Every write of a row of one kind goes through this. */
const writing =
  (kind: "callers" | "refusals" | "refusalLog", change: (row: never) => object): Spoil =>
  (store) =>
    overriding(store, {
      scope: (id: string) => {
        const scope = store.scope(id);
        const part = scope[kind] as unknown as { write(rows: readonly object[], nowMs: number): readonly RowReply[] };
        const write = (rows: readonly never[], nowMs: number) => part.write(rows.map(change), nowMs);
        return { ...scope, [kind]: overriding(part, { write } as never) };
      },
    });

let rows = 0;

const MUTANTS: Readonly<Record<string, Spoil>> = {
  "a row of callers that is another one each time": writing("callers", (row: { id: string }) => ({
    ...row,
    id: `${row.id}${++rows}`,
  })),
  "counts of refusals that are others each time": writing("refusals", (row: { id: string }) => ({
    ...row,
    id: `${row.id}${++rows}`,
  })),
  "a log that loses its newest refusal": writing("refusalLog", (row: { refusals: readonly unknown[] }) => ({
    ...row,
    refusals: row.refusals.slice(0, Math.max(1, row.refusals.length - 1)),
  })),
};

for (const [bug, spoiled] of Object.entries(MUTANTS)) {
  test(`the worlds find ${bug}`, async (t) => {
    const open = (EVERY_STORE[0] as (typeof EVERY_STORE)[number])[1];
    for (let seed = 1; seed <= 20; seed++) {
      try {
        await play(seed, t, open, spoiled);
      } catch (error) {
        assert.ok(error instanceof assert.AssertionError, String((error as Error).stack));
        return;
      }
    }
    assert.fail("not found in 20 worlds");
  });
}
