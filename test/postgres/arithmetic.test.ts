import assert from "node:assert/strict";
import { test } from "node:test";
import { sqlText } from "../../src/adapters/postgres/sql-texts.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { atDepth } from "../depth.ts";
import { foundWrong, randomCase, randomSlots, sameAsBucket, sameAsVectors } from "../straight/arithmetic-cases.ts";
import { batchesOn, openSchema } from "./kit.ts";
import { describePostgres } from "./postgres.ts";

await describePostgres("the arithmetic of takes on PostgreSQL", ({ url, newSchema }) => {
  const opened = () => openSchema(url, newSchema(), { poolMax: 2, timeoutMs: 60_000 });

  test("limits of random rows: the same verdict and the same tokens as by bucket/", async () => {
    const connection = await opened();
    const random = new SeededRandom(28);
    await sameAsBucket(batchesOn(connection), atDepth(2_000, 100_000), () => randomCase(random));
    await connection.close();
  });

  test("thousands of limits of slots: taken, given back into their slice, renewed, the same as by the model", async () => {
    const connection = await opened();
    const random = new SeededRandom(29);
    await sameAsBucket(batchesOn(connection), atDepth(1_500, 20_000), () => randomSlots(random));
    await connection.close();
  });

  test("the vectors of the original, as far as they are takes within an hour, by the take itself", async () => {
    const connection = await opened();
    await sameAsVectors(batchesOn(connection));
    await connection.close();
  });

  const MUTANTS: readonly (readonly [name: string, from: string, to: string])[] = [
    [
      "rounds where it has to cut off",
      "f_refilled[k] := (elapsed * f_amount[k] + f_remainder[k]) / f_period[k];",
      "f_refilled[k] := round((elapsed * f_amount[k] + f_remainder[k])::numeric / f_period[k]);",
    ],
    ["forgets the brim", "least(f_tokens[k], f_capacity[k] - refilled) - asked", "f_tokens[k] - asked"],
    ["forgets what was left over", "(elapsed * f_amount[k] + f_remainder[k])", "(elapsed * f_amount[k])"],
    ["lets a credit pass 2^53", "least(safe_max, f_tokens[k] + asked)", "f_tokens[k] + asked"],
    ["frees slots that its slice does not hold", "IF f_tokens[h] >= asked THEN", "IF true THEN"],
    ["frees slots and leaves them in their slice", "f_tokens[h] := f_tokens[h] - asked; f_tokens[k]", "f_tokens[k]"],
    ["renews slots that are not held", "IF f_tokens[k] >= asked THEN", "IF true THEN"],
    ["renews slots and keeps the hold of before", "f_tokens[k] := f_tokens[k] - asked; f_tokens[h]", "f_tokens[h]"],
    ["counts slots that were used as unused", "NOT IN (-3, -4)", "NOT IN (-4)"],
  ];
  for (const [name, from, to] of MUTANTS) {
    test(`a take that ${name} is found`, async () => {
      const take = sqlText("take_2");
      assert.ok(take.includes(from), from);
      const connection = await opened();
      await connection.query(take.replace(from, to), []);
      assert.ok((await foundWrong(batchesOn(connection), 100)) > 0);
      await connection.close();
    });
  }
});
