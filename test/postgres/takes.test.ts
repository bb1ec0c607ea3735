import { test } from "node:test";
import { SeededRandom } from "../../src/testing/random.ts";
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
});
