import { createCalendar } from "../src/adapters/system/calendar.ts";
import { systemClock } from "../src/adapters/system/clock.ts";
import { bucketKey } from "../src/domain/bucket/bucket-key.ts";
import { Limit } from "../src/domain/limits/limit.ts";
import { limitSet } from "../src/domain/limits/limit-set.ts";
import { RateLimiter } from "../src/entry/index.ts";
import type { Claim } from "../src/ports/bucket-store.ts";
import type { Item, ItemStore } from "../src/ports/item-store.ts";
import { SeededRandom } from "../src/testing/random.ts";
import { conditionalWorld, openConditional } from "../test/kit/conditional-store.ts";
import { OriginalClient } from "../test/simulation/original-client.ts";
import { type Contender, compare, type Measured } from "./measure.ts";
import { VirtualTime } from "./virtual-time.ts";

/** One way of using one bucket. */
interface Scene {
  readonly forms: "ours" | "the original's";
  readonly processes: number;
  /** Requests, as a part of what the bucket refills. */
  readonly load: number;
  readonly limits: number;
  readonly coalesce: boolean;
  readonly exact: boolean;
}

interface Costs extends Scene {
  readonly "writes an acquire": number;
  readonly "trips an acquire": number;
  readonly "granted of due": number;
}

const RATE = 100;
const BURST = 100;
const TRIP_MS = 5;
const SECONDS = 30;
const LOADS = [0.1, 0.5, 0.9, 2, 4];
const PROCESSES = [1, 5, 20];
const calendar = createCalendar();

const LIMITS = [
  Limit.perSecond("rps", RATE, { burst: BURST }),
  Limit.perSecond("tps", RATE * 100, { burst: BURST * 100 }),
];
const TOKENS = { rps: 1, tps: 100 };

export async function benchProtocol(): Promise<{ title: string; rows: readonly object[] }[]> {
  const ours: Costs[] = [];
  for (const limits of [1, 2]) {
    for (const exact of [false, true]) {
      for (const coalesce of [true, false]) {
        for (const processes of PROCESSES) {
          for (const load of LOADS)
            ours.push(await costsOf({ forms: "ours", processes, load, limits, coalesce, exact }));
        }
      }
    }
  }
  const originals: Costs[] = [];
  for (const processes of PROCESSES) {
    for (const load of LOADS) {
      originals.push(
        await costsOf({ forms: "the original's", processes, load, limits: 2, coalesce: false, exact: false }),
      );
    }
  }
  return [
    { title: `protocol: cost of an acquire, ${RATE} a second, ${TRIP_MS} ms a trip, requests at random`, rows: ours },
    { title: "protocol: the same by the original's write forms", rows: originals },
    { title: "protocol: CPU of an acquire of two limits, the store answering at once", rows: await cpu() },
  ];
}

/** What one acquire costs with several processes on one bucket, in writes and round trips of a simulated store. */
async function costsOf(scene: Scene): Promise<Costs> {
  const time = new VirtualTime(Date.UTC(2026, 0, 1));
  const random = new SeededRandom(7);
  const table = { now: () => time.now(), random: random.fork(), writesPerSecond: Number.POSITIVE_INFINITY, staleMs: 0 };
  const world = conditionalWorld(table, calendar);
  let trips = 0;
  const pause = async (_: unknown, before: string): Promise<void> => {
    if (before === "applying") trips++;
    await time.sleep(TRIP_MS / 2);
  };
  const asks = Array.from({ length: scene.processes }, () => processOf(scene, world, time, pause, random.fork()));
  let [acquires, granted] = [0, 0];
  const ask = async (process: (typeof asks)[number]): Promise<void> => {
    acquires++;
    if (await process()) granted++;
  };
  const startMs = time.now() + 1_000;
  // Everybody has met the bucket before: what is measured is not the first contact.
  for (const [i, process] of asks.entries()) time.at(startMs - 900 + 20 * i, () => void ask(process));
  let before = { writes: 0, acquires: 0, trips: 0, granted: 0 };
  const writes = () => world.table.counts.writes + world.table.counts.transactions;
  time.at(startMs, () => {
    before = { writes: writes(), acquires, trips, granted };
  });
  for (let atMs = startMs; ; ) {
    atMs += (-Math.log(1 - random.next()) * 1000) / (RATE * scene.load);
    if (atMs > startMs + SECONDS * 1000) break;
    const process = random.pick(asks);
    time.at(atMs, () => void ask(process));
  }
  await time.run();
  const asked = acquires - before.acquires;
  return {
    ...scene,
    "writes an acquire": rounded((writes() - before.writes) / asked),
    "trips an acquire": rounded((trips - before.trips) / asked),
    "granted of due": rounded((granted - before.granted) / Math.min(asked, BURST + RATE * SECONDS)),
  };
}

