import assert from "node:assert/strict";
import { openMemory } from "../../src/adapters/memory/store.ts";
import { createCalendar } from "../../src/adapters/system/calendar.ts";
import { systemTurns } from "../../src/adapters/system/clock.ts";
import { systemDigest } from "../../src/adapters/system/random.ts";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import {
  acrossBoundaries,
  availableMilli,
  type BucketState,
  type LimitState,
} from "../../src/domain/bucket/bucket-state.ts";
import { PLAIN_TICKET } from "../../src/domain/bucket/give-back.ts";
import type { Amount } from "../../src/domain/charge/amounts.ts";
import { FILE_RETENTION } from "../../src/domain/config/retention.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { limitSet } from "../../src/domain/limits/limit-set.ts";
import type { BatchStore } from "../../src/ports/batch-store.ts";
import type {
  Answer,
  BucketStore,
  Claim,
  Held,
  RenewReply,
  TakeReply,
  WriteReply,
} from "../../src/ports/bucket-store.ts";
import type { LaneParts } from "../../src/straight/lane.ts";
import { StraightTakes } from "../../src/straight/takes.ts";
import type { SeededRandom } from "../../src/testing/random.ts";
import { Kinds } from "../kit/contract-kit.ts";

// Random calls on the buckets of a batch store and on those of memory, which works each out by `domain/`: the same answers, and the
// same levels after each.

export const calendar = createCalendar();
const T0 = Date.UTC(2026, 2, 15, 11, 30);
const HOUR_MS = 3_600_000;

/** Buckets of the namespace `default` on a batch store, as a process has them. */
export function bucketsOn(
  store: BatchStore,
  random: SeededRandom,
  options: {
    readonly coalesce: boolean;
    readonly onAnswer?: LaneParts["onAnswer"];
    readonly clock?: LaneParts["clock"];
    /** Called when stored configuration is read, of which there is none. */
    readonly onRead?: (() => void) | undefined;
  },
): BucketStore {
  const takes = new StraightTakes({
    store,
    turns: systemTurns,
    waiting: realWaiting,
    calendar,
    digest: systemDigest,
    random,
    laneCount: 3,
    countsUsage: true,
    coalesce: options.coalesce,
    clock: options.clock,
    onAnswer: options.onAnswer ?? (() => {}),
    requireOpen: () => {},
  });
  return takes.bucketsOf("default", {
    generation: () => 1,
    isUnchanged: () => false,
    resolve: () => {
      options.onRead?.();
      return Promise.reject(new Error("Nothing is stored."));
    },
  });
}

export const realWaiting = {
  steadyMs: () => Math.floor(performance.now()),
  after: (ms: number, work: () => void) => {
    const timer = setTimeout(work, ms);
    return () => clearTimeout(timer);
  },
};

const SETS: readonly (readonly Limit[])[] = [
  [Limit.perMinute("rpm", 10)],
  [Limit.perMinute("rpm", 12), Limit.perMinute("tpm", 10_000)],
  [Limit.perMinute("tpm", 9_000), { ...Limit.perMinute("rpm", 7), soft: true }],
  [Limit.quota("day", 50, { resetAfterMs: 5 * HOUR_MS }), Limit.perSecond("rps", 3)],
  [Kinds.quota("month", 40, { reset: { cron: "0 * * * *" } }), { ...Limit.perMinute("rpm", 3), soft: true }],
  [{ name: "huge", capacity: 4_000_000_000_000, refillAmount: 3_999_999_999_999, refillPeriodMs: 86_400_000 }],
  [Limit.concurrent("slots", 5, { holdMs: 20_000 }), Limit.perMinute("rpm", 12)],
  [
    Limit.perMinute("rpm", 12),
    Limit.concurrent("slots", 3, { holdMs: 20_000 }),
    Limit.concurrent("many", 2, { holdMs: 4_000, soft: true }),
  ],
  [Limit.perMinute("slots", 9), Limit.concurrent("rpm", 4, { holdMs: 61_000 })],
  [{ name: "odd", capacity: 7, refillAmount: 3, refillPeriodMs: 7_001 }, Limit.perHour("rph", 100)],
];

interface Taken {
  readonly claim: Claim;
  /** Each store has tickets of its own. */
  ticket: Held["ticket"];
  memorys: Held["ticket"];
  readonly left: Map<string, number>;
}

