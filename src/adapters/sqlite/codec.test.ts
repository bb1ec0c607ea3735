import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../../test/properties.ts";
import { bucketState, type LimitState } from "../../domain/bucket/bucket-state.ts";
import { NO_SLICES } from "../../domain/bucket/holds.ts";
import { Limit, termsOf } from "../../domain/limits/limit.ts";
import type { OpenHour } from "../../stored/open-hour.ts";
import { type Shape, shapeFrom, shapeOf } from "../../stored/shape.ts";
import { decoded, encoded } from "./codec.ts";

const plain = <T>(model: { [K in keyof T]: fc.Arbitrary<T[K]> }) => fc.record(model, { noNullPrototype: true });
const anyCron = { problemOf: () => undefined };
const safe = fc.maxSafeInteger();
const natural = fc.maxSafeNat();

const marks = plain({
  windowStartMs: fc.option(natural, { nil: undefined }),
  topUpMilli: natural,
  resets: natural,
});

/** A limit of any kind, with a window, and soft, as often as not. The codec reads none of it but the kind. */
const limit: fc.Arbitrary<LimitState> = plain({
  name: fc.stringMatching(/^[a-z][a-z0-9_.-]{0,10}$/),
  kind: fc.constantFrom("drip", "calendar", "session", "concurrent"),
  // Also of a limit that is another kind meanwhile.
  slices: fc.uniqueArray(plain({ place: fc.nat(7), endMs: natural, heldMilli: natural }), {
    selector: ({ place }) => place,
  }),
  soft: fc.boolean(),
  scale: fc.option(fc.integer({ min: 1, max: 9_999 }).map((perMille) => perMille / 1000)),
  terms: plain({ capacityMilli: natural, refillAmountMilli: natural, refillPeriodMs: natural.map((n) => n + 1) }),
  configured: fc.boolean(),
  tokensMilli: safe,
  remainder: natural,
  quota: marks,
  rememberUntilMs: fc.oneof(fc.constant(0), natural),
  resetsBefore: fc.oneof(fc.constant(0), natural),
}).map(
  ({
    name,
    kind,
    slices,
    soft,
    scale,
    terms,
    configured,
    tokensMilli,
    remainder,
    quota,
    rememberUntilMs,
    resetsBefore,
  }) => {
    const drips = kind === "drip";
    const definition: Limit = {
      name,
      capacity: 7,
      refillAmount: drips ? 3 : 0,
      refillPeriodMs: 1_000,
      ...(soft ? { soft: true as const } : {}),
      ...(scale === null ? {} : { schedule: [{ cron: "* 9-17 * * 1-5", tz: "Europe/Berlin", scale }] }),
      ...(kind === "calendar" ? { reset: { cron: "0 0 1 * *", tz: "Europe/Berlin" } } : {}),
      ...(kind === "session" ? { resetAfterMs: 18_000_000 } : {}),
      ...(kind === "concurrent" ? { holdMs: 60_000 } : {}),
    };
    const own = drips ? undefined : quota;
    const state = { name, limit: definition, terms, configured, tokensMilli, remainder, quota: own };
    const held = slices.toSorted((a, b) => a.place - b.place);
    return { ...state, slices: held, part: undefined, rememberUntilMs, resetsBefore };
  },
);

test("any bucket of safe integers, of any kinds, comes back from the file as it went in", () => {
  const parts = plain({
    epochMs: natural,
    limits: fc.uniqueArray(limit, { selector: ({ name }) => name, maxLength: 16 }),
    signature: fc.string(),
    origin: plain({ asOfMs: natural, generation: fc.option(natural, { nil: null }) }),
    validUntilMs: fc.oneof(natural, fc.constant(Number.POSITIVE_INFINITY)),
  });
  fc.assert(
    fc.property(parts, natural, natural, (given, hourMs, requests) => {
      const state = bucketState(given);
      const shape = shapeOf(state);
      const counted = shape.counts.map((_, i) => (i % 2 === 0 ? hourMs - i : Number.NaN));
      const open = { hourMs, requests, counted };
      // The bytes are only lent.
      const bytes = Uint8Array.from(encoded(state, open, shape));
      assert.deepEqual(decoded(shapeFrom(shape.text, anyCron) as Shape, bytes, hourMs), { state, open });
    }),
    { numRuns: 300 },
  );
});

/** How many bytes the level of a full bucket with these limits takes. */
function bytesOf(...limits: readonly Limit[]): number {
  const states = limits.map((one): LimitState => {
    const terms = termsOf(one);
    const quota = one.refillAmount === 0 ? { windowStartMs: undefined, topUpMilli: 0, resets: 0 } : undefined;
    const { name } = one;
    return {
      name,
      limit: one,
      terms,
      configured: true,
      tokensMilli: terms.capacityMilli,
      remainder: 0,
      quota,
      slices: NO_SLICES,
      part: undefined,
      rememberUntilMs: 0,
      resetsBefore: 0,
    };
  });
  const origin = { asOfMs: 0, generation: 7 };
  const validUntilMs = Number.POSITIVE_INFINITY;
  const state = bucketState({ epochMs: 1.7e12, limits: states, signature: "", origin, validUntilMs });
  const open: OpenHour = { hourMs: 0, requests: 0, counted: limits.map(() => 0) };
  return encoded(state, open, shapeOf(state)).length;
}

test("two limits take eighty-eight bytes, and a quota twenty-four more", () => {
  const most = 9_000_000_000_000;
  const [rpm, tpm] = [Limit.perSecond("rpm", most), Limit.perSecond("tpm", most)];
  assert.equal(bytesOf(rpm, tpm), 88);
  assert.equal(bytesOf(rpm, Limit.quota("session", most, { resetAfterMs: 18_000_000 })), 112);
});
