import { test } from "node:test";
import type { BucketStore } from "../../src/ports/bucket-store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { madeAnew } from "../straight/made-anew.ts";
import { bucketsOn, sameAsMemory } from "../straight/same-as-memory.ts";
import { batchesOn, openSchema } from "./kit.ts";
import { describePostgres } from "./postgres.ts";

await describePostgres("takes on PostgreSQL", ({ url, newSchema }) => {
  for (let seed = 1; seed <= 10; seed++) {
    test(`random calls are answered as by memory, seed ${seed}`, async () => {
      const connection = await openSchema(url, newSchema(), { poolMax: 4, timeoutMs: 30_000 });
      const random = new SeededRandom(seed);
      const processes = [1, 2].map(() => bucketsOn(batchesOn(connection), random, { coalesce: true }));
      await sameAsMemory(random, 300, processes, seed % 2 === 0 ? "one" : "several");
      await connection.close();
    });
  }

  test("what a process remembers of a forgotten bucket does not fill the one that was made after it", async () => {
    const connection = await openSchema(url, newSchema(), { poolMax: 4, timeoutMs: 30_000 });
    const store = batchesOn(connection);
    const [first, second] = [1, 2].map((seed) => bucketsOn(store, new SeededRandom(seed), { coalesce: true }));
    await madeAnew(store, [first as BucketStore, second as BucketStore]);
    await connection.close();
  });
});
