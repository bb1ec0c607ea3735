import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../../test/properties.ts";
import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import { availableMilli, type BucketState, findLimit, type LimitState } from "../../domain/bucket/bucket-state.ts";
import type { Ticket } from "../../domain/bucket/give-back.ts";
import { slotsOf } from "../../domain/bucket/slot-time.ts";
import type { AuditAction, AuditEvent } from "../../domain/config/audit.ts";
import type { Entity } from "../../domain/config/entity.ts";
import { MEMORY_RETENTION } from "../../domain/config/retention.ts";
import { Limit } from "../../domain/limits/limit.ts";
import { limitSet } from "../../domain/limits/limit-set.ts";
import type { BucketStore, Claim, InPlaceTakes, TakenAnswer } from "../../ports/bucket-store.ts";
import { addCredit, stateFor, stateForGiveBack, subtractClaim, takenAnswer } from "../../stored/bucket-rules.ts";
import { createCalendar } from "../system/calendar.ts";
import { systemTurns } from "../system/clock.ts";
import { openMemory } from "./store.ts";

const T0 = Date.UTC(2026, 2, 15, 12);
const calendar = createCalendar();
/** Of configuration, in a store that was just opened. */
const GENERATION = 1;
const bucket = bucketKey("a", "api");
const set = limitSet([Limit.perMinute("rpm", 60), Limit.perMinute("tpm", 6_000)]);
const origin = { asOfMs: T0, generation: null };

const ENTITY: Entity = {
  ...{ id: "a", name: "a", cascade: false, metadata: {} },
  ...{ version: 1, createdAtMs: T0, updatedAtMs: T0 },
};

function newBuckets(): InPlaceTakes & BucketStore {
  const { buckets } = openMemory(calendar, MEMORY_RETENTION, systemTurns).scope("default");
  return buckets as InPlaceTakes & BucketStore;
}

function claimOf(tokens: Record<string, number>): Claim {
  const take = Object.entries(tokens).map(([limit, count]) => ({ limit, milli: count * 1000 }));
  return { bucket, set, origin, take, bypass: false };
}

function levelOf(state: BucketState, name: string, atMs: number): number {
  return availableMilli(state, findLimit(state, name) as LimitState, atMs);
}

/** As of a plan: a take without a generation is that of a lease, and moves the epoch. */
const context = (nowMs: number) => ({ nowMs, timeoutMs: 1_000, generation: GENERATION, atomic: false });

test("a state that was handed out stays as it was when later takes write in place", async () => {
  const buckets = newBuckets();
  const one = claimOf({ rpm: 1 });
  for (let i = 0; i < 3; i++) buckets.takeOne(one, one.take, T0, undefined);
  const [read] = await buckets.read([bucket]);
  buckets.takeOne(one, one.take, T0, undefined);
  const answer = buckets.takeOne(one, one.take, T0, undefined);
  const after = answer?.state as BucketState;
  buckets.takeOne(one, one.take, T0, undefined);
  const listed = (await buckets.listByResource("api", { limit: 10 })).items[0]?.state as BucketState;
  buckets.takeOne(one, one.take, T0, undefined);
  const reply = await buckets.take([claimOf({ rpm: 60 })], context(T0));
  const refused = reply === "stale" ? undefined : reply[0];
  assert.equal(refused?.kind, "short");
  const other = claimOf({ rpm: 10, tpm: 500 });
  buckets.takeOne(other, other.take, T0, undefined);
  assert.equal(levelOf(read as BucketState, "rpm", T0), 57_000);
  assert.equal(levelOf(after, "rpm", T0), 55_000);
  assert.equal(levelOf(listed, "rpm", T0), 54_000);
  assert.equal(levelOf(refused.state, "rpm", T0), 53_000);
  const [now] = await buckets.read([bucket]);
  assert.equal(levelOf(now as BucketState, "rpm", T0), 43_000);
  assert.equal(levelOf(now as BucketState, "tpm", T0), 5_500_000);
});

test("a bucket that was deleted is not taken from by whoever found it before", async () => {
  const { buckets, entities } = openMemory(calendar, MEMORY_RETENTION, systemTurns).scope("default");
  const { takeOne } = buckets as InPlaceTakes & BucketStore;
  const event = (action: AuditAction): AuditEvent => ({
    eventId: action,
    atMs: T0,
    action,
    entityId: "a",
    details: {},
  });
  // Both are asked with again and again, as the links of a limiter are.
  const [one, other] = [claimOf({ rpm: 1 }), claimOf({ rpm: 1 })];
  const take = (by: Claim) => takeOne.call(buckets, by, by.take, T0, undefined);
  for (let round = 0; round < 3; round++) {
    await entities.create(ENTITY, event("entity_created"));
    for (let i = 0; i < 3; i++) for (const by of [one, other]) assert.notEqual(take(by), undefined);
    await entities.delete("a", event("entity_deleted"));
    assert.deepEqual(await buckets.read([bucket]), [undefined]);
    take(other);
    take(one);
    const [state] = await buckets.read([bucket]);
    assert.equal(levelOf(state as BucketState, "rpm", T0), 58_000);
    await entities.create(ENTITY, event("entity_created"));
    await entities.delete("a", event("entity_deleted"));
  }
});

