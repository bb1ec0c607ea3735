import assert from "node:assert/strict";
import { test } from "node:test";
import type { RedisConnection } from "../../src/adapters/redis/connection.ts";
import { namespaceKeys } from "../../src/adapters/redis/keys.ts";
import { atDepth, firstSeed } from "../depth.ts";
import { difference, lateFirst, T0 } from "../straight/summed-stories.ts";
import { batchesOn, type SummedTally, spoiled, tallied } from "./batches-kit.ts";
import { connectionTo, newPrefix } from "./kit.ts";
import { describeRedis } from "./redis-server.ts";

await describeRedis("takes that are summed, on Redis", ({ url }) => {
  const opened = async (changed: (connection: RedisConnection) => RedisConnection = (connection) => connection) => {
    const prefix = newPrefix();
    const connection = connectionTo(url, prefix);
    await connection.send([["SET", namespaceKeys(prefix, "default").generation, "1"]]);
    const tally: SummedTally = { summed: 0, inVain: 0 };
    return { tally, store: batchesOn(changed(tallied(connection, tally)), prefix, { now: () => T0 }) };
  };

  test("random batches, of one reading or of several: the same answers and the same rows as one by one", async () => {
    const [one, other] = [await opened(), await opened()];
    for (let i = 0; i < atDepth(20, 1_000); i++) {
      assert.equal(await difference(firstSeed() + i, [one.store, other.store]), undefined);
    }
    const { summed, inVain } = one.tally;
    assert.ok(summed > 50 && inVain > 20, JSON.stringify(one.tally));
    assert.equal(other.tally.summed + other.tally.inVain, 0);
  });

  const MUTANTS: readonly (readonly [name: string, from: string, to: string])[] = [
    [
      "goes by the clock of the store",
      "local elapsed = now - row[EPOCH]\n    for",
      "local elapsed = server_ms - row[EPOCH]\n    for",
    ],
    ["forgets the brim", "min(tokens, row[terms + CAPACITY] - refilled) - asked", "tokens - asked"],
    ["forgets what was left over", "elapsed * amount + row[terms + REMAINDER]", "elapsed * amount"],
    ["lets one millitoken too many go", "if remaining + refilled >= 0 then", "if remaining + refilled >= -1 then"],
    ["counts past 2^53", "if counted > SAFE then", "if false then"],
    ["counts nothing", "          row[own + COUNTED] = counted\n", ""],
    ["counts one request of many", "row[REQUESTS] + requests", "row[REQUESTS] + 1"],
    ["passes by a change of limits", "or change > row[MET]", ""],
    ["passes by a boundary", "if now >= row[RENEW] or (counts", "if (counts"],
    ["counts in an hour that is over", "or (counts and now >= row[OPEN] + HOUR)", ""],
    ["passes by the generation", "or tonumber(found[1] or 0) ~= planned", ""],
    ["takes what was taken already", 'parsed("<d", lane) >= seq', 'parsed("<d", lane) > seq'],
    [
      "remembers another number",
      'pack("<ddddB", seq, planned, server_ms, version, SUM',
      'pack("<ddddB", seq - 1, planned, server_ms, version, SUM',
    ],
    ["takes from rows of other limits", "row[width + 1] ~= ARGV[1 + i] or", ""],
    ["takes a part", "        else\n          return false\n        end\n", "        end\n"],
    ["tells nobody who was short", "is_short, own_short = true, 1", "is_short, own_short = true, 0"],
    ["tells other levels", "before[before_top] = tokens", "before[before_top] = tokens + 1"],
    ["keeps what was taken", "value:sub(1, 8) .. moving .. value:sub(behind)", "value"],
  ];
  for (const [name, from, to] of atDepth(
    MUTANTS.filter((_, i) => i % 3 === 0),
    MUTANTS,
  )) {
    test(`a summed take that ${name} is found`, async () => {
      const one = await opened((connection) => spoiled(connection, from, to));
      const other = await opened();
      let found: string | undefined;
      for (let seed = 1; seed <= 200 && found === undefined; seed++) {
        found = await difference(seed, [one.store, other.store]);
      }
      assert.ok(found !== undefined);
    });
  }

  test("a batch that was refused when it was repeated is not done when the first one arrives at last", async () => {
    for (const isSummable of [true, false]) await lateFirst((await opened()).store, isSummable);
  });
});
