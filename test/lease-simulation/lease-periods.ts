import { isSlotPin, type QuotaPin, quotaPinOf, type Ticket } from "../../src/domain/bucket/give-back.ts";
import type { BucketStore, BucketsMaybeInPlace, CallContext, Claim, Held } from "../../src/ports/bucket-store.ts";
import type { Charged, LeaseChange, LeaseStore } from "../../src/ports/lease-store.ts";
import type { ScopedStore } from "../../src/ports/store.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import { calendar } from "../simulation/calendar.ts";
import type { ChargedLimit } from "./lease-limits.ts";

/** From which step of the world to which something was under way. */
export interface Span {
  readonly fromStep: number;
  readonly toStep: number;
}

/** Whether something belongs to the present period of a limit. */
export type Belonging = "certainly" | "perhaps" | "no";

interface Period {
  readonly id: string;
  /** No window of the session is open: what was taken before belongs to one that is over. */
  readonly isClosed: boolean;
  readonly sinceStep: number;
}

/** Each write at one instant may tell a bucket from a millisecond later. */
const AHEAD_MS_MAX = 200;

/**
 * The periods of quotas, told by the clock and by what an operator did, and not by what is stored. Every ticket that the store
 * hands out for a quota has to name the period in which it was handed out, and no other one.
 */
export class PeriodBook {
  readonly problems: string[] = [];
  /** How many periods have ended. */
  ended = 0;
  readonly #now: () => number;
  readonly #charged: ReadonlyMap<string, ChargedLimit>;
  readonly #periods = new Map<string, Period>();
  readonly #resets = new Map<string, number>();
  /** After how many resets by an operator a pin was handed out, at least and at most. */
  readonly #pins = new Map<string, { readonly least: number; readonly most: number }>();

  constructor(charged: readonly ChargedLimit[], now: () => number) {
    this.#charged = new Map(charged.map((one) => [one.place, one]));
    this.#now = now;
  }

  /** The limit stands so at the end of this step; `windowStartMs`: of a session that is open. */
  look(
    place: string,
    at: { readonly step: number; readonly atMs: number; readonly windowStartMs: number | undefined },
  ) {
    const { limit } = this.#charged.get(place) as ChargedLimit;
    const until = limit.reset === undefined ? at.windowStartMs : nextReset(limit.reset.cron, at.atMs);
    const id = `${until}, after ${this.#resets.get(place) ?? 0} resets`;
    const known = this.#periods.get(place);
    if (known?.id === id) return;
    if (known !== undefined && !known.isClosed) this.ended++;
    const isClosed = limit.resetAfterMs !== undefined && at.windowStartMs === undefined;
    this.#periods.set(place, { id, isClosed, sinceStep: known === undefined ? -1 : at.step });
  }

  /** An operator has reset it; its step ends with that. */
  reset(place: string): void {
    this.#resets.set(place, (this.#resets.get(place) ?? 0) + 1);
  }

  /** Of what was charged or bought within these steps. */
  belonging(place: string, { fromStep, toStep }: Span): Belonging {
    const { sinceStep, isClosed } = this.#periods.get(place) as Period;
    if (isClosed) return "no";
    if (fromStep > sinceStep) return "certainly";
    return toStep >= sinceStep ? "perhaps" : "no";
  }

  /** Of what a record holds with this ticket. */
  heldNow(
    place: string,
    ticket: Ticket,
    at: { readonly atMs: number; readonly windowStartMs: number | undefined },
  ): Belonging {
    const { limit } = this.#charged.get(place) as ChargedLimit;
    if (limit.reset === undefined && limit.resetAfterMs === undefined) return "certainly";
    const pin = quotaPinOf(ticket, limit.name);
    if (pin === undefined) {
      this.problems.push(`a lease holds some of ${place}, and does not say of which period`);
      return "perhaps";
    }
    const isNow =
      limit.reset === undefined
        ? pin.windowStartMs === at.windowStartMs
        : pin.untilMs === nextReset(limit.reset.cron, at.atMs);
    if (!isNow) return "no";
    // The answer that has it may be on its way.
    const handed = this.#pins.get(pinKey(place, pin));
    const resets = this.#resets.get(place) ?? 0;
    if (handed === undefined) return "perhaps";
    if (handed.least === resets) return "certainly";
    return handed.most === resets ? "perhaps" : "no";
  }

