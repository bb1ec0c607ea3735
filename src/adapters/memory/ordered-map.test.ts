import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../../test/properties.ts";
import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import { Limit } from "../../domain/limits/limit.ts";
import { limitSet } from "../../domain/limits/limit-set.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import type { ScopedStore } from "../../ports/store.ts";
import { createCalendar } from "../system/calendar.ts";
import { systemTurns } from "../system/clock.ts";
import { dataOf, newMemoryData } from "./data.ts";
import { OrderedMap } from "./ordered-map.ts";
import { type OrderedList, pageInOrder, sameText } from "./ordered-pages.ts";
import { memoryOver } from "./store.ts";

const NOON = Date.UTC(2026, 5, 15, 12);

const mapOf = (keys: Iterable<string>) => {
  const map = new OrderedMap<string>();
  for (const key of keys) map.set(key, key);
  return map;
};

const shuffled = (count: number) =>
  Array.from({ length: count }, (_, i) => String((i * 7_919) % count).padStart(6, "0"));

test("keys stand in their order, whatever came and went before", () => {
  const change = fc.record({ key: fc.nat(3_000), deletes: fc.boolean() });
  fc.assert(
    fc.property(fc.array(change, { maxLength: 4_000, size: "max" }), fc.nat(3_000), (changes, after) => {
      const map = mapOf([]);
      const model = new Set<string>();
      for (const { key, deletes } of changes) {
        const text = String(key);
        if (deletes) assert.equal(map.delete(text), model.delete(text));
        else {
          map.set(text, text);
          model.add(text);
        }
      }
      const sorted = [...model].sort();
      assert.deepEqual(map.keysAfter("", Number.POSITIVE_INFINITY), sorted);
      const later = sorted.filter((text) => text > String(after));
      assert.deepEqual(map.keysAfter(String(after), 7), later.slice(0, 7));
      assert.equal(map.size, model.size);
    }),
    { numRuns: 60 },
  );
});

test("keys that come in order, in reverse or in no order are all found", () => {
  const keys = shuffled(20_000);
  const sorted = [...keys].sort();
  for (const order of [keys, sorted, [...sorted].reverse()]) {
    const map = mapOf(order);
    assert.deepEqual(map.keysAfter("", 30_000), sorted);
    for (const key of order) map.delete(key);
    assert.deepEqual(map.keysAfter("", 30_000), []);
  }
  const map = mapOf(keys);
  map.clear();
  assert.deepEqual([map.size, map.keysAfter("", 9)], [0, []]);
});

test("a page of a list of 100,000 looks at no more than it shows, the first as well as one in the middle", async () => {
  const map = mapOf(shuffled(100_000));
  let looked = 0;
  let turns = 0;
  const counting = {
    next: async () => {
      turns++;
    },
  };
  const list = (isWanted: (key: string) => boolean): OrderedList<string> => ({
    keysAfter: (key, max) => map.keysAfter(key, max),
    from: "",
    itemOf: (key) => {
      looked++;
      return isWanted(key) ? key : undefined;
    },
    textOf: sameText,
    keyOf: sameText,
  });
  const all = list(() => true);
  const first = await pageInOrder(counting, all, { limit: 100 });
  assert.deepEqual([first.items.length, first.items[0], first.cursor, looked], [100, "000000", "000099", 101]);
  looked = 0;
  const middle = await pageInOrder(counting, all, { limit: 100, cursor: "050000" });
  assert.deepEqual([middle.items[0], middle.cursor, looked, turns], ["050001", "050100", 101, 0]);
  looked = 0;
  // What is passed over is looked at once, and others have their turns meanwhile.
  const few = await pageInOrder(
    counting,
    list((key) => key.endsWith("9999")),
    { limit: 100 },
  );
  assert.deepEqual([few.items.length, few.cursor, looked], [10, undefined, 100_000]);
  assert.ok(turns >= 48, `${turns} turns`);
});

test("the first page of buckets, of a namespace, a resource or an entity, and of usage reads the buckets that it shows", async (t) => {
  const data = newMemoryData({ usageKeepMs: 86_400_000, auditKeepMs: 1 }, systemTurns);
  const { buckets, usage } = memoryOver(data, createCalendar()).scope("default") as ScopedStore;
  const set = limitSet([Limit.perMinute("rpm", 10)]);
  const take = [{ limit: "rpm", milli: 1_000 }];
  const context = { nowMs: NOON, timeoutMs: 1_000, generation: undefined, atomic: false };
  for (const id of shuffled(5_000)) {
    const claim = {
      bucket: bucketKey(id, "gpt-4"),
      set,
      origin: { asOfMs: NOON, generation: null },
      take,
      bypass: false,
    };
    buckets.takeSync?.([claim], context);
  }
  const { mock } = t.mock.method(dataOf(data, "default").buckets, "get");
  const read = async (page: () => MaybePromise<{ readonly items: readonly unknown[] }>) => {
    const before = mock.callCount();
    return [(await page()).items.length, mock.callCount() - before];
  };
  assert.deepEqual(await read(() => buckets.listKeys({}, { limit: 10 })), [10, 11]);
  assert.deepEqual(await read(() => buckets.listByResource("gpt-4", { limit: 10 })), [10, 11]);
  assert.deepEqual(await read(() => buckets.listKeys({ entityId: "002500" }, { limit: 10 })), [1, 2]);
  for (const window of ["hourly", "daily"] as const) {
    const query = { window, fromMs: 0, toMs: NOON + 1 };
    assert.deepEqual(await read(() => usage.query(query, { limit: 10 })), [10, 11]);
    assert.deepEqual(await read(() => usage.query({ ...query, entityId: "002500" }, { limit: 10 })), [1, 1]);
  }
});
