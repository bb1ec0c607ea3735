import assert from "node:assert/strict";
import { test } from "node:test";
import { ValidationError } from "../../domain/names/errors.ts";
import { collected, cursorOf, inChunks, pageOf, placeAfter } from "./paging.ts";

async function* upTo(count: number): AsyncGenerator<number> {
  for (let i = 1; i <= count; i++) yield i;
}

test("a page has a cursor when there is more, and none when it ends with the list", async () => {
  const page = (count: number, limit: number) => pageOf(upTo(count), limit, String);
  assert.deepEqual(await page(3, 2), { items: [1, 2], cursor: "2" });
  assert.deepEqual(await page(2, 2), { items: [1, 2] });
  assert.deepEqual(await page(0, 2), { items: [] });
});

test("a page does not read further than one item behind its end", async () => {
  let read = 0;
  async function* watched(): AsyncGenerator<number> {
    for (;;) yield ++read;
  }
  await pageOf(watched(), 5, String);
  assert.equal(read, 6);
});

test("a cursor leads back to its place, whatever the names in it, and to no other list's", () => {
  for (const place of [[""], ["a", "b/c:d"], ["ü\n", "", "}"]]) {
    assert.deepEqual(placeAfter(cursorOf(...place), place.length), place);
    assert.throws(() => placeAfter(cursorOf(...place), place.length + 1), ValidationError);
  }
  assert.equal(placeAfter(undefined, 1), undefined);
  for (const cursor of ["", "%%%", "bnVsbA", cursorOf().slice(1)]) {
    assert.throws(() => placeAfter(cursor, 1), ValidationError);
  }
});

test("chunks are full but for the last", async () => {
  assert.deepEqual(await collected(inChunks(upTo(5), 2)), [[1, 2], [3, 4], [5]]);
  assert.deepEqual(await collected(inChunks(upTo(0), 2)), []);
});