  /** The store, watched by this book. */
  watch(scope: ScopedStore): ScopedStore {
    return { ...scope, buckets: this.#buckets(scope.buckets), leases: this.#leases(scope.leases) };
  }

  #buckets(buckets: BucketStore): BucketStore {
    const take: BucketStore["take"] = async (claims, context) => {
      const before = new Map(this.#resets);
      const reply = await buckets.take(claims, context);
      if (reply === "stale") return reply;
      for (const [i, answer] of reply.entries()) {
        const { bucket } = claims[i] as Claim;
        if (answer.kind === "taken") this.#handed(bucket.id, answer.ticket, context, before);
      }
      return reply;
    };
    const debit: BucketStore["debit"] = async (held, amounts, context) => {
      const before = new Map(this.#resets);
      const reply = await buckets.debit(held, amounts, context);
      if (reply.kind === "applied") this.#handed(held.bucket.id, reply.ticket, context, before);
      return reply;
    };
    // The short ways of a store in memory answer alike, and are watched in their long form.
    return overriding<BucketsMaybeInPlace>(buckets, {
      take,
      debit,
      takeSync: undefined as never,
      takeOne: undefined as never,
    });
  }

  #leases(leases: LeaseStore): LeaseStore {
    const change = leases.change?.bind(leases);
    if (change === undefined) return leases;
    return overriding(leases, {
      change: (asked, context) =>
        change({ ...plain(asked), writeOf: (charged) => this.#changed(asked, charged, context) }, context),
    });
  }

  #changed(asked: LeaseChange, charged: Charged, context: CallContext): ReturnType<LeaseChange["writeOf"]> {
    const { moves } = asked;
    // Slots have no periods.
    if (moves.kind === "renew" || charged.kind === "renew") return asked.writeOf(charged);
    const all: readonly { readonly bucket: Held["bucket"] }[] =
      moves.kind === "take" ? moves.claims : moves.debits.map(({ held }) => held);
    const answers = charged.kind === "take" ? charged.taken : charged.debited;
    for (const [i, { bucket }] of all.entries()) this.#handed(bucket.id, answers[i]?.ticket, context, this.#resets);
    return asked.writeOf(charged);
  }

  #handed(
    bucket: string,
    ticket: Ticket | undefined,
    { nowMs }: CallContext,
    before: ReadonlyMap<string, number>,
  ): void {
    for (const pin of ticket?.pins ?? []) {
      if (isSlotPin(pin)) continue;
      const charged = [...this.#charged.values()].find(
        (one) => one.bucket.id === bucket && one.limit.name === pin.limit,
      );
      if (charged === undefined) continue;
      const { place, limit } = charged;
      if (limit.reset !== undefined) {
        const first = nextReset(limit.reset.cron, nowMs);
        const last = nextReset(limit.reset.cron, this.#now() + AHEAD_MS_MAX);
        if (pin.untilMs < first || pin.untilMs > last)
          this.problems.push(
            `a ticket of ${place} names a period until ${pin.untilMs}, taken between ${first} and ${last}`,
          );
      }
      const key = pinKey(place, pin);
      const now = { least: before.get(place) ?? 0, most: this.#resets.get(place) ?? 0 };
      const known = this.#pins.get(key) ?? now;
      const both = { least: Math.max(known.least, now.least), most: Math.min(known.most, now.most) };
      if (both.least > both.most)
        this.problems.push(`tickets of ${place} say the same before and after a reset: ${key}`);
      this.#pins.set(key, both);
    }
  }
}

function pinKey(place: string, { untilMs, windowStartMs, resets }: QuotaPin): string {
  return `${place} ${untilMs} ${windowStartMs} ${resets}`;
}

function nextReset(cron: string, afterMs: number): number {
  return calendar.nextReset(cron, "UTC", afterMs);
}

/** What a change says, without the class that it is made by. */
function plain({ leaseId, version, writer, key, moves, ...rest }: LeaseChange): LeaseChange {
  return { ...rest, leaseId, version, writer, key, moves };
}