/** A process that asks once each time it is called, and tells whether it was granted. */
function processOf(
  scene: Scene,
  world: ReturnType<typeof conditionalWorld>,
  time: VirtualTime,
  pause: (call: unknown, before: string) => Promise<void>,
  random: SeededRandom,
): () => Promise<boolean> {
  const limits = LIMITS.slice(0, scene.limits);
  const bucket = bucketKey("key", "api");
  if (scene.forms === "the original's") {
    const items = world.table.lineTo("default", { pause });
    const now = () => time.now();
    const original = new OriginalClient(items, { now, random: () => random.next(), resolve: () => limits, calendar });
    const tokens = Object.fromEntries(Object.entries(TOKENS).slice(0, scene.limits));
    return async () => !(await original.acquire(bucket, tokens)).refused;
  }
  const { coalesce, exact } = scene;
  const options = { clock: time, random: () => random.next(), coalesce, exact, denyMemoryMs: 1_000, line: { pause } };
  const buckets = openConditional(world, options).bucketsOf("default");
  const claim = claimOf(bucket, limits);
  return async () => {
    const context = { nowMs: time.now(), timeoutMs: 1_000, generation: undefined, atomic: false };
    const [answer] = await buckets.take([claim], context);
    return typeof answer === "object" && answer.kind === "taken";
  };
}

function claimOf(bucket: Claim["bucket"], limits: readonly Limit[]): Claim {
  const take = Object.entries(TOKENS)
    .slice(0, limits.length)
    .map(([limit, tokens]) => ({ limit, milli: tokens * 1000 }));
  return { bucket, set: limitSet(limits), origin: { asOfMs: 0, generation: null }, take, bypass: false };
}

/** A whole acquire on the protocol, its store answering at once, against one on the memory store. */
async function cpu(): Promise<Measured[]> {
  const rate = 1_000_000_000;
  const limits = [Limit.perMinute("rpm", rate), Limit.perMinute("tpm", rate)];
  const instant = new InstantItems();
  const random = new SeededRandom(1);
  const table = { now: () => 0, random, writesPerSecond: Number.POSITIVE_INFINITY, staleMs: 0 };
  const options = { clock: systemClock, random: () => random.next(), denyMemoryMs: 1_000, through: () => instant };
  const protocol = openConditional(conditionalWorld(table, calendar), options);
  const contenders: Contender[] = [];
  for (const [name, store] of [
    ["memory store", "memory"],
    ["protocol", protocol],
  ] as const) {
    const limiter = await RateLimiter.open({ store });
    await limiter.setSystemDefaults(limits);
    const keys = Array.from({ length: 100 }, (_, i) => `key-${i}`);
    contenders.push({
      name,
      owner: "ours",
      run: async (calls) => {
        for (let i = 0; i < calls; i++) {
          const entityId = keys[i % keys.length] as string;
          await limiter.tryAcquire({ entityId, resource: "api", consume: { rpm: 1, tpm: 500 } });
        }
      },
    });
  }
  contenders.push({
    name: "the store that answers at once, alone",
    owner: "peer",
    run: async (calls) => {
      for (let i = 0; i < calls; i++) await instant.write(instant.last as never);
    },
  });
  const [memory, ...others] = contenders as [Contender, ...Contender[]];
  return (await compare(memory, others, { by: ["thread CPU"], rounds: 9, extent: "all" })).rows;
}

/** Applies every write without looking at its condition. */
class InstantItems implements Pick<ItemStore, "write" | "read" | "transact" | "listBuckets" | "listKeys"> {
  readonly #items = new Map<string, Record<string, Item[string]>>();
  last: Parameters<ItemStore["write"]>[0] | undefined;

  write(write: Parameters<ItemStore["write"]>[0]) {
    this.last = write;
    const { id } = write.key.bucket;
    const item: Record<string, Item[string]> = { ...this.#items.get(id), ...write.set };
    for (const name in write.add) item[name] = ((item[name] as number | undefined) ?? 0) + (write.add[name] as number);
    for (const name of write.remove) delete item[name];
    this.#items.set(id, item);
    return { kind: "applied", item } as const;
  }

  read(keys: Parameters<ItemStore["read"]>[0]) {
    return keys.map(({ bucket }) => this.#items.get(bucket.id));
  }

  transact() {
    return { kind: "failed" } as const;
  }

  listKeys(): never {
    throw new Error("no benchmark lists buckets");
  }

  listBuckets() {
    return { items: [] };
  }
}

function rounded(value: number): number {
  return Math.round(value * 1000) / 1000;
}