test("amounts that are named in another order than the limits are taken of their own", async () => {
  const buckets = newBuckets();
  for (let i = 0; i < 3; i++) {
    const turned = claimOf({ tpm: 100, rpm: 2 });
    assert.notEqual(buckets.takeOne(turned, turned.take, T0, undefined), undefined);
  }
  const [state] = await buckets.read([bucket]);
  assert.equal(levelOf(state as BucketState, "rpm", T0), 54_000);
  assert.equal(levelOf(state as BucketState, "tpm", T0), 5_700_000);
});

test("when one of two amounts does not fit, neither is taken", async () => {
  const buckets = newBuckets();
  const [fits, exceeds] = [claimOf({ rpm: 10, tpm: 1_000 }), claimOf({ rpm: 1, tpm: 3_001 })];
  for (let i = 0; i < 3; i++) buckets.takeOne(fits, fits.take, T0, undefined);
  assert.equal(buckets.takeOne(exceeds, exceeds.take, T0, undefined), undefined);
  const [state] = await buckets.read([bucket]);
  assert.equal(levelOf(state as BucketState, "rpm", T0), 30_000);
  assert.equal(levelOf(state as BucketState, "tpm", T0), 3_000_000);
});

test("takes in place leave what the same takes leave otherwise, whoever looks in between", async () => {
  const step = fc.record({
    afterMs: fc.integer({ min: 0, max: 20_000 }),
    rpm: fc.integer({ min: 0, max: 30 }),
    tpm: fc.option(fc.integer({ min: 0, max: 3_000 }), { nil: undefined }),
    looks: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
      const [inPlace, plain] = [newBuckets(), newBuckets()];
      let nowMs = T0;
      for (const { afterMs, rpm, tpm, looks } of steps) {
        nowMs += afterMs;
        const claim = claimOf(tpm === undefined ? { rpm } : { rpm, tpm });
        const short = inPlace.takeOne(claim, claim.take, nowMs, undefined);
        const reply = await plain.take([claim], context(nowMs));
        assert.equal(short !== undefined, reply !== "stale" && reply[0]?.kind === "taken");
        if (looks) assert.deepEqual(await inPlace.read([bucket]), await plain.read([bucket]));
      }
      assert.deepEqual(await inPlace.read([bucket]), await plain.read([bucket]));
    }),
    { numRuns: 300 },
  );
});

test("slots that are taken and given back in place are those of the rules, whoever looks in between", async () => {
  const step = fc.record({
    afterMs: fc.integer({ min: 0, max: 9_000 }),
    rpm: fc.integer({ min: 0, max: 5 }),
    parallel: fc.option(fc.integer({ min: 0, max: 4 }), { nil: undefined }),
    more: fc.integer({ min: 0, max: 2 }),
    // One of the leases that are open then is settled before the take.
    settles: fc.option(fc.nat(), { nil: undefined }),
    looks: fc.boolean(),
  });
  const limits = [Limit.perMinute("rpm", 60), Limit.concurrent("parallel", 10), Limit.concurrent("more", 5)];
  const held = limitSet(limits);
  let settled = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const buckets = newBuckets();
      const open: { readonly claim: Claim; readonly ticket: Ticket }[] = [];
      const answers: { readonly answer: TakenAnswer; readonly state: BucketState; readonly ticket: Ticket }[] = [];
      let nowMs = T0;
      let state: BucketState | undefined;
      for (const { afterMs, settles, looks, ...tokens } of steps) {
        nowMs += afterMs;
        const at = { nowMs, calendar, generation: GENERATION, current: undefined, countsUsage: false };
        const [lease] = settles === undefined ? [] : open.splice(settles % Math.max(1, open.length), 1);
        if (lease !== undefined && state !== undefined) {
          const { claim, ticket } = lease;
          const slots = slotsOf(ticket, claim.take);
          const giving = { ...claim, ticket };
          const reply = await buckets.credit(giving, slots, { nowMs, timeoutMs: 1_000, slotsUsed: true });
          assert.equal(reply.kind, "applied");
          state = addCredit(stateForGiveBack(state, giving, at), giving, slots, nowMs);
          settled += slots.length;
        }
        const claim = { ...claimOf(given(tokens)), set: held };
        const answer = buckets.takeOne(claim, claim.take, nowMs, undefined);
        const before = stateFor(state, claim, at);
        const after = subtractClaim(before, claim, nowMs);
        assert.equal(answer !== undefined, after !== undefined);
        if (answer !== undefined && after !== undefined) {
          const { ticket } = takenAnswer(after, claim, at);
          open.push({ claim, ticket });
          answers.push({ answer, state: after, ticket });
          state = after;
        }
        if (looks && state !== undefined) assert.deepEqual(await buckets.read([bucket]), [state]);
      }
      if (state !== undefined) assert.deepEqual(await buckets.read([bucket]), [state]);
      // What a take answered is of that take, also when it is looked at later.
      for (const { answer, state: then, ticket } of answers) {
        assert.deepEqual(answer.state.limits, then.limits);
        assert.deepEqual(answer.ticket, ticket);
      }
    }),
    { numRuns: 300 },
  );
  assert.ok(settled > 1_000, `only ${settled} amounts were given back`);
});

function given(tokens: Record<string, number | undefined>): Record<string, number> {
  return Object.fromEntries(Object.entries(tokens).filter((one): one is [string, number] => one[1] !== undefined));
}
