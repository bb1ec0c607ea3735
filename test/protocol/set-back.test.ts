import assert from "node:assert/strict";
import { test } from "node:test";
import { limitMakers } from "../../src/domain/limit.ts";
import { claim, DAY_MS, HOUR_MS, T0 } from "../../src/testing/contract-kit.ts";
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

test("what a clock ahead took of tomorrow's quota comes back tomorrow", async () => {
  const { clock, ahead, knowing, ticket } = await setBack();
  clock.set(T0 + DAY_MS + HOUR_MS);
  assert.ok(await knowing.grants(all, clock.now()));
  await ahead.giveBack(six, ticket, { day: 6 }, clock.now());
  assert.ok(await knowing.grants(six, clock.now()));
  assert.equal(await knowing.grants(one, clock.now()), false);
});
