import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../test/properties.ts";
import { decodeItem } from "../adapters/dynamodb/codec.ts";
import { createCalendar } from "../adapters/system/calendar.ts";
import { bucketKey } from "../domain/bucket/bucket-key.ts";
import { availableMilli, findLimit } from "../domain/bucket/bucket-state.ts";
import { readableImage } from "../protocol/item/codec.ts";
import { OWN } from "../protocol/item/dialect.ts";
import type { OldLimit } from "./plan-bucket.ts";
import { planBucket } from "./plan-bucket.ts";

const calendar = createCalendar();
const T0 = Date.UTC(2026, 2, 15, 12);

const limits = fc
  .array(
    fc.record({
      tokens: fc.integer({ min: -3_000_000, max: 1_000_000_000 }),
      agoMs: fc.oneof(fc.integer({ min: 0, max: 5_000 }), fc.integer({ min: 0, max: 400 * 86_400_000 })),
      capacity: fc.integer({ min: 1, max: 1_000_000 }),
      refill: fc.integer({ min: 1, max: 1_000_000 }),
      periodMs: fc.oneof(
        fc.integer({ min: 1, max: 100_000 }),
        fc.constantFrom(1_000, 60_000, 86_400_000, 31_536_000_000),
      ),
    }),
    { minLength: 1, maxLength: 4 },
  )
  .map((all) =>
    all.map(
      ({ tokens, agoMs, capacity, refill, periodMs }, i): OldLimit => ({
        name: `l${i}`,
        tokensMilli: Math.min(tokens, capacity * 1000),
        refilledAtMs: T0 - agoMs,
        terms: { capacityMilli: capacity * 1000, refillAmountMilli: refill * 1000, refillPeriodMs: periodMs },
      }),
    ),
  );

/** The original's own rule, in whole numbers of any size. */
function originalLevel({ tokensMilli, refilledAtMs, terms }: OldLimit, atMs: number): number {
  const elapsedMs = BigInt(atMs - refilledAtMs);
  const gained = (elapsedMs * BigInt(terms.refillAmountMilli)) / BigInt(terms.refillPeriodMs);
  if (elapsedMs <= 0n || gained === 0n) return tokensMilli;
  const level = BigInt(tokensMilli) + gained;
  return Number(level < BigInt(terms.capacityMilli) ? level : BigInt(terms.capacityMilli));
}

test("every limit of a bucket holds what it would have held, to the millitoken, at every later instant", () => {
  const later = fc.oneof(fc.integer({ min: 0, max: 5_000 }), fc.integer({ min: 0, max: 400 * 86_400_000 }));
  fc.assert(
    fc.property(limits, fc.array(later, { minLength: 1, maxLength: 5 }), (old, instants) => {
      const { attributes } = planBucket(
        { entityId: "e", resource: "r", limits: old, ttlS: undefined, owner: {} },
        { namespaceId: "n", calendar, keptUntilS: 0 },
      );
      const key = { bucket: bucketKey("e", "r"), shard: 0 };
      const context = { calendar, dialect: OWN, like: undefined, set: undefined };
      const { state } = readableImage(key, decodeItem(attributes), context);
      const sinceMs = Math.max(...old.map(({ refilledAtMs }) => refilledAtMs));
      for (const laterMs of instants) {
        const atMs = sinceMs + laterMs;
        for (const limit of old) {
          const held = findLimit(state, limit.name);
          assert.ok(held !== undefined);
          assert.equal(
            availableMilli(state, held, atMs),
            originalLevel(limit, atMs),
            `${limit.name} ${laterMs} ms later`,
          );
        }
      }
    }),
    { numRuns: 3_000 },
  );
});

test("an item is kept until everything on it is full again, and as long as it was to be kept before", () => {
  const [full, debt] = [0, -6_000_000].map((tokensMilli): OldLimit => {
    const terms = { capacityMilli: 1_000, refillAmountMilli: 1_000, refillPeriodMs: 1_000 };
    return { name: "rps", tokensMilli, refilledAtMs: T0, terms };
  }) as [OldLimit, OldLimit];
  const ttlOf = (limit: OldLimit, ttlS: number | undefined, keptUntilS: number) =>
    Number(
      planBucket(
        { entityId: "e", resource: "r", limits: [limit], ttlS, owner: {} },
        { namespaceId: "n", calendar, keptUntilS },
      ).attributes.ttl?.N,
    );
  const s = T0 / 1000;
  assert.ok(ttlOf(full, undefined, 0) > s);
  assert.ok(ttlOf(debt, undefined, 0) > s + 6_000, "the original would have forgiven it");
  assert.equal(ttlOf(full, s + 1e6, 0), s + 1e6);
  assert.equal(ttlOf(full, undefined, s + 2e6), s + 2e6);
});
