import assert from "node:assert/strict";
import { test } from "node:test";
import { anyInstant, anyLimit, calendar, ODD_NUMBERS } from "../../../test/limits/kind-arbitraries.ts";
import { fc } from "../../../test/properties.ts";
import { type Limit, limitMakers } from "../limits/limit.ts";
import { type LimitSet, limitSet, type SetOrigin } from "../limits/limit-set.ts";
import { resetLimits, toppedUp } from "./bucket-operations.ts";
import { isIdle } from "./bucket-questions.ts";
import {
  acrossBoundaries,
  advanced,
  availableMilli,
  type BucketState,
  bucketFor,
  debitFrom,
  findLimit,
  type LimitState,
  takeFrom,
} from "./bucket-state.ts";
import { giveBack, type Ticket, ticketOf } from "./give-back.ts";

const Kinds = limitMakers(calendar);
const HOUR_MS = 3_600_000;
const origin = (generation: number): SetOrigin => ({ asOfMs: 0, generation });

function levelOf(state: BucketState, name: string, nowMs: number): number {
  const limit = findLimit(state, name);
  assert.ok(limit !== undefined, `the bucket has no limit ${name}`);
  return availableMilli(state, limit, nowMs);
}

/** Three limits of any kinds on one bucket; each has its windows in a zone of its own, which only configuration forbids. */
const anySet = fc
  .tuple(anyLimit("fine", ODD_NUMBERS), anyLimit("fine", ODD_NUMBERS), anyLimit("fine", ODD_NUMBERS))
  .map((limits) => limitSet(limits.map((limit, i) => ({ ...limit, name: `l${i}` }))));

const jumpMs = fc.oneof(
  fc.integer({ min: 0, max: 20 }),
  fc.integer({ min: 0, max: 90_000 }),
  fc.integer({ min: 0, max: 8 * HOUR_MS }),
);

test("until its boundary a bucket need not be brought forward: its levels are those it would have", () => {
  fc.assert(
    fc.property(anySet, anyInstant, jumpMs, fc.nat(1000), (set, fromMs, spentMs, thousandth) => {
      let state = bucketFor(undefined, { set, origin: origin(1) }, fromMs, calendar);
      const nowMs = fromMs + spentMs;
      state = bucketFor(state, { set, origin: origin(1) }, nowMs, calendar);
      const half = state.limits.map((limit) => ({
        limit: limit.name,
        milli: Math.floor(availableMilli(state, limit, nowMs) / 2),
      }));
      state = takeFrom(state, half, nowMs) ?? state;
      assert.ok(nowMs < state.validUntilMs);
      const endMs = Math.min(state.validUntilMs - 1, nowMs + 2 * HOUR_MS);
      const atMs = nowMs + Math.floor(((endMs - nowMs) * thousandth) / 1000);
      const moved = advanced(state, atMs, calendar);
      for (const { name, terms, quota } of state.limits) {
        assert.equal(levelOf(moved, name, atMs), levelOf(state, name, atMs));
        const after = findLimit(moved, name);
        assert.deepEqual([after?.terms, after?.quota], [terms, quota]);
      }
    }),
    { numRuns: 400 },
  );
});

test("whoever looks in meanwhile changes nothing, not by a millitoken, for any mix of kinds that share an epoch", () => {
  const story = fc.array(
    fc.record({
      jumpMs,
      lookMs: fc.option(jumpMs, { nil: undefined }),
      kind: fc.constantFrom("take", "take", "debit"),
      parts: fc.nat(700),
    }),
    { minLength: 2, maxLength: 15, size: "max" },
  );
  let apart = 0;
  fc.assert(
    fc.property(anySet, anyInstant, story, (set, fromMs, calls) => {
      const claim = { set, origin: origin(1) };
      let calm = bucketFor(undefined, claim, fromMs, calendar);
      let visited = calm;
      let nowMs = fromMs;
      for (const call of calls) {
        if (call.lookMs !== undefined)
          visited = advanced(visited, nowMs + Math.min(call.lookMs, call.jumpMs), calendar);
        nowMs += call.jumpMs;
        calm = bucketFor(calm, claim, nowMs, calendar);
        visited = bucketFor(visited, claim, nowMs, calendar);
        if (calm.epochMs !== visited.epochMs) apart++;
        const amounts = calm.limits.map(({ name, terms }) => ({
          limit: name,
          milli: Math.floor((terms.capacityMilli * call.parts) / 1000),
        }));
        const change = call.kind === "take" ? takeFrom : debitFrom;
        const [next, nextVisited] = [change(calm, amounts, nowMs), change(visited, amounts, nowMs)];
        assert.equal(next === undefined, nextVisited === undefined, "granted by one of them only");
        calm = next ?? calm;
        visited = nextVisited ?? visited;
        for (const { name } of set.limits)
          assert.equal(levelOf(visited, name, nowMs), levelOf(calm, name, nowMs), name);
      }
    }),
    { numRuns: 200 },
  );
  assert.ok(apart > 100, `the two buckets had different epochs only ${apart} times`);
});

