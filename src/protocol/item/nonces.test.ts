import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../../test/properties.ts";
import { NONCE_SLOTS, Nonces, nonceSlot } from "./attributes.ts";

const anyChance = fc.integer({ min: 0, max: 2 ** 33 - 1 });

test("a nonce is an exact number, and none comes twice for a million writes", () => {
  fc.assert(
    fc.property(anyChance, (own) => {
      const nonces = new Nonces(() => own / 2 ** 33);
      const drawn = Array.from({ length: 1_000 }, () => nonces.next());
      assert.equal(new Set(drawn).size, 1_000);
      assert.ok(drawn.every(Number.isSafeInteger));
      assert.ok(nonces.slot >= 0 && nonces.slot < NONCE_SLOTS);
    }),
    { numRuns: 20 },
  );
});

test("two processes never draw the same, though they may share a slot", () => {
  fc.assert(
    fc.property(anyChance, anyChance, (one, other) => {
      fc.pre(one !== other);
      const [a, b] = [new Nonces(() => one / 2 ** 33), new Nonces(() => other / 2 ** 33)];
      const drawn = new Set(Array.from({ length: 100 }, () => a.next()));
      for (let i = 0; i < 100; i++) assert.ok(!drawn.has(b.next()));
    }),
    { numRuns: 50 },
  );
});

test("the slots are n0 to nf", () => {
  const names = Array.from({ length: NONCE_SLOTS }, (_, slot) => nonceSlot(slot));
  assert.equal(names.join(" "), "n0 n1 n2 n3 n4 n5 n6 n7 n8 n9 na nb nc nd ne nf");
});
