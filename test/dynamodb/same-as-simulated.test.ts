import assert from "node:assert/strict";
import { before, test } from "node:test";
import { StoreRefused } from "../../src/adapters/dynamodb/errors.ts";
import { DynamoItems } from "../../src/adapters/dynamodb/items.ts";
import { systemClock } from "../../src/adapters/system/clock.ts";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { Item, ItemKey, ItemStore, ItemWrite } from "../../src/ports/item-store.ts";
import { atDepth, firstSeed } from "../depth.ts";
import { CALL, tableAt, update } from "../kit/conditional-kit.ts";
import { samePaged } from "../kit/contract-kit.ts";
import { fc } from "../properties.ts";
import { describeDynamo } from "./dynamodb-local.ts";
import { type Step, stories } from "./item-stories.ts";

/** Stories told at once, each of a namespace of its own: DynamoDB Local is slower alone. */
const TOGETHER = 16;
const RUNS = atDepth(8, 128);

await describeDynamo("items in DynamoDB are those of the simulated table", (dynamodb) => {
  let tableName = "";
  let told = 0;
  before(async () => {
    // Without expiry: stories have a `ttl` that has passed.
    tableName = await dynamodb.newTable({ gsi2Projection: "KEYS_ONLY", expiry: false });
  });

  const itemsOf = (namespaceId: string) =>
    new DynamoItems({
      client: dynamodb.client,
      tableName,
      namespaceId,
      clock: systemClock,
      random: () => 0.5,
      listTimeoutMs: 10_000,
      auditIdOf: ({ eventId }) => eventId,
      auditKeptS: 90 * 86_400,
    });

  test("every answer and every item left, over hundreds of stories of writes and transactions", async () => {
    const stories16 = fc.array(stories, { minLength: TOGETHER, maxLength: TOGETHER });
    const property = fc.asyncProperty(stories16, async (chapter) => {
      await Promise.all(
        chapter.map(async (steps) => {
          const name = `story-${told++}`;
          const { table } = tableAt(0, {});
          await tellBoth(steps, name, table.lineTo(name, {}), itemsOf(name));
        }),
      );
    });
    await fc.assert(property, { numRuns: RUNS, seed: firstSeed(), endOnFailure: true });
  });

  test("buckets of a resource come by entity id, each once, page by page, whatever their shards", async () => {
    const simulated = tableAt(0, {}).table.lineTo("list", {});
    const real = itemsOf("list");
    const entities = ["a", "a-b", "a.b", "a:b", "a@b", "a_b", "ab", "A", "0", "a0", "b", "B9", "ab-", "ab.c"];
    for (const [i, entityId] of entities.entries()) {
      for (const resource of ["api", "api/v2", "ap"]) {
        // Some have many shards; one has no shard 0, and is none.
        const shards = entityId === "b" ? [1, 2] : Array.from({ length: 1 + (i % 3) * 6 }, (_, shard) => shard);
        for (const shard of shards) {
          const key = { bucket: bucketKey(entityId, resource), shard };
          const write = update(key, { kind: shard % 2 === 0 ? "put" : "update", set: { rf: 1 } });
          assert.deepEqual(await real.write(write, CALL), await simulated.write(write, CALL));
        }
      }
    }
    await real.write(update({ bucket: bucketKey("op", "api"), shard: 0, operation: "x" }, { kind: "put" }), CALL);
    const all = (await simulated.listBuckets("api", { limit: 100 })).items;
    assert.equal(all.length, entities.length - 1);
    await samePaged(async (page) => real.listBuckets("api", page), all);
    for (const limit of [1, 2, 5, 13, 14]) {
      assert.deepEqual(await real.listBuckets("api", { limit }), await simulated.listBuckets("api", { limit }));
    }
    assert.deepEqual(await real.listBuckets("nothing", { limit: 5 }), { items: [] });
  });

  test("250 keys, some twice and some missing, are read in the order of the keys", async () => {
    const items = itemsOf("many");
    const keys = Array.from(
      { length: 250 },
      (_, i): ItemKey => ({ bucket: bucketKey(`e${i % 240}`, "api"), shard: 0 }),
    );
    const put = (key: ItemKey, i: number) => items.write(update(key, { kind: "put", set: { i } }), LONG);
    await Promise.all(keys.slice(0, 240).map((key, i) => (i % 3 === 0 ? undefined : put(key, i))));
    const found = await items.read(keys, { consistent: true }, { timeoutMs: 5_000 });
    const expected = keys.map((_, i): Item | undefined => ((i % 240) % 3 === 0 ? undefined : { i: i % 240 }));
    assert.deepEqual(found, expected);
    assert.deepEqual(await items.read([], { consistent: true }, CALL), []);
  });
});

async function tellBoth(steps: readonly Step[], name: string, simulated: ItemStore, real: ItemStore): Promise<void> {
  const keys = new Map<string, ItemKey>();
  for (const [i, step] of steps.entries()) {
    const writes = step.kind === "write" ? [step.write] : step.writes;
    for (const { key } of writes) keys.set(JSON.stringify(key), key);
    const shown = JSON.stringify(step);
    assert.deepEqual(await tell(real, step, name), await tell(simulated, step, name), `${name}, step ${i}: ${shown}`);
  }
  const all = [...keys.values()];
  const left = await real.read(all, { consistent: true }, LONG);
  assert.deepEqual(left, await simulated.read(all, { consistent: true }, LONG), `${name}: what is left`);
}

const LONG = { timeoutMs: 20_000 };

/** What a store answers; that it throws is an answer too. */
async function tell(items: ItemStore, step: Step, name: string): Promise<unknown> {
  try {
    if (step.kind === "write") return await items.write(withoutMemo(step.write), LONG);
    const token = `${name}-${step.token}`;
    return await items.transact(step.writes.map(withoutMemo), { token, event: step.event }, LONG);
  } catch (error) {
    // The simulated table has no name for what a request is refused for.
    assert.ok(items instanceof DynamoItems ? error instanceof StoreRefused : error instanceof Error, String(error));
    return "thrown";
  }
}

function withoutMemo(write: ItemWrite): ItemWrite {
  return { ...write, trace: undefined };
}