interface Step {
  readonly kind: "take" | "take" | "debit" | "giveBack" | "topUp" | "reset" | "remove" | "sweep";
  readonly passMs: number;
  readonly behindMs: number;
  readonly parts: number;
}

const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.record({
    kind: fc.constantFrom("take", "take", "take", "debit", "giveBack", "giveBack", "topUp", "reset", "remove", "sweep"),
    passMs: fc.oneof(
      fc.integer({ min: 0, max: 60_000 }),
      fc.integer({ min: 0, max: 2 * HOUR_MS }),
      fc.integer({ min: 0, max: 3 * 24 * HOUR_MS }),
    ),
    // Clocks disagree, by less than the hour after which an idle bucket may be forgotten.
    behindMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: HOUR_MS - 1 })),
    parts: fc.oneof(fc.nat(1_000), fc.constant(1_000)),
  }),
  { minLength: 5, maxLength: 40, size: "max" },
);

interface Taken {
  readonly mark: Ticket;
  readonly period: string;
  milli: number;
}

/** The ledger of one quota: what each period granted, told by the calendar alone. */
class Ledger {
  readonly #limit: Limit;
  readonly #capacityMilli: number;
  #current = "";
  #openedMs: number | undefined;
  #periods = 0;
  #netMilli = 0;
  #boughtMilli = 0;

  constructor(limit: Limit, capacityMilli: number) {
    this.#limit = limit;
    this.#capacityMilli = capacityMilli;
  }

  /** The period that an instant lies in; a session that is not open has none, and its next use begins one. */
  at(timeMs: number, uses: boolean): string {
    const { reset, resetAfterMs } = this.#limit;
    if (reset !== undefined) return this.#enter(`${calendar.previousReset(reset.cron, reset.tz ?? "UTC", timeMs)}`);
    const opened = this.#openedMs;
    if (opened !== undefined && timeMs < opened + (resetAfterMs ?? 0)) return this.#current;
    if (opened !== undefined || !uses) this.#enter("closed");
    this.#openedMs = uses ? timeMs : undefined;
    return uses ? this.#enter(`open ${++this.#periods}`) : this.#current;
  }

  beginAnew(): void {
    this.#openedMs = undefined;
    this.#enter(`by hand ${++this.#periods}`);
  }

