import { isSlotPin, type PeriodPin, type Ticket } from "../../src/domain/bucket/give-back.ts";
import type { LimitState } from "../../src/domain/bucket/limit-state.ts";
import { Lease } from "../../src/engine/lease/lease.ts";
import { LeaseHolds } from "../../src/engine/lease/lease-holds.ts";
import { LeaseResource } from "../../src/engine/lease/lease-resource.ts";
import { Renewals } from "../../src/engine/lease/renewals.ts";
import type { BucketStore, Held } from "../../src/ports/bucket-store.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import { without } from "../simulation/code-mutants.ts";
import type { Spoiled } from "./slot-world.ts";

// Deliberate bugs of slots, in the store and in the engine. Each must be found by the judge.

const crediting = (credit: (buckets: BucketStore) => BucketStore["credit"]): Spoiled => {
  return (buckets) => overriding(buckets, { credit: credit(buckets) });
};

/** Tickets of what is given back, with pins that are made of what the bucket holds now. */
const repinned = (of: (pin: Extract<PeriodPin, { place: number }>, held: LimitState) => PeriodPin): Spoiled =>
  crediting((buckets) => async (held, amounts, context) => {
    const [state] = await buckets.read([held.bucket]);
    const pins = held.ticket.pins.map((pin) => {
      const now = state?.limits.find(({ name }) => name === pin.limit);
      return isSlotPin(pin) && now !== undefined ? of(pin, now) : pin;
    });
    return buckets.credit({ ...held, ticket: { ...held.ticket, pins } }, amounts, context);
  });

/** Between the judge and the store. */
export const STORE_MUTANTS: Readonly<Record<string, Spoiled>> = {
  "a take without a lower bound": (buckets) =>
    overriding<BucketStore>(buckets, {
      take: async (claims, context) => {
        const reply = await buckets.take(claims, context);
        if (reply === "stale" || reply.every(({ kind }) => kind !== "short")) return reply;
        return Promise.all(
          claims.map(async (claim) => {
            const held: Held = { ...claim, ticket: EMPTY };
            const debited = await buckets.debit(held, claim.take, context);
            if (debited.kind !== "applied") return { kind: "unavailable", cause: debited.kind } as const;
            return { kind: "taken", state: debited.state, ticket: debited.ticket ?? EMPTY, shadowed: [] } as const;
          }),
        );
      },
    }),

  "a ticket that ends later than its slice": (buckets) =>
    overriding<BucketStore>(buckets, {
      take: async (claims, context) => {
        const reply = await buckets.take(claims, context);
        if (reply === "stale") return reply;
        return reply.map((one) => (one.kind === "taken" ? { ...one, ticket: later(one.ticket) } : one));
      },
    }),

  "a give-back by its place alone": repinned((pin, { slices }) => {
    const { endMs } = slices.find(({ place }) => place === pin.place) ?? pin;
    return { ...pin, endMs };
  }),

  "a give-back without the beginning": repinned((pin, { quota }) => ({ ...pin, resets: quota?.resets ?? 0 })),

  "a give-back that happens twice": crediting((buckets) => async (held, amounts, context) => {
    await buckets.credit(held, amounts, context);
    return buckets.credit(held, amounts, context);
  }),

  "a give-back of settled slots that is not written": crediting((buckets) => async (held, amounts, context) => {
    if (!context.slotsUsed) return buckets.credit(held, amounts, context);
    const [state] = await buckets.read([held.bucket]);
    return state === undefined ? { kind: "gone" } : { kind: "applied", state };
  }),

  "a settle that gives the rate back": crediting((buckets) => (held, amounts, context) => {
    const isUsed = context.slotsUsed && held.ticket.pins.some(({ limit }) => limit === "used");
    return buckets.credit(held, isUsed ? [...amounts, { limit: "used", milli: 1000 }] : amounts, context);
  }),

  "a renewal that is told and not written": (buckets) =>
    overriding<BucketStore>(buckets, {
      renew: async (held) => ({ kind: "renewed", ticket: later(held.ticket) }),
    }),

  "a renewal that leaves the slot where it was, too": (buckets) =>
    overriding<BucketStore>(buckets, {
      renew: async (held, amounts, context) => {
        const reply = await buckets.renew(held, amounts, context);
        if (reply.kind === "renewed") await buckets.credit({ ...held, ticket: reply.ticket }, amounts, context);
        return reply;
      },
    }),
};

/** In the engine: a method that does something else. The answer puts it back. */
export const ENGINE_MUTANTS: Readonly<Record<string, () => () => void>> = {
  "a settle that keeps the slot": () => without(LeaseResource.prototype as never, "keepUsed", () => Promise.resolve()),
  "renewals that are never sent": () =>
    without(Renewals.prototype, "renew", () => Promise.resolve({ lost: [], unanswered: { cause: "not sent" } })),
  "a body that nobody renews for": () => without(LeaseHolds.prototype, "keep", () => {}),
  "slots that are taken later and that nobody looks after": () =>
    without(Lease.prototype as never, "slotHolds", () => undefined),
  "slots that are taken again and that nobody looks after": () => {
    const { gaveBack, taken } = LeaseHolds.prototype;
    const gave = new WeakSet<LeaseHolds>();
    const notSeen = without(LeaseHolds.prototype, "gaveBack", function (this: LeaseHolds) {
      gave.add(this);
      gaveBack.call(this);
    });
    const notTaken = without(LeaseHolds.prototype, "taken", function (this: LeaseHolds, readingMs: number) {
      if (!gave.has(this)) taken.call(this, readingMs);
    });
    return () => {
      notTaken();
      notSeen();
    };
  },
  "a give-back that does not wait for the renewal under way": () =>
    without(LeaseHolds.prototype, "afterRenewals", (work: () => unknown) => work()),
};

const EMPTY: Ticket = { pins: [], overdrawn: [], opened: [], shadowed: [] };

function later(ticket: Ticket): Ticket {
  return { ...ticket, pins: ticket.pins.map((pin) => (isSlotPin(pin) ? { ...pin, endMs: pin.endMs + 5_000 } : pin)) };
}
