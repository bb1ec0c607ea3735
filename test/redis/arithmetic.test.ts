import assert from "node:assert/strict";
import { test } from "node:test";
import type { RedisConnection } from "../../src/adapters/redis/connection.ts";
import { namespaceKeys } from "../../src/adapters/redis/keys.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { atDepth } from "../depth.ts";
import { foundWrong, randomCase, randomSlots, sameAsBucket, sameAsVectors } from "../straight/arithmetic-cases.ts";
import { batchesOn, spoiled } from "./batches-kit.ts";
import { connectionTo, newPrefix } from "./kit.ts";
import { describeRedis } from "./redis-server.ts";

await describeRedis("the arithmetic of takes on Redis", ({ url }) => {
  const opened = async (changed: (connection: RedisConnection) => RedisConnection = (connection) => connection) => {
    const prefix = newPrefix();
    const connection = connectionTo(url, prefix);
    await connection.send([["SET", namespaceKeys(prefix, "default").generation, "1"]]);
    return batchesOn(changed(connection), prefix);
  };

  test("limits of random rows: the same verdict and the same tokens as by bucket/", async () => {
    const random = new SeededRandom(28);
    await sameAsBucket(await opened(), atDepth(1_000, 250_000), () => randomCase(random));
  });

  test("thousands of limits of slots: taken, given back into their slice, renewed, the same as by the model", async () => {
    const random = new SeededRandom(29);
    await sameAsBucket(await opened(), atDepth(1_000, 20_000), () => randomSlots(random));
  });

  test("the vectors of the original, as far as they are takes within an hour, by the take itself", async () => {
    await sameAsVectors(await opened());
  });

  const MUTANTS: readonly (readonly [name: string, from: string, to: string])[] = [
    [
      "rounds where it has to cut off",
      "floor(product / row[terms + PERIOD])",
      "floor(product / row[terms + PERIOD] + 0.5)",
    ],
    ["divides products past 2^53 as they are", "product <= SAFE and floor", "true and floor"],
    ["loses a digit of a long division", "quotient * 8192 + whole", "quotient * 8192"],
    ["forgets what a long division leaves over", "floor((rest + remainder) / period)", "floor(rest / period)"],
    ["forgets the brim", "min(row[own + TOKENS], capacity - refilled) - asked", "row[own + TOKENS] - asked"],
    ["forgets what was left over", "elapsed * amount + row[terms + REMAINDER]", "elapsed * amount"],
    ["lets a credit pass 2^53", "min(SAFE, tokens + asked)", "tokens + asked"],
    ["lets a debt pass what is exact", "remaining + refilled < -DEBT and not is_soft", "false"],
    ["lets a soft limit pass what is exact", "remaining = row[own + TOKENS]", "remaining = remaining"],
    ["frees slots that its slice does not hold", "if row[slice] >= asked then", "if true then"],
    ["frees slots and leaves them in their slice", "set(row, slice, row[slice] - asked)", ""],
    ["renews slots that are not held", "if tokens >= asked then", "if true then"],
    ["renews slots and keeps the hold of before", "set(row, own + TOKENS, tokens - asked)", ""],
    ["counts slots that were used as unused", "pin ~= FROM_USED and pin", "pin"],
    ["leaves less than it should", "math.ceil((capacity - 100", "floor((capacity - 100"],
    ["loses the beginning of a session", "set(row, own + WINDOW, began)", ""],
  ];
  for (const [name, from, to] of atDepth(
    MUTANTS.filter((_, i) => i % 3 === 0),
    MUTANTS,
  )) {
    test(`a take that ${name} is found`, async () => {
      const store = await opened((connection) => spoiled(connection, from, to));
      assert.ok((await foundWrong(store, 100)) > 0);
    });
  }
});