/** Runs so many random calls on both; throws where they differ. */
export async function sameAsMemory(
  random: SeededRandom,
  calls: number,
  processes: readonly BucketStore[],
  // A debit moves the epoch of memory, and what a clock behind it sees: with several clocks there are none. Nor are slots: a slice that is
  // opened for a request that is refused moves the epoch of a row.
  clocks: "one" | "several",
): Promise<void> {
  const sets = clocks === "one" ? SETS : SETS.filter((set) => set.every(({ holdMs }) => holdMs === undefined));
  const memory = openMemory(calendar, FILE_RETENTION, systemTurns).scope("default").buckets;
  const entities = ["a", "b", "c d", 'q"\\{}'];
  let nowMs = T0;
  let generation = 1;
  const setOf = new Map<string, number>();
  const held: Taken[] = [];
  for (let call = 0; call < calls; call++) {
    if (random.chance(0.7)) {
      nowMs += random.weighted([
        [5, random.integer(0, 50)],
        [4, random.integer(0, 20_000)],
        [1, random.integer(0, 2 * HOUR_MS)],
      ]);
    }
    const readingMs = clocks === "several" && random.chance(0.1) ? nowMs - random.integer(0, 3_000) : nowMs;
    const store = random.pick(processes);
    const used = new Map<string, Pick<Claim, "set" | "origin">>();
    const claimOf = (): Claim => {
      const bucket = bucketKey(random.pick(entities), random.pick(["api", "x"]));
      if (random.chance(0.03)) {
        generation++;
        setOf.set(bucket.id, random.integer(0, sets.length - 1));
      }
      const current = setOf.get(bucket.id) ?? bucket.id.length % sets.length;
      const isOlder = random.chance(0.03);
      const own = used.get(bucket.id) ?? {
        set: limitSet(sets[isOlder ? random.integer(0, sets.length - 1) : current] as readonly Limit[]),
        origin: isOlder ? { asOfMs: T0 - 5, generation: 0 } : { asOfMs: T0, generation },
      };
      used.set(bucket.id, own);
      const { set, origin } = own;
      const named = set.limits.filter(() => random.chance(0.8));
      const take = named.map(({ name, capacity }) => ({
        limit: name,
        milli: random.weighted([
          [6, 1000 * random.integer(0, Math.max(1, Math.floor(capacity / 4)))],
          [2, 1000],
          [1, 0],
          [1, random.integer(0, 5_000)],
        ]),
      }));
      const hold = random.chance(0.3) ? { holdMs: random.pick([1_000, 5_000, 15_000, 100_000]) } : {};
      return { bucket, set, origin, take, bypass: random.chance(0.05), ...hold };
    };
    const context = { nowMs: readingMs, timeoutMs: 30_000 };
    const kind = random.weighted<"take" | "debit" | "credit" | "renew">([
      [10, "take"],
      [held.length === 0 || clocks === "several" ? 0 : 3, "renew"],
      [clocks === "one" ? 2 : 0, "debit"],
      [held.length === 0 ? 0 : 5, "credit"],
    ]);
    if (kind === "take") {
      const claims = Array.from({ length: random.integer(1, 4) }, claimOf);
      const by = { ...context, generation: clocks === "several" || random.chance(0.8) ? 1 : undefined, atomic: true };
      const [expected, found] = [await memory.take(claims, by), await store.take(claims, by)];
      compare(`call ${call}: take`, told(expected, readingMs), told(found, readingMs));
      if (found === "stale") continue;
      for (const [i, answer] of found.entries()) {
        const claim = claims[i] as Claim;
        const other = (expected as readonly Answer[])[i];
        if (answer.kind !== "taken" || other?.kind !== "taken") continue;
        held.push({
          claim,
          ticket: answer.ticket,
          memorys: other.ticket,
          left: new Map(claim.take.map(({ limit, milli }) => [limit, milli])),
        });
      }
    } else if (kind === "debit") {
      const claim = claimOf();
      const of = { ...claim, ticket: PLAIN_TICKET };
      // Nobody owes slots.
      const take = claim.take.filter(({ limit }) => !isEverHeld(limit));
      const [expected, found] = [await memory.debit(of, take, context), await store.debit(of, take, context)];
      compare(`call ${call}: debit`, toldWrite(expected, readingMs), toldWrite(found, readingMs));
    } else if (kind === "renew") {
      const one = random.pick(held);
      const amounts: Amount[] = [...one.left].map(([limit, milli]) => ({ limit, milli }));
      const renewed = amounts.filter(({ limit, milli }) => milli > 0 && isEverHeld(limit));
      const of = { ...one.claim, ticket: one.ticket };
      const [expected, found] = [
        await memory.renew({ ...of, ticket: one.memorys }, renewed, context),
        await store.renew(of, renewed, context),
      ];
      compare(`call ${call}: renew`, toldRenewal(expected), toldRenewal(found));
      if (found.kind !== "renewed" || expected.kind !== "renewed") continue;
      // Of the rest of the lease the ticket stays.
      one.ticket = withPins(one.ticket, found.ticket);
      one.memorys = withPins(one.memorys, expected.ticket);
    } else {
      const one = random.pick(held);
      const amounts: Amount[] = [...one.left].map(([limit, milli]) => ({ limit, milli: random.integer(0, milli) }));
      for (const { limit, milli } of amounts) one.left.set(limit, (one.left.get(limit) as number) - milli);
      const of = { ...one.claim, ticket: one.ticket };
      const back = random.chance(0.5) ? { ...context, slotsUsed: true as const } : context;
      const [expected, found] = [
        await memory.credit({ ...of, ticket: one.memorys }, amounts, back),
        await store.credit(of, amounts, back),
      ];
      compare(`call ${call}: credit`, toldWrite(expected, readingMs), toldWrite(found, readingMs));
    }
  }
}

