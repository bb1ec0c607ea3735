import { type BucketKey, bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { type Limit, limitMakers } from "../../src/domain/limits/limit.ts";
import type { Item, ItemStore, ItemValue } from "../../src/ports/item-store.ts";
import { SHARD_COUNT } from "../../src/protocol/item/attributes.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import type { LineOptions } from "../kit/conditional-line.ts";
import { ConditionalTable } from "../kit/conditional-table.ts";
import { calendar } from "../limits/calendar-kit.ts";
import { OriginalClient, type OriginalLease, type OriginalOptions } from "./original-client.ts";

export const make = limitMakers(calendar);

/** The bucket of these tests: each has a table of its own. */
export const bucket: BucketKey = bucketKey("ada", "api");

/** Ten in the morning, in UTC, of a Monday. */
export const MORNING_MS = Date.UTC(2026, 5, 1, 10);

export interface World {
  readonly clock: SimulatedClock;
  readonly table: ConditionalTable;
  readonly random: SeededRandom;
  /** What configuration says: all clients hear of a change at once. */
  limits: readonly Limit[];
  client(line?: LineOptions, given?: Partial<OriginalOptions>): OriginalClient;
  clientOn(items: ItemStore, given?: Partial<OriginalOptions>): OriginalClient;
  /** A client whose every call takes so long. */
  distant(callMs: number): OriginalClient;
  item(shard?: number): Item;
  /** Changes attributes without any client's doing; undefined removes one. */
  tamper(attributes: Readonly<Record<string, ItemValue | undefined>>, shard?: number): void;
}

export function worldOf(...limits: Limit[]): World {
  return seededWorld({ seed: 7, staleMs: 0 }, limits);
}

/** Where chance is another, and reads may be so old. */
export function seededWorld(
  given: { readonly seed: number; readonly staleMs: number },
  limits: readonly Limit[],
): World {
  const clock = new SimulatedClock(MORNING_MS);
  const random = new SeededRandom(given.seed);
  const now = () => clock.now();
  const { staleMs } = given;
  const table = new ConditionalTable({ now, random, writesPerSecond: Number.POSITIVE_INFINITY, staleMs });
  const world: World = {
    clock,
    table,
    random,
    limits,
    client: (line = {}, given = {}) => world.clientOn(table.lineTo("ns", line), given),
    clientOn: (items, given = {}) =>
      new OriginalClient(items, {
        now,
        random: () => random.next(),
        resolve: () => world.limits,
        calendar,
        ...given,
      }),
    distant: (callMs) =>
      world.client({
        pause: (_call, before) =>
          clock.sleep(before === "applying" ? Math.floor(callMs / 2) : Math.ceil(callMs / 2), undefined),
      }),
    item: (shard = 0) => table.get("ns", { bucket, shard }) ?? {},
    tamper: (attributes, shard = 0) => {
      const item = { ...world.item(shard), ...attributes };
      const kept = Object.entries(item).filter((entry): entry is [string, ItemValue] => entry[1] !== undefined);
      table.put("ns", { bucket, shard }, Object.fromEntries(kept));
    },
  };
  return world;
}

/** How many of so many requests are admitted, one after the other. */
export async function admitted(
  client: OriginalClient,
  tokens: Readonly<Record<string, number>>,
  requests: number,
): Promise<number> {
  let count = 0;
  for (let i = 0; i < requests; i++) if (!(await client.acquire(bucket, tokens)).refused) count++;
  return count;
}

/** A lease that is admitted. */
export async function taken(client: OriginalClient, tokens: Readonly<Record<string, number>>): Promise<OriginalLease> {
  const lease = await client.acquire(bucket, tokens);
  if (lease.refused) throw new Error(`refused for ${lease.retryAfterMs} ms`);
  return lease;
}

/** The wait in the answer to a refused caller, in ms. */
export async function refusedFor(client: OriginalClient, tokens: Readonly<Record<string, number>>): Promise<number> {
  const refusal = await client.acquire(bucket, tokens);
  if (!refusal.refused) throw new Error(`admitted: ${JSON.stringify(refusal.taken)}`);
  return refusal.retryAfterMs;
}

/** Asks for one token after the other until then, and waits as long as the answer says. */
export async function saturate(world: World, client: OriginalClient, name: string, untilMs: number): Promise<void> {
  while (world.clock.now() < untilMs) {
    const answer = await client.acquire(bucket, { [name]: 1 });
    if (answer.refused) await world.clock.sleep(answer.retryAfterMs, undefined);
  }
}

/** Doubles the shards: shard 0 has no writes left, and no time has passed. A reset that is due there would be lost. */
export async function double(world: World, client: OriginalClient, tokens: Readonly<Record<string, number>>) {
  const count = world.item()[SHARD_COUNT];
  world.tamper({ b_wcu_tk: 0, rf: world.clock.now() });
  while (world.item()[SHARD_COUNT] === count) await client.acquire(bucket, tokens);
  world.tamper({ b_wcu_tk: 1_000_000 });
}
