import assert from "node:assert/strict";
import { test } from "node:test";
import { DynamoItems } from "../../src/adapters/dynamodb/items.ts";
import { namesOf, nonceSlot, WCU } from "../../src/adapters/dynamodb/schema.ts";
import { systemClock } from "../../src/adapters/system/clock.ts";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { ItemKey, ItemValue } from "../../src/ports/item-store.ts";
import { update } from "../kit/conditional-kit.ts";
import { type DynamodbLocal, describeDynamo } from "./dynamodb-local.ts";
import { Meter } from "./units.ts";

const CALL = { timeoutMs: 10_000 };
const key: ItemKey = { bucket: bucketKey("customer-0123456789abcdef", "gpt-4-turbo"), shard: 0 };

/** Items, and what a call for them costs: units of the table, and of each index that was touched. */
async function itemsOf(dynamodb: DynamodbLocal, gsi2Projection: "KEYS_ONLY" | "ALL") {
  const tableName = await dynamodb.newTable({ gsi2Projection, expiry: false });
  const meter = new Meter(dynamodb.client);
  const items = new DynamoItems({
    client: meter,
    tableName,
    namespaceId: "0123456789a",
    clock: systemClock,
    random: () => 0.5,
    listTimeoutMs: 10_000,
    auditIdOf: ({ eventId }) => eventId,
    auditKeptS: 1,
  });
  const cost = async (call: Promise<unknown>): Promise<Readonly<Record<string, number>>> => {
    await call;
    return meter.last;
  };
  return { items, cost };
}

/**
 * Four limits with all our attributes and a nonce of each of 16 processes: 1017 bytes, of which 344 are keys. Longer names or
 * limits of hundreds of millions of tokens make it two units; half as many nonces would leave room for them.
 */
function largest(): Record<string, ItemValue> {
  const item: Record<string, ItemValue> = { cascade: true, parent_id: "project-0123456789abcdef", shard_count: 32 };
  for (const limit of ["rpm", "tpm", "rpd", "tpd", WCU]) {
    const { tk, cp, ra, rp, tc, fr } = namesOf(limit);
    Object.assign(item, { [tk]: -100_000_789, [cp]: 100_000_000, [ra]: 100_000_000, [rp]: 86_400_000 });
    // What a hundred thousand tokens a minute come to in an hour; the count of writes goes on for ever.
    Object.assign(item, {
      [tc]: limit === WCU ? 100_000_000_456 : 6_000_000_456,
      ...(limit === WCU ? {} : { [fr]: 86_399_999 }),
    });
  }
  for (const name of ["rf", "frf", "vu", "cfa", "sda"]) item[name] = 1_794_729_582_390;
  for (let slot = 0; slot < 16; slot++) item[nonceSlot(slot)] = 2 ** 53 - 1 - slot;
  return { ...item, ttl: 1_794_729_582, uh: 498_536, b_rq: 1_234_567, cfl: "rpm,tpm,rpd,tpd" };
}

await describeDynamo("what calls cost", (dynamodb) => {
  test("a write to a live bucket of four limits costs one unit, and nothing in any index", async () => {
    const { items, cost } = await itemsOf(dynamodb, "KEYS_ONLY");
    const made = await cost(items.write(update(key, { kind: "put", item: "missing", set: largest() }), CALL));
    assert.deepEqual(made, { table: 1, GSI2: 1, GSI3: 1, GSI4: 1 }, "an item is made in three indexes, once");
    const take = update(key, { item: "exists", add: { b_rpm_tk: -1000, b_rpm_tc: 1000 }, set: { n0: 1 } });
    assert.deepEqual(await cost(items.write(take, CALL)), { table: 1 });
    const again = update(key, { item: "either", add: { b_rpm_tk: -1000 } });
    assert.deepEqual(await cost(items.write(again, CALL)), { table: 1 }, "the place set to the same costs nothing");
  });

  test("with the whole item in the resource index, each write costs one unit more", async () => {
    const { items, cost } = await itemsOf(dynamodb, "ALL");
    await items.write(update(key, { kind: "put", item: "missing", set: largest() }), CALL);
    const take = update(key, { item: "exists", add: { b_rpm_tk: -1000, b_rpm_tc: 1000 } });
    assert.deepEqual(await cost(items.write(take, CALL)), { table: 1, GSI2: 1 });
  });

  test("a transaction costs two units an item, a consistent read one, any other half", async () => {
    const { items, cost } = await itemsOf(dynamodb, "KEYS_ONLY");
    await items.write(update(key, { kind: "put", item: "missing", set: largest() }), CALL);
    const take = update(key, { item: "exists", add: { b_rpm_tk: -1000 } });
    const options = { token: "cost-1", event: undefined };
    assert.deepEqual(await cost(items.transact([take], options, CALL)), { table: 2 });
    assert.deepEqual(await cost(items.read([key], { consistent: true }, CALL)), { table: 1 });
    assert.deepEqual(await cost(items.read([key], { consistent: false }, CALL)), { table: 0.5 });
  });
});
