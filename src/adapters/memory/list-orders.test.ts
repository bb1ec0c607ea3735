import assert from "node:assert/strict";
import { test } from "node:test";
import { type KeyedList, ListOrders, textList } from "./list-orders.ts";

function counted(names: Map<string, number>) {
  const counts = { sorts: 0, compares: 0, items: 0 };
  const plain = textList(
    "numbers",
    () => {
      counts.sorts++;
      return [...names.keys()];
    },
    (name) => {
      counts.items++;
      return names.get(name);
    },
  );
  const list: KeyedList<string, number> = {
    ...plain,
    compare: (a, b) => {
      counts.compares++;
      return plain.compare(a, b);
    },
  };
  return { list, counts };
}

const numbers = (count: number) =>
  new Map(Array.from({ length: count }, (_, i) => [String((i * 7919) % count).padStart(6, "0"), i]));

function everything(orders: ListOrders, list: KeyedList<string, number>, limit: number): number[] {
  const found: number[] = [];
  for (let cursor: string | undefined, pages = 0; ; pages++) {
    const page = orders.page(list, cursor === undefined ? { limit } : { limit, cursor });
    found.push(...page.items);
    cursor = page.cursor;
    if (cursor === undefined) return found;
    assert.ok(pages < 1_000, "the list does not end");
  }
}

test("a list of twenty thousand in pages of a hundred is sorted once, and each item looked up once or twice", () => {
  const orders = new ListOrders();
  const all = numbers(20_000);
  const { list, counts } = counted(all);
  const found = everything(orders, list, 100);
  assert.deepEqual(
    found,
    [...all].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, value]) => value),
  );
  assert.equal(counts.sorts, 1);
  assert.ok(counts.items <= 20_000 + 200, `${counts.items} look-ups`);
  // 20,000 × log2(20,000) to sort, and 15 a page to find the place.
  assert.ok(counts.compares < 20_000 * 15 + 200 * 16, `${counts.compares} comparisons`);
  assert.equal(orders.size, 0);
});

test("what is deleted between two pages is not shown, what stays is shown once", () => {
  const orders = new ListOrders();
  const all = numbers(10);
  const { list } = counted(all);
  const first = orders.page(list, { limit: 4 });
  assert.equal(first.cursor, "000003");
  for (const name of ["000001", "000003", "000004", "000009"]) all.delete(name);
  const second = orders.page(list, { limit: 9, cursor: first.cursor as string });
  assert.deepEqual(
    second.items,
    ["000005", "000006", "000007", "000008"].map((name) => all.get(name)),
  );
  assert.equal(second.cursor, undefined);
});

test("lists that nobody reads to the end do not pile up, and a page after that is right all the same", () => {
  const orders = new ListOrders();
  const all = numbers(10);
  const { list, counts } = counted(all);
  const { cursor } = orders.page(list, { limit: 4 });
  for (let i = 0; i < 100; i++) orders.page({ ...list, name: `other ${i}` }, { limit: 4 });
  assert.equal(orders.size, 4);
  const before = counts.sorts;
  const next = orders.page(list, { limit: 1, cursor: cursor as string });
  assert.equal(counts.sorts, before + 1);
  assert.deepEqual(next.items, [all.get("000004")]);
});
