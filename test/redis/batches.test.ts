import assert from "node:assert/strict";
import { test } from "node:test";
import type { RedisConnection } from "../../src/adapters/redis/connection.ts";
import { namespaceKeys } from "../../src/adapters/redis/keys.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { atDepth, isDeep, seeds } from "../depth.ts";
import { MUTANTS } from "./batch-mutants.ts";
import { BatchWorld } from "./batch-world.ts";
import { batchesOn, forgetful, type SummedTally, spoiled, tallied } from "./batches-kit.ts";
import { connectionTo, newPrefix } from "./kit.ts";
import { describeRedis } from "./redis-server.ts";

/** A mutant is looked for in so many worlds. */
const WORLDS_MAX = 150;

await describeRedis("batches on Redis", ({ url }) => {
  const prefixes = newPrefix();
  const connection = connectionTo(url, prefixes);
  const tally: SummedTally = { summed: 0, inVain: 0 };
  let worlds = 0;
  const worldOf = (seed: number, by: RedisConnection = connection): BatchWorld => {
    const prefix = `${prefixes}-${++worlds}`;
    const losses = new SeededRandom(seed);
    const line = forgetful(tallied(by, tally), () => losses.chance(0.1));
    const world: BatchWorld = new BatchWorld(
      new SeededRandom(seed),
      connection,
      namespaceKeys(prefix, "default"),
      (now) => batchesOn(line, prefix, { now, onWrites: (_, writes) => world.noteWrites(writes) }),
    );
    return world;
  };

  const seen = new Map<string, number>();
  for (const seed of seeds(3, 150)) {
    test(`random batches are done as in memory, seed ${seed}`, async () => {
      const world = worldOf(seed);
      await world.play(60);
      for (const [what, count] of world.seen) seen.set(what, (seen.get(what) ?? 0) + count);
    });
  }

  test("many of the batches were summed, and some in vain", () => {
    assert.ok(tally.summed >= 10 && tally.inVain >= 1, JSON.stringify(tally));
  });

  if (isDeep) {
    test("every outcome of every kind of request came up", () => {
      const refusals = ["stale", "again", "clock"];
      const wanted = [
        ...["applied", "short", "keyLost", ...refusals].flatMap((one) => [`take ${one}`, `draft ${one}`]),
        ...["applied", "tooDeep", ...refusals].map((one) => `debit ${one}`),
        ...["credit", "renew"].flatMap((kind) => ["applied", "gone", ...refusals].map((one) => `${kind} ${one}`)),
        ...["repeated", "superseded"],
      ];
      assert.deepEqual(
        wanted.filter((one) => !seen.has(one)),
        [],
        JSON.stringify([...seen]),
      );
    });
  }

  for (const [name, from, to] of atDepth(
    MUTANTS.filter((_, i) => i % 15 === 0),
    MUTANTS,
  )) {
    test(`a take that ${name} is found`, async () => {
      const by = spoiled(connection, from, to);
      let isFound = false;
      for (let seed = 1; seed <= WORLDS_MAX && !isFound; seed++) {
        isFound = await worldOf(seed, by)
          .play(60)
          .then(
            () => false,
            () => true,
          );
      }
      assert.ok(isFound);
    });
  }
});
