import assert from "node:assert/strict";
import { test } from "node:test";
import { BoundedMap, BoundedPairs } from "./bounded-map.ts";

test("of however many keys two generations stay, the newest and those that were asked for since", () => {
  const map = new BoundedMap<number>(100);
  const pairs = new BoundedPairs<number>(100);
  for (let i = 0; i < 1_000; i++) {
    map.set(`e${i}`, i);
    pairs.set("api", `e${i}`, i);
    assert.deepEqual([map.get("e0"), pairs.get("api", "e0")], [0, 0]);
    assert.ok(pairs.size <= 200, `${pairs.size} pairs`);
  }
  for (const i of [999, 900]) assert.deepEqual([map.get(`e${i}`), pairs.get("api", `e${i}`)], [i, i]);
  for (const i of [1, 700]) assert.deepEqual([map.get(`e${i}`), pairs.get("api", `e${i}`)], [undefined, undefined]);
});