  /** `period` says where it was taken; it counts only while that one lasts. */
  count(milli: number, period: string): void {
    if (period === this.#current) this.#netMilli += milli;
  }

  bought(milli: number): void {
    this.#boughtMilli += milli;
  }

  check(): void {
    const bound = this.#capacityMilli + this.#boughtMilli;
    assert.ok(this.#netMilli <= bound, `${this.#netMilli} of ${bound} millitokens granted in one period`);
  }

  // A calendar period goes on until the calendar says otherwise, even if an operator began anew within it.
  #begunBy = "";
  #enter(period: string): string {
    if (period === this.#begunBy) return this.#current;
    if (!period.startsWith("by hand")) this.#begunBy = period;
    this.#current = period;
    this.#netMilli = 0;
    this.#boughtMilli = 0;
    return period;
  }
}

test("between two resets a quota grants its capacity and what was bought, whatever is given back, removed, reset or swept, and whatever the clocks", () => {
  const quotas: fc.Arbitrary<Limit> = fc
    .tuple(
      fc.constantFrom("daily", "hourly", "monthly", "session", "long session"),
      fc.integer({ min: 1, max: 500 }),
      fc.boolean(),
    )
    .map(([kind, capacity, windows]) => {
      const tz = "America/New_York";
      const schedule = windows ? [{ cron: "0-29 * * * *", tz, scale: 0.5 }] : [];
      if (kind === "session") return Kinds.quota("q", capacity, { resetAfterMs: HOUR_MS, schedule });
      if (kind === "long session") return Kinds.quota("q", capacity, { resetAfterMs: 30 * HOUR_MS, schedule });
      const cron = { daily: "30 1 * * *", hourly: "0 * * * *", monthly: "0 0 1 * *" }[kind] ?? "0 0 * * *";
      return Kinds.quota("q", capacity, { reset: { cron, tz }, schedule });
    });
  let grants = 0;
  let late = 0;
  fc.assert(
    fc.property(quotas, anyInstant, steps, (quota, startMs, story) => {
      const beside = Kinds.perMinute("rpm", 60);
      const [both, without] = [limitSet([quota, beside]), limitSet([beside])];
      const capacityMilli = quota.capacity * 1000;
      const ledger = new Ledger(quota, capacityMilli);
      const taken: Taken[] = [];
      let state: BucketState | undefined;
      let trueMs = startMs;
      let generation = 1;
      const bring = (set: LimitSet, nowMs: number): BucketState =>
        bucketFor(state, { set, origin: origin(generation) }, nowMs, calendar);
      for (const { kind, passMs, behindMs, parts } of story) {
        trueMs += passMs;
        const nowMs = trueMs - behindMs;
        if (kind === "sweep") {
          if (state !== undefined && isIdle(state, HOUR_MS, trueMs, calendar)) state = undefined;
          continue;
        }
        if (kind === "remove") {
          generation++;
          state = bring(without, nowMs);
          generation++;
          continue;
        }
        if (kind === "giveBack") {
          // The newest as often as the oldest, which is seldom of this period.
          const held = taken.filter(({ milli }) => milli > 0);
          const one = parts % 2 === 0 ? held.at(-1) : held[0];
          if (one === undefined || state === undefined) continue;
          state = acrossBoundaries(state, nowMs, calendar);
          const milli = Math.ceil((one.milli * parts) / 1000);
          one.milli -= milli;
          if (ledger.at(Math.max(nowMs, state.epochMs), false) !== one.period) late++;
          ledger.count(-milli, one.period);
          state = giveBack(state, [{ limit: "q", milli }], one.mark, nowMs);
          continue;
        }
        state = bring(both, nowMs);
        const timeMs = Math.max(nowMs, state.epochMs);
        const held = findLimit(state, "q") as LimitState;
        const level = availableMilli(state, held, nowMs);
        if (kind === "reset") {
          state = resetLimits(state, ["q"], nowMs, calendar);
          ledger.at(timeMs, false);
          ledger.beginAnew();
        } else if (kind === "topUp") {
          const milli = 1000 * (1 + (parts % 50));
          ledger.at(timeMs, true);
          ledger.bought(milli);
          state = bought(state, milli, nowMs);
        } else {
          // All there is, as often as a part of it: that finds whatever was minted.
          const milli = Math.max(1, Math.floor((Math.max(0, level) * parts) / 1000) + (kind === "debit" ? 500 : 0));
          const amounts = [{ limit: "q", milli }];
          const after: BucketState | undefined =
            kind === "debit" ? debitFrom(state, amounts, nowMs) : takeFrom(state, amounts, nowMs);
          if (after === undefined) continue;
          state = after;
          const period = ledger.at(timeMs, true);
          ledger.count(milli, period);
          taken.push({ mark: ticketOf(state, amounts, nowMs, calendar), period, milli });
          if (kind === "debit") continue;
          ledger.check();
          grants++;
        }
      }
    }),
    { numRuns: 1_000 },
  );
  assert.ok(grants > 3_000 && late > 300, `${grants} grants, ${late} late give-backs: too poor to show anything`);
});

test("what was given back over the brim is not brought back by a top-up", () => {
  const quota = Kinds.quota("q", 100, {
    reset: { cron: "0 0 * * *" },
    schedule: [{ cron: "* 13 * * *", capacity: 50 }],
  });
  const claim = { set: limitSet([quota]), origin: origin(1) };
  const noonMs = Date.UTC(2026, 2, 15, 12);
  const all = [{ limit: "q", milli: 100_000 }];
  const spent = takeFrom(bucketFor(undefined, claim, noonMs, calendar), all, noonMs);
  assert.ok(spent !== undefined);
  const mark = ticketOf(spent, all, noonMs, calendar);
  // At one the quota holds fifty: of the hundred that come back, the rest flows off.
  const oneMs = noonMs + HOUR_MS;
  const over = giveBack(acrossBoundaries(spent, oneMs, calendar), all, mark, oneMs);
  const more = bought(over, 10_000, oneMs);
  assert.equal(levelOf(more, "q", oneMs), 60_000);
  const twoMs = oneMs + HOUR_MS;
  assert.equal(levelOf(bucketFor(more, claim, twoMs, calendar), "q", twoMs), 60_000);
});

test("a drip that is a quota now and then keeps the fractions that had dripped in", () => {
  const drip = limitSet([Kinds.custom("rpm", { capacity: 10, refillAmount: 1, refillPeriodMs: 7_000 })]);
  const quota = limitSet([Kinds.quota("rpm", 10, { reset: { cron: "0 0 1 1 *" } })]);
  let state = debitFrom(
    bucketFor(undefined, { set: drip, origin: origin(1) }, 0, calendar),
    [{ limit: "rpm", milli: 9_000 }],
    0,
  ) as BucketState;
  // In four milliseconds four sevenths of a millitoken drip in; thirty-five times that is twenty.
  let nowMs = 0;
  for (let times = 0; times < 35; times++) {
    const changed = bucketFor(state, { set: quota, origin: origin(2 + 2 * times) }, nowMs + 4, calendar);
    nowMs += 4 + 60_000;
    state = bucketFor(changed, { set: drip, origin: origin(3 + 2 * times) }, nowMs, calendar);
  }
  const dripped = levelOf(state, "rpm", nowMs) - 1_000;
  assert.ok(dripped >= 19 && dripped <= 20, `${dripped}`);
});

test("what was taken before a reset by hand is not given back when the limit was left out and returns", () => {
  const tpm = Kinds.perMinute("tpm", 10);
  const rpd = Kinds.quota("rpd", 32, { reset: { cron: "30 2 * * *" } });
  const newer = { set: limitSet([tpm]), origin: { asOfMs: 20, generation: null } };
  const older = { set: limitSet([tpm, rpd]), origin: { asOfMs: 10, generation: null } };
  const nowMs = Date.UTC(2026, 2, 15, 12);
  let state = bucketFor(undefined, newer, nowMs, calendar);
  state = bucketFor(state, older, nowMs + 1, calendar);
  const take = [{ limit: "rpd", milli: 1_000 }];
  state = takeFrom(state, take, nowMs + 1) as BucketState;
  const mark = ticketOf(state, take, nowMs + 1, calendar);
  state = resetLimits(state, undefined, nowMs + 2, calendar);
  // Full, it is remembered to the end of its period all the same: its count tells takes from before the reset.
  state = bucketFor(
    state,
    { set: limitSet([Kinds.perMinute("tpm", 11)]), origin: { asOfMs: 30, generation: null } },
    nowMs + 3,
    calendar,
  );
  assert.equal(findLimit(state, "rpd")?.configured, false);
  state = bucketFor(state, older, nowMs + 4, calendar);
  state = takeFrom(state, [{ limit: "rpd", milli: 32_000 }], nowMs + 4) as BucketState;
  assert.equal(levelOf(giveBack(state, take, mark, nowMs + 5), "rpd", nowMs + 5), 0);
});

/** After so much was bought of the quota `q`. */
function bought(state: BucketState, milli: number, nowMs: number): BucketState {
  const topped = toppedUp(state, [{ limit: "q", milli }], nowMs, calendar);
  assert.equal(topped.kind, "toppedUp");
  return topped.kind === "toppedUp" ? topped.state : state;
}
