import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { bucketState } from "../../domain/bucket-state.ts";
import { decoded, encoded, shapeFrom, shapeOf } from "./codec.ts";

const plain = <T>(model: { [K in keyof T]: fc.Arbitrary<T[K]> }) => fc.record(model, { noNullPrototype: true });
const safe = fc.maxSafeInteger();
const natural = fc.maxSafeNat();
const limit = plain({
  name: fc.stringMatching(/^[a-z][a-z0-9_.-]{0,10}$/),
  terms: plain({ capacityMilli: natural, refillAmountMilli: natural, refillPeriodMs: natural.map((n) => n + 1) }),
  configured: fc.boolean(),
  tokensMilli: safe,
  remainder: natural,
});

test("any bucket of safe integers comes back from the file as it went in", () => {
  const origin = plain({ asOfMs: natural, generation: fc.option(natural, { nil: null }) });
  const limits = fc.uniqueArray(limit, { selector: ({ name }) => name, maxLength: 16 });
  fc.assert(
    fc.property(
      limits,
      natural,
      origin,
      fc.string(),
      natural,
      natural,
      (list, epochMs, from, signature, hourMs, requests) => {
        const state = bucketState({ epochMs, limits: list, signature, origin: from });
        const counted = list.map(({ tokensMilli }, i) => (i % 2 === 0 ? tokensMilli : Number.NaN));
        const open = { hourMs, requests, counted };
        const text = shapeOf(state).text;
        // The bytes are only lent.
        const bytes = Uint8Array.from(encoded(state, open));
        assert.deepEqual(decoded(shapeFrom(text), bytes, hourMs), { state, open });
      },
    ),
  );
});

test("two limits take eighty bytes", () => {
  const terms = { capacityMilli: 9e15, refillAmountMilli: 9e15, refillPeriodMs: 1000 };
  const limits = ["rpm", "tpm"].map((name) => ({ name, terms, configured: true, tokensMilli: 9e15, remainder: 0 }));
  const state = bucketState({ epochMs: 1.7e12, limits, signature: "", origin: { asOfMs: 0, generation: 7 } });
  assert.equal(encoded(state, { hourMs: 0, requests: 0, counted: [0, 0] }).length, 80);
});