function compare(what: string, expected: unknown, found: unknown): void {
  assert.deepEqual(found, expected, what);
}

function told(reply: TakeReply, nowMs: number): unknown {
  if (reply === "stale") return reply;
  return reply.map((answer: Answer) => {
    if (answer.kind === "unavailable") throw answer.cause;
    if (answer.kind === "unseen") return answer.kind;
    const { kind, state } = answer;
    return { kind, ...levels(state, nowMs), ...(answer.kind === "taken" ? { ticket: ticket(answer.ticket) } : {}) };
  });
}

function toldWrite(reply: WriteReply, nowMs: number): unknown {
  if (reply.kind === "unavailable") throw reply.cause;
  return reply.kind === "applied"
    ? { kind: reply.kind, ticket: reply.ticket && ticket(reply.ticket), ...levels(reply.state, nowMs) }
    : reply;
}

/** Whether a limit of the name is one of so many at once in any of the sets. */
function isEverHeld(limit: string): boolean {
  return SETS.some((set) => set.some(({ name, holdMs }) => name === limit && holdMs !== undefined));
}

function withPins(before: Held["ticket"], { pins }: Held["ticket"]): Held["ticket"] {
  const others = before.pins.filter(({ limit }) => !pins.some((pin) => pin.limit === limit));
  return { ...before, pins: [...others, ...pins] };
}

function toldRenewal(reply: RenewReply): unknown {
  if (reply.kind === "unavailable") throw reply.cause;
  return reply.kind === "renewed" ? { kind: reply.kind, ticket: ticket(reply.ticket) } : reply;
}

// What it holds, not how it is written down: a debit moves the epoch of memory, and the note of a row; what is let through by a bypass
// moves none, so that one store may be across a boundary and the other not.
function levels(found: BucketState, nowMs: number): object {
  const state = { ...acrossBoundaries(found, nowMs, calendar), untouched: found.untouched };
  return {
    untouched: state.untouched,
    signature: state.signature,
    limits: state.limits.map((limit) => [
      limit.name,
      availableMilli(state, limit, nowMs),
      marks(limit.quota),
      limit.configured,
      slots(limit, nowMs),
    ]),
  };
}

// By which number periods are told apart is the store's own business.
function marks(quota: LimitState["quota"]): unknown {
  return quota && { windowStartMs: quota.windowStartMs, topUpMilli: quota.topUpMilli };
}

// Slices in which nothing is held are there in one store and not in the other, and so are places; a limit that is of another kind
// meanwhile has those that are over until something else happens to it.
function slots({ slices }: LimitState, nowMs: number): unknown {
  return slices
    .filter(({ heldMilli, endMs }) => heldMilli > 0 && endMs > nowMs)
    .map(({ endMs, heldMilli }) => [endMs, heldMilli])
    .sort(([a = 0], [b = 0]) => a - b);
}

function ticket({ pins, ...rest }: Held["ticket"]): unknown {
  return {
    ...rest,
    pins: pins.map(({ resets: _, ...pin }) => ("place" in pin ? { ...pin, place: 0 } : pin)),
  };
}
