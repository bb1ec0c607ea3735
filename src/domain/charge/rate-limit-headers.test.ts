import assert from "node:assert/strict";
import { test } from "node:test";
import { type BareItem, type Item, serializeList } from "structured-headers";
import { fc } from "../../../test/properties.ts";
import { grantHeaders, type LimitStanding, refusalHeaders } from "./rate-limit-headers.ts";

const ascii = fc.string({
  unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)),
  minLength: 1,
});
/** Around every bound: nothing, a second, what an integer of a structured field holds, and what is exact at all. */
const whole = fc.oneof(
  fc.integer({ min: 0, max: 2_000 }),
  fc.maxSafeNat(),
  fc.integer({ min: -2, max: 2 }).map((by) => 999_999_999_999_999 + by),
);
const span = fc.option(whole, { nil: null });
const LIMITS = ["rpm", "tpm", 'say "so"', "a\\b"];

const standing: fc.Arbitrary<LimitStanding> = fc.record({
  entityId: fc.constantFrom("key-1", "org"),
  resource: fc.constantFrom("api", "gpu/a100", "*"),
  limit: fc.oneof(fc.constantFrom(...LIMITS), ascii),
  level: fc.nat({ max: 8 }),
  available: fc.oneof(
    whole,
    whole.map((tokens) => -tokens),
  ),
  capacity: whole,
  windowMs: span,
  fullInMs: span,
});
const units = fc.dictionary(fc.constantFrom(...LIMITS), ascii).map((named) => new Map(Object.entries(named)));

test("header fields are written as the serializer of structured fields writes them", () => {
  fc.assert(
    fc.property(fc.array(standing, { minLength: 1, maxLength: 6 }), units, (standings, named) => {
      const expected = fieldsBySerializer(standings, named, ({ fullInMs }) => seconds(fullInMs));
      assert.deepEqual(grantHeaders(standings, named), expected);
      const statuses = standings.map(({ entityId, resource, limit, capacity }, i) => ({
        ...{
          entityId,
          resource,
          limit,
          counts: limit,
          available: 0,
          capacity,
          requested: 1,
          kind: "drip" as const,
          soft: false,
          shadow: false,
        },
        ...{ exceeded: i % 2 === 0, retryAfterMs: i === 0 ? Number.POSITIVE_INFINITY : i * 700 },
      }));
      const waitOf = (of: LimitStanding) =>
        statuses.findLast(
          ({ entityId, resource, limit, exceeded }) =>
            exceeded && entityId === of.entityId && resource === of.resource && limit === of.limit,
        )?.retryAfterMs;
      assert.deepEqual(refusalHeaders({ statuses, retryAfterMs: 1_001 }, standings, named), {
        ...fieldsBySerializer(standings, named, (of) => seconds(waitOf(of) ?? null)),
        "retry-after": "2",
      });
    }),
  );
  assert.deepEqual(grantHeaders([], new Map()), {});
});

function fieldsBySerializer(
  standings: readonly LimitStanding[],
  named: ReadonlyMap<string, string>,
  resetOf: (standing: LimitStanding) => number | undefined,
): Record<string, string> {
  const policies: Item[] = [];
  const states: Item[] = [];
  for (const one of standings) {
    const isOwn = one.resource === standings.find(({ resource }) => resource !== "*")?.resource;
    const name = `${isOwn ? "" : `${one.resource}/`}${one.limit}${one.level === 0 ? "" : `^${one.level}`}`;
    policies.push([name, said({ q: one.capacity, qu: named.get(one.limit), w: seconds(one.windowMs) })]);
    states.push([name, said({ r: Math.max(0, one.available), t: resetOf(one) })]);
  }
  return { "ratelimit-policy": serializeList(policies), ratelimit: serializeList(states) };
}

function said(parameters: Readonly<Record<string, BareItem | undefined>>): Map<string, BareItem> {
  const isSaid = (value: BareItem | undefined) =>
    value !== undefined && (typeof value !== "number" || value <= 999_999_999_999_999);
  return new Map(Object.entries(parameters).filter(([, value]) => isSaid(value)) as [string, BareItem][]);
}

function seconds(ms: number | null): number | undefined {
  return ms === null || ms === Number.POSITIVE_INFINITY ? undefined : Math.ceil(ms / 1000);
}
