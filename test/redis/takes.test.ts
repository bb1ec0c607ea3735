import assert from "node:assert/strict";
import { test } from "node:test";
import { namespaceKeys } from "../../src/adapters/redis/keys.ts";
import type { BatchReply, BatchStore } from "../../src/ports/batch-store.ts";
import type { BucketStore } from "../../src/ports/bucket-store.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { seeds } from "../depth.ts";
import { madeAnew } from "../straight/made-anew.ts";
import { bucketsOn, sameAsMemory } from "../straight/same-as-memory.ts";
import { unseenEnd } from "../straight/unseen-end.ts";
import { batchesOn } from "./batches-kit.ts";
import { connectionTo, newPrefix } from "./kit.ts";
import { describeRedis } from "./redis-server.ts";

const isRepeat = (reply: BatchReply): boolean => reply.kind === "done" && reply.repeated;

await describeRedis("takes on Redis", ({ url }) => {
  const opened = async () => {
    const prefix = newPrefix();
    await connectionTo(url, prefix).send([["SET", namespaceKeys(prefix, "default").generation, "1"]]);
    return () => batchesOn(connectionTo(url, prefix), prefix);
  };

  for (const seed of seeds(2, 10)) {
    test(`random calls are answered as by memory, seed ${seed}`, async () => {
      const open = await opened();
      const random = new SeededRandom(seed);
      const processes = [1, 2].map(() => bucketsOn(open(), random, { coalesce: true }));
      await sameAsMemory(random, 300, processes, seed % 2 === 0 ? "one" : "several");
    });
  }

  test("calls are answered as by memory where every batch is sent twice at once, and scripts are forgotten", async () => {
    const open = await opened();
    const random = new SeededRandom(5);
    const line = connectionTo(url, newPrefix());
    let repeated = 0;
    const twice = (store: BatchStore): BatchStore =>
      overriding<BatchStore>(store, {
        apply: async (batch, timeoutMs) => {
          if (random.chance(0.1)) await line.send([["SCRIPT", "FLUSH"]]);
          const replies = await Promise.all([store.apply(batch, timeoutMs), store.apply(batch, timeoutMs)]);
          const [first, second] = replies.sort((a, b) => Number(isRepeat(a)) - Number(isRepeat(b))) as [
            BatchReply,
            BatchReply,
          ];
          assert.ok(first.kind === "done" && second.kind === "done" && !first.repeated);
          // A batch that has done nothing may be done again.
          const isDone = first.replies.some(({ kind }) => kind === "applied");
          assert.ok(second.repeated || !isDone);
          if (second.repeated) {
            repeated++;
            assert.deepEqual({ ...second, repeated: false }, first);
          }
          return first;
        },
      });
    const processes = [1, 2].map(() => bucketsOn(twice(open()), random, { coalesce: true }));
    await sameAsMemory(random, 150, processes, "one");
    assert.ok(repeated > 50, `${repeated} batches were done and sent again`);
  });

  test("what a process remembers of a forgotten bucket does not fill the one that was made after it", async () => {
    const store = (await opened())();
    const [first, second] = [1, 2].map((seed) => bucketsOn(store, new SeededRandom(seed), { coalesce: true }));
    await madeAnew(store, [first as BucketStore, second as BucketStore]);
  });

  test("a lease finds the end of an override that another process has brought to its bucket", async () => {
    const open = await opened();
    const random = new SeededRandom(1);
    await unseenEnd((onRead) => bucketsOn(open(), random, { coalesce: true, onRead }));
  });
});
