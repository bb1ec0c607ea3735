import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { SHARD_TICKETS } from "../protocol/stored-ticket.ts";
import { ticketOn } from "../protocol/ticket.ts";
import { VersionError } from "./errors.ts";
import { PLAIN_MARK, type TakeMark } from "./give-back.ts";
import type { LeaseRecord } from "./lease-record.ts";
import { leaseFrom, leaseText, type TicketForm } from "./stored-lease.ts";
import { markFrom, storedMark } from "./stored-mark.ts";

const MARKS: TicketForm = { stored: (ticket) => storedMark(ticket as TakeMark), from: markFrom };
/** Plain objects, as they are in the code. */
const record = <Model extends object>(
  model: { readonly [Key in keyof Model]: fc.Arbitrary<Model[Key]> },
  options: { readonly requiredKeys?: never[] | (keyof Model)[] } = {},
): fc.Arbitrary<Model> =>
  fc.record(model, { ...options, noNullPrototype: true } as object) as unknown as fc.Arbitrary<Model>;
const instant = fc.integer({ min: 0, max: 4_000_000_000_000 });
const name = fc.stringMatching(/^[a-z][a-z0-9_.-]{0,12}$/);

const pin = record({
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
});
const mark: fc.Arbitrary<TakeMark> = fc.oneof(
  fc.constant(PLAIN_MARK),
  record({ pins: fc.array(pin, { minLength: 1, maxLength: 3 }) }),
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

function records(ticket: fc.Arbitrary<object>): fc.Arbitrary<LeaseRecord> {
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
      return record({ at: fc.constant(at), ticket: fc.option(ticket, { nil: undefined }), held });
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

const part = record({
  ...{ shard: fc.nat(31), shardCount: fc.constantFrom(1, 2, 32), mark, overdrawn: fc.array(name, { maxLength: 2 }) },
  gave: fc.option(fc.array(record({ limit: name, milli: fc.maxSafeInteger() }), { maxLength: 2 }), {
    nil: undefined,
  }),
});
const shardTicket = fc.oneof(
  fc.constant(ticketOn(undefined) as object),
  record({ parts: fc.array(part, { minLength: 1, maxLength: 3 }) }),
);

for (const [store, tickets, ticket] of [
  ["a store that computes", MARKS, mark],
  ["the protocol", SHARD_TICKETS, shardTicket],
] as const) {
  test(`whatever a lease holds of ${store}, it is read back exactly, and plain tickets are the same ones`, () => {
    fc.assert(
      fc.property(records(ticket), (lease) => {
        const read = leaseFrom("l_1", leaseText(lease, tickets), tickets);
        assert.deepEqual(read, lease);
        for (const [i, { ticket: was }] of lease.holdings.entries()) {
          if (was === PLAIN_MARK || was === ticketOn(undefined)) assert.equal(read.holdings[i]?.ticket, was);
        }
      }),
      { numRuns: 300 },
    );
  });

  test(`a lease of ${store} that is damaged, or of a newer form, is refused and never taken for another`, () => {
    fc.assert(
      fc.property(
        records(ticket),
        fc.nat(),
        fc.constantFrom('"', "[", "]", "x", "-", "null", ".5"),
        (lease, at, dirt) => {
          const text = leaseText(lease, tickets);
          const place = at % text.length;
          const damaged = text.slice(0, place) + dirt + text.slice(place + 1);
          let read: LeaseRecord;
          try {
            read = leaseFrom("l_1", damaged, tickets);
          } catch (error) {
            assert.ok(error instanceof VersionError && error.code === "stored_form_unknown", String(error));
            return;
          }
          // It is another text of the same form: what is read is what stands there.
          assert.deepEqual(leaseFrom("l_1", leaseText(read, tickets), tickets), read);
        },
      ),
      { numRuns: 300 },
    );
    for (const text of ["", "{}", "[2]", "[1]", "null", '[1,1,"w","open"]']) {
      assert.throws(() => leaseFrom("l_1", text, tickets), VersionError);
    }
  });
}

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
  const text = leaseText(
    {
      ...{ leaseId: "l_8kZ", version: 1, writer: "AbCdEfGhIjk", status: "open", entityId: "key-2026-eu-west-1" },
      resources: [{ resource: "gpt-4", levels, overdrawn: [] }],
      holdings: [0, 1].map((at) => ({ at: [0, at] as const, ticket: ticketOn(undefined), held })),
      ...{ openedAtMs: 1_800_000_000_000, expiresAtMs: 1_800_000_300_000, onExpiry: "charge", closing: undefined },
      ...{ requestId: "01J0000000000000000000000", idempotencyKey: undefined },
    },
    SHARD_TICKETS,
  );
  assert.ok(text.length < 450, `${text.length} characters: ${text}`);
});
