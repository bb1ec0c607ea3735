import assert from "node:assert/strict";
import { test } from "node:test";
import { type Limit, limitMakers } from "../../src/domain/limits/limit.ts";
import { claim, DAY_MS, HOUR_MS, T0 } from "../kit/contract-kit.ts";
import { calendar } from "../limits/kind-arbitraries.ts";
import { Cluster } from "./kit.ts";

const Kinds = limitMakers(calendar);
const limits = [Kinds.quota("day", 10, { reset: { cron: "0 0 * * *" } })];
const all = claim("ada", limits, { day: 10 });
const six = claim("ada", limits, { day: 6 });
const one = claim("ada", limits, { day: 1 });
const none = claim("ada", limits, { day: 0 });

/** Everything is taken today; then a clock that is a day ahead takes of tomorrow, and the epoch is set back to today. */
async function setBack() {
  const cluster = new Cluster();
  const ahead = await cluster.open();
  cluster.clock.set(T0);
  const { clock } = cluster;
  const serverTime = { isKnown: () => true, latestMs: () => clock.now() };
  const knowing = await cluster.open({ coalesce: false, serverTime });
  assert.ok(await knowing.place.grants(all, T0));
  const ticket = await ahead.place.ticket(six, T0 + DAY_MS);
  assert.ok(await knowing.place.grants(none, T0));
  return { clock, ahead: ahead.place, knowing: knowing.place, ticket };
}

test("what a clock ahead took of tomorrow's quota is not given back into today's", async () => {
  const { ahead, knowing, ticket } = await setBack();
  await ahead.giveBack(six, ticket, { day: 6 }, T0 + HOUR_MS);
  assert.equal(await knowing.grants(one, T0 + HOUR_MS), false);
});

test("what a clock ahead took of tomorrow's quota does not come on top of tomorrow's, which is full when it begins", async () => {
  const { clock, ahead, knowing, ticket } = await setBack();
  clock.set(T0 + DAY_MS + HOUR_MS);
  assert.ok(await knowing.grants(all, clock.now()));
  await ahead.giveBack(six, ticket, { day: 6 }, clock.now());
  assert.equal(await knowing.grants(one, clock.now()), false);
});

/** A bucket of one limit that a clock which is ahead took one token from, after a right one; its epoch was set back by the right one. */
async function takenAhead(limit: Limit, amount: number, aheadMs: number) {
  const cluster = new Cluster();
  const ahead = await cluster.open();
  cluster.clock.set(T0);
  const { clock } = cluster;
  const serverTime = { isKnown: () => true, latestMs: () => clock.now() };
  const knowing = await cluster.open({ coalesce: false, serverTime });
  const take = (milli: number) => claim("ada", [limit], { [limit.name]: milli });
  const right = await knowing.place.ticket(take(amount), T0);
  const wrong = await ahead.place.ticket(take(1), T0 + aheadMs);
  assert.ok(await knowing.place.grants(take(0), T0 + 2_000));
  return { clock, place: knowing.place, take, right, wrong };
}

test("a session is not full again because a clock was ahead of the end of its window", async () => {
  const session = Kinds.quota("run", 10, { resetAfterMs: HOUR_MS });
  const { clock, place, take, right, wrong } = await takenAhead(session, 10, 2 * HOUR_MS);
  assert.equal(await place.grants(take(1), T0 + 3_000), false);
  await place.giveBack(take(1), wrong, { run: 1 }, T0 + 4_000);
  await place.giveBack(take(10), right, { run: 10 }, T0 + 4_000);
  assert.equal(await place.grants(take(1), T0 + 5_000), false, "what the other windows gave comes back to this one");
  clock.set(T0 + HOUR_MS + 2_000);
  assert.ok(await place.grants(take(10), clock.now()), "empty for longer than a window lasts");
});

test("a session that a clock was ahead in goes on in its window, with what comes back", async () => {
  const session = Kinds.quota("run", 10, { resetAfterMs: HOUR_MS });
  const { place, take, right, wrong } = await takenAhead(session, 9, HOUR_MS / 2);
  assert.equal(await place.grants(take(1), T0 + 3_000), false);
  await place.giveBack(take(1), wrong, { run: 1 }, T0 + 4_000);
  await place.giveBack(take(9), right, { run: 9 }, T0 + 4_000);
  assert.ok(await place.grants(take(10), T0 + 5_000));
});

test("a quota is not emptied because a clock was ahead of a window of its schedule", async () => {
  const schedule = [{ cron: `* ${new Date(T0 + HOUR_MS).getUTCHours()} * * *`, scale: 2 }];
  const daily = Kinds.quota("day", 10, { reset: { cron: "0 0 * * *" }, schedule });
  const { place, take, wrong } = await takenAhead(daily, 3, HOUR_MS);
  await place.giveBack(take(1), wrong, { day: 1 }, T0 + 3_000);
  assert.ok(await place.grants(take(7), T0 + 4_000));
  assert.equal(await place.grants(take(1), T0 + 5_000), false);
});

test("a slot that ended by a clock ahead, and was taken by it, is freed by its own end only", async () => {
  // Of a length at which what is held on ends just when the ticket of before says.
  const alone = Kinds.concurrent("alone", 1, { holdMs: 44_000 });
  const { clock, place, take, right, wrong } = await takenAhead(alone, 1, 120_000);
  await place.giveBack(take(1), right, { alone: 1 }, T0 + 3_000);
  assert.equal((await place.renew(take(1), right, { alone: 1 }, T0 + 3_000)).kind, "lost");
  assert.equal((await place.renew(take(1), wrong, { alone: 1 }, T0 + 3_000)).kind, "lost");
  assert.equal(await place.grants(take(1), T0 + 4_000), false, "one who was told of another beginning freed it");
  clock.set(T0 + 46_000);
  assert.ok(
    await place.grants(take(1), clock.now()),
    "held for longer than a hold that began when the epoch was set back",
  );
});
