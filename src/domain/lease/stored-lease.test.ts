import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../../test/properties.ts";
import { PLAIN_TICKET, type Ticket } from "../bucket/give-back.ts";
import { VersionError } from "../names/errors.ts";
import type { LeaseRecord } from "./lease-record.ts";
import { leaseFrom, leaseText } from "./stored-lease.ts";
import { storedTicket, ticketFrom } from "./stored-ticket.ts";

/** Plain objects, as they are in the code. */
const record = <Model extends object>(
  model: { readonly [Key in keyof Model]: fc.Arbitrary<Model[Key]> },
  options: { readonly requiredKeys?: never[] | (keyof Model)[] } = {},
): fc.Arbitrary<Model> =>
  fc.record(model, { ...options, noNullPrototype: true } as object) as unknown as fc.Arbitrary<Model>;
const instant = fc.integer({ min: 0, max: 4_000_000_000_000 });
const name = fc.stringMatching(/^[a-z][a-z0-9_.-]{0,12}$/);

const pin = record(
  {
    limit: name,
    reset: fc.option(
      record({ cron: fc.constant("0 0 * * *"), tz: fc.constant("Europe/Berlin") }, { requiredKeys: ["cron"] }),
      {
        nil: undefined,
      },
    ),
    untilMs: fc.oneof(instant, fc.constant(Number.POSITIVE_INFINITY)),
    windowStartMs: fc.option(instant, { nil: undefined }),
    resets: fc.maxSafeInteger(),
    milli: fc.maxSafeNat(),
  },
  { requiredKeys: ["limit", "reset", "untilMs", "windowStartMs", "resets"] },
);
const names = fc.array(name, { maxLength: 2 });
const ticket: fc.Arbitrary<Ticket> = fc.oneof(
  fc.constant(PLAIN_TICKET),
  record({ pins: fc.array(pin, { minLength: 1, maxLength: 3 }), overdrawn: names, opened: names, shadowed: names }),
);
const limit = record(
  {
    ...{ name, capacity: fc.maxSafeNat(), refillAmount: fc.maxSafeNat(), refillPeriodMs: fc.maxSafeNat() },
    ...{ soft: fc.constant(true), resetAfterMs: fc.nat(), reset: fc.constant({ cron: "0 0 1 * *" }) },
    schedule: fc.constant([{ cron: "* 9-17 * * *", scale: 2 }]),
  },
  { requiredKeys: ["name", "capacity", "refillAmount", "refillPeriodMs"] },
);
const limits = fc.uniqueArray(limit, { minLength: 1, maxLength: 3, selector: (one) => one.name });
const level = limits.chain((own) =>
  record({
    ...{ entityId: name, limits: fc.constant(own), bypass: fc.boolean() },
    origin: record(
      {
        ...{ asOfMs: instant, generation: fc.option(fc.nat(), { nil: null }) },
        ...{ given: fc.constant(true as const), own: fc.constant(true as const) },
      },
      { requiredKeys: ["asOfMs", "generation"] },
    ),
    seen: fc
      .array(record({ available: fc.maxSafeInteger(), capacity: fc.maxSafeNat() }), { maxLength: own.length })
      .map((all) => all.map((one, i) => ({ limit: own[i]?.name as string, ...one }))),
  }),
);

function records(): fc.Arbitrary<LeaseRecord> {
  const resource = record({
    ...{ resource: fc.string({ minLength: 1 }), overdrawn: fc.array(name, { maxLength: 2 }) },
    levels: fc.array(level, { minLength: 1, maxLength: 3 }),
  });
  return fc.array(resource, { minLength: 1, maxLength: 2 }).chain((resources) => {
    const places = resources.flatMap(({ levels }, i) => levels.map((_, j) => [i, j] as const));
    const holding = fc.constantFrom(...places).chain((at) => {
      const names = resources[at[0]]?.levels[at[1]]?.limits.map((one) => one.name) ?? [];
      const held = fc
        .subarray(names)
        .chain((some) =>
          fc
            .tuple(...some.map(() => fc.maxSafeNat()))
            .map((milli) => some.map((one, i) => ({ limit: one, milli: milli[i] as number }))),
        );
      return record({ at: fc.constant(at), ticket, held });
    });
    return record({
      ...{ leaseId: fc.constant("l_1"), version: fc.nat(), writer: fc.string(), entityId: name },
      status: fc.constantFrom("open", "settled", "rolledBack", "expired"),
      resources: fc.constant(resources),
      holdings: fc.array(holding, { maxLength: 4 }),
      ...{ openedAtMs: instant, expiresAtMs: instant, onExpiry: fc.constantFrom("charge", "refund") },
      closing: fc.option(record({ atMs: instant, by: fc.string() }), { nil: undefined }),
      requestId: fc.option(fc.string(), { nil: undefined }),
      idempotencyKey: fc.option(fc.string(), { nil: undefined }),
    }) as fc.Arbitrary<LeaseRecord>;
  });
}

