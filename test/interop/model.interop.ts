import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeItem } from "../../src/adapters/dynamodb/codec.ts";
import { Limit } from "../../src/entry/index.ts";
import type { Item, ItemValue } from "../../src/ports/item-store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import type { OriginalLease as ModelLease } from "../simulation/original-client.ts";
import { bucket, seededWorld, type World } from "../simulation/original-kit.ts";
import { ADA, ask, Shared } from "./kit.ts";
import type { Original, OriginalLease } from "./original.ts";
import { OriginalError } from "./original-process.ts";

// The simulations of a shared table play against a model of the original. Here the model and the original itself are asked the
// same, at the same instants, on a bucket each: answers and items must be the same.

const STEPS = 40;
const SEEDS = 3;

const daily = Limit.quota("day", 40, { reset: { cron: "0 0 * * *" } });
/** Limits that a story changes between. */
const STORIES: readonly {
  readonly name: string;
  readonly sets: readonly (readonly Limit[])[];
  readonly passMs: readonly number[];
}[] = [
  {
    name: "limits that drip",
    sets: [
      [Limit.perMinute("rpm", 20), Limit.perHour("rph", 200)],
      [Limit.perMinute("rpm", 35, { burst: 50 }), Limit.perHour("rph", 100)],
    ],
    passMs: [0, 0, 1, 400, 5_000, 61_000, 1_800_000],
  },
  {
    name: "a quota beside a limit that drips",
    sets: [
      [Limit.perMinute("rpm", 20), daily],
      [Limit.perMinute("rpm", 20), { ...daily, capacity: 60 }],
    ],
    passMs: [0, 0, 400, 61_000, 3_600_000 * 7, 86_400_000],
  },
  {
    name: "a soft limit beside a hard one",
    sets: [
      [Limit.perMinute("rpm", 20), Limit.perMinute("tpm", 30, { soft: true })],
      [Limit.perMinute("rpm", 20), Limit.perMinute("tpm", 30)],
    ],
    // A stamp is over after 48 to 60 s, by chance: never asked in between.
    passMs: [0, 0, 61_000, 125_000],
  },
  {
    name: "windows of a schedule",
    sets: [
      [Limit.perHour("rph", 60, { schedule: [{ cron: "* 12-13 * * *", scale: 0.5 }] }), Limit.perMinute("rpm", 20)],
    ],
    passMs: [0, 400, 61_000, 1_800_000, 3_600_000],
  },
];

await describeDynamo("the model of the original", (dynamodb) => {
  for (const { name, sets, passMs } of STORIES) {
    test(`does what the original does: ${name}`, async (t) => {
      let compared = 0;
      for (let seed = 1; seed <= SEEDS; seed++) {
        const shared = await Shared.on(dynamodb, t);
        const their = await shared.their({ config_cache_ttl: 0 });
        const world = seededWorld({ seed, staleMs: 0 }, sets[0] as readonly Limit[]);
        const both = new Both(shared, their, world);
        await both.pass(0);
        await both.setLimits(sets[0] as readonly Limit[]);
        const random = new SeededRandom(seed);
        for (let step = 0; step < STEPS; step++) {
          const what = await both.step(random, sets, passMs);
          both.told.push(what);
          assert.deepEqual(await both.theirItem(), both.modelItem(), `seed ${seed}: ${both.told.join(", ")}`);
          compared++;
        }
      }
      t.diagnostic(`${compared} items compared`);
    });
  }
});

interface Held {
  readonly theirs: OriginalLease;
  readonly model: ModelLease;
  readonly names: readonly string[];
}

class Both {
  readonly told: string[] = [];
  readonly #shared: Shared;
  readonly #their: Original;
  readonly #world: World;
  readonly #model;
  #held: Held[] = [];

  constructor(shared: Shared, their: Original, world: World) {
    this.#shared = shared;
    this.#their = their;
    this.#world = world;
    this.#model = world.client();
  }

  async pass(ms: number): Promise<void> {
    await this.#shared.pass(ms);
    this.#world.clock.set(this.#shared.now());
  }

  async setLimits(limits: readonly Limit[]): Promise<void> {
    this.#world.limits = limits;
    await this.#their.call("set_limits", [ADA.entityId, limits, ADA.resource]);
    await this.#model.setLimits(bucket, limits);
  }

  async step(random: SeededRandom, sets: readonly (readonly Limit[])[], passMs: readonly number[]): Promise<string> {
    const below = (count: number) => Math.floor(random.next() * count);
    const drawn = below(20);
    if (drawn < 5) {
      const ms = passMs[below(passMs.length)] as number;
      await this.pass(ms);
      return `${ms} ms pass`;
    }
    if (drawn === 5) {
      const index = below(sets.length);
      await this.setLimits(sets[index] as readonly Limit[]);
      return `limits ${index}`;
    }
    if (drawn < 10 && this.#held.length > 0) return this.#ends(below(3), below(12));
    const names = this.#world.limits.map(({ name }) => name).filter(() => below(3) > 0);
    if (names.length === 0) return "nothing";
    return this.#asks(Object.fromEntries(names.map((name) => [name, below(4) === 0 ? below(30) : below(6)])));
  }

  async theirItem(): Promise<Item | undefined> {
    const item = await this.#shared.found(0);
    return item === undefined ? undefined : comparable(decodeItem(item));
  }

  modelItem(): Item | undefined {
    const item = this.#world.item();
    return Object.keys(item).length === 0 ? undefined : comparable(item);
  }

  async #asks(consume: Readonly<Record<string, number>>): Promise<string> {
    const what = `asks for ${JSON.stringify(consume)}`;
    const model = await this.#model.acquire(bucket, consume);
    try {
      const theirs = await this.#their.acquire(ask(consume));
      assert.ok(!model.refused, `${this.told.join(", ")}, ${what}: the model refuses`);
      this.#held.push({ theirs, model, names: Object.keys(consume) });
      return what;
    } catch (error) {
      if (!(error instanceof OriginalError)) throw error;
      assert.equal(error.type, "RateLimitExceeded", error.message);
      assert.ok(model.refused, `${this.told.join(", ")}, ${what}: the original refuses`);
      return `${what} in vain`;
    }
  }

  async #ends(how: number, amount: number): Promise<string> {
    const { theirs, model, names } = this.#held.shift() as Held;
    if (how === 0) {
      await theirs.fail();
      await model.rollback();
      return "gives back";
    }
    const deltas = Object.fromEntries(names.map((name) => [name, how === 1 ? amount : -amount]));
    await theirs.adjust(deltas);
    await theirs.end();
    await model.adjust(deltas);
    return `adjusts by ${JSON.stringify(deltas)}`;
  }
}

/** Without who owns it, and until when a stamp holds: that it does is the same, how long is chance. */
function comparable(item: Item): Item {
  const entries = Object.entries(item).filter(
    ([name]) => !/^(entity_id|resource|cascade|parent_id|pgen|pinc)$/.test(name),
  );
  const plain = entries.map(([name, value]): [string, ItemValue] => [
    name,
    /^b_.*_soft$/.test(name) ? "stamped" : value,
  ]);
  return Object.fromEntries(plain.sort(([a], [b]) => (a < b ? -1 : 1)));
}
