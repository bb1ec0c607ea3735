import assert from "node:assert/strict";
import { test } from "node:test";
import { type Holder, type PoolSlot, SharedPool } from "./inflight.ts";

/** Takes until it is refused; answers the slots. */
function all(pool: SharedPool, holder: Holder): PoolSlot[] {
  const places: PoolSlot[] = [];
  for (let slot = pool.take(holder); slot !== undefined; slot = pool.take(holder)) places.push(slot);
  return places;
}

test("whoever takes all it can, each token finds its share, and the places are never more than there are", () => {
  for (const max of [6, 20, 100, 1_000, 10_000]) {
    for (const tokens of [1, 2, 3, 7]) {
      if (max < 2 * tokens) continue;
      const pool = new SharedPool(max, () => tokens);
      const share = Math.max(1, Math.floor(max / 4 / tokens));
      for (let i = 0; i < tokens; i++) {
        const places = all(pool, { token: `t${i}`, namespace: `n${i}` });
        assert.ok(places.length >= share, `${tokens} tokens, ${max} places: t${i} got ${places.length} of ${share}`);
        assert.ok(pool.count <= max);
      }
    }
  }
});

test("the first to come does not get everything that is common", () => {
  const pool = new SharedPool(1_000, () => 2);
  const first = all(pool, { token: "a", namespace: "a" });
  assert.ok(first.length >= 600 && first.length <= 800, `${first.length}`);
  assert.ok(all(pool, { token: "b", namespace: "b" }).length > 125 + 50);
});

test("one token for many namespaces: a busy one leaves room for the others", () => {
  const pool = new SharedPool(100, () => 1);
  all(pool, { token: "gateway", namespace: "busy" });
  // Of the same token, in turn with other tokens' shares: only the namespace was the bound.
  assert.ok(pool.count < 100);
  const many = new SharedPool(100, () => 50);
  for (let i = 0; i < 40; i++) all(many, { token: `busy-${i}`, namespace: "busy" });
  assert.notEqual(many.take({ token: "other", namespace: "quiet" }), undefined);
});

test("a place that was given back can be had again, and only once", () => {
  const pool = new SharedPool(4, () => 1);
  const places = all(pool, { token: "a", namespace: "n" });
  const count = pool.count;
  places[0]?.release();
  places[0]?.release();
  assert.equal(pool.count, count - 1);
  assert.notEqual(pool.take({ token: "a", namespace: "n" }), undefined);
  assert.equal(pool.take({ token: "a", namespace: "n" }), undefined);
});

test("an open service has no shares: all places are anybody's", () => {
  assert.equal(all(new SharedPool(7, () => undefined), { token: undefined, namespace: "default" }).length, 7);
});

test("requests without a token cannot take what is kept for tokens", () => {
  const pool = new SharedPool(100, () => 4);
  all(pool, { token: undefined, namespace: "" });
  for (let i = 0; i < 4; i++) assert.ok(all(pool, { token: `t${i}`, namespace: "n" }).length >= 6);
});