test("whatever a lease holds, it is read back exactly, and plain tickets are the same one", () => {
  fc.assert(
    fc.property(records(), (lease) => {
      const read = leaseFrom("l_1", leaseText(lease));
      assert.deepEqual(read, lease);
      for (const [i, { ticket: was }] of lease.holdings.entries()) {
        if (was === PLAIN_TICKET) assert.equal(read.holdings[i]?.ticket, was);
      }
    }),
    { numRuns: 300 },
  );
});

test("a lease that is damaged, or of a newer form, is refused and never taken for another", () => {
  fc.assert(
    fc.property(records(), fc.nat(), fc.constantFrom('"', "[", "]", "x", "-", "null", ".5"), (lease, at, dirt) => {
      const text = leaseText(lease);
      const place = at % text.length;
      const damaged = text.slice(0, place) + dirt + text.slice(place + 1);
      let read: LeaseRecord;
      try {
        read = leaseFrom("l_1", damaged);
      } catch (error) {
        assert.ok(error instanceof VersionError && error.code === "stored_form_unknown", String(error));
        return;
      }
      // It is another text of the same form: what is read is what stands there.
      assert.deepEqual(leaseFrom("l_1", leaseText(read)), read);
    }),
    { numRuns: 600 },
  );
  for (const text of ["", "{}", "[2]", "[1]", "null", '[1,1,"w","open"]']) {
    assert.throws(() => leaseFrom("l_1", text), VersionError);
  }
});

test("a lease that was stored while tickets named shards is given back into the periods it was taken in", () => {
  const daily = ["day", ["0 0 * * *", null], 1_800_000_000_000, null, 7] as const;
  const other = [...daily.slice(0, 4), 8];
  const pinned = { limit: "day", reset: { cron: "0 0 * * *" }, untilMs: 1_800_000_000_000, windowStartMs: undefined };
  const ofShards = [
    [0, 2, [daily], ["day", 50_000], []],
    [1, 2, [daily], ["day", 30_000], ["soft"]],
  ];
  assert.deepEqual(ticketFrom(ofShards), { ...PLAIN_TICKET, pins: [{ ...pinned, resets: 7 }] });
  assert.deepEqual(ticketFrom([[0, 1, 0, null, []]]), PLAIN_TICKET);
  assert.deepEqual(ticketFrom([daily]), { ...PLAIN_TICKET, pins: [{ ...pinned, resets: 7 }] });
  const disagreeing = [
    [0, 2, [daily], ["day", 50_000], []],
    [1, 2, [other], ["day", 30_000], []],
  ];
  assert.deepEqual(ticketFrom(disagreeing).pins, [
    { ...pinned, resets: 7, milli: 50_000 },
    { ...pinned, resets: 8, milli: 30_000 },
  ]);
});

test("a ticket is a value: its text says all of it, and equal ones have equal texts", () => {
  fc.assert(
    fc.property(ticket, (given) => {
      const text = JSON.stringify(storedTicket(given));
      const read = ticketFrom(JSON.parse(text));
      assert.deepEqual(read, given);
      assert.equal(JSON.stringify(storedTicket(read)), text);
    }),
  );
});

test("a lease on a key and its project, two limits each, is about half a kilobyte", () => {
  const own = [
    { name: "rpm", capacity: 100, refillAmount: 100, refillPeriodMs: 60_000 },
    { name: "tpm", capacity: 20_000, refillAmount: 10_000, refillPeriodMs: 60_000 },
  ];
  const seen = [
    { limit: "rpm", available: 99, capacity: 100 },
    { limit: "tpm", available: 19_500, capacity: 20_000 },
  ];
  const origin = { asOfMs: 1_800_000_000_000, generation: null };
  const held = [
    { limit: "rpm", milli: 1_000 },
    { limit: "tpm", milli: 500_000 },
  ];
  const levels = ["key-2026-eu-west-1", "project-production"].map((entityId) => ({
    ...{ entityId, limits: own, origin, bypass: false, seen },
  }));
  const text = leaseText({
    ...{ leaseId: "l_8kZ", version: 1, writer: "AbCdEfGhIjk", status: "open", entityId: "key-2026-eu-west-1" },
    resources: [{ resource: "gpt-4", levels, overdrawn: [] }],
    holdings: [0, 1].map((at) => ({ at: [0, at] as const, ticket: PLAIN_TICKET, held })),
    ...{ openedAtMs: 1_800_000_000_000, expiresAtMs: 1_800_000_300_000, onExpiry: "charge", closing: undefined },
    ...{ requestId: "01J0000000000000000000000", idempotencyKey: undefined },
  });
  assert.ok(text.length < 450, `${text.length} characters: ${text}`);
});
