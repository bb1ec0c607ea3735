import assert from "node:assert/strict";
import { joinedTicket, type Ticket } from "../../src/domain/bucket/give-back.ts";
import type { Tokens } from "../../src/domain/charge/amounts.ts";
import { storedTicket, ticketFrom } from "../../src/domain/lease/stored-ticket.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import type { Claim } from "../../src/ports/bucket-store.ts";
import { amountsOf, claim, HOUR_MS, kinds, type Suite, T0, type TestedNamespace } from "./contract-kit.ts";

const HOLD_MS = 60_000;
const two = [Limit.concurrent("parallel", 2, { holdMs: HOLD_MS })];
const mixed = [Limit.perMinute("rpm", 10), Limit.concurrent("parallel", 2, { holdMs: HOLD_MS })];

function one(entityId = "a", limits: readonly Limit[] = two): Claim {
  return claim(entityId, limits, { parallel: 1 });
}

async function renewed(place: TestedNamespace, of: Claim, ticket: Ticket, tokens: Tokens, nowMs: number) {
  const reply = await place.renew(of, ticket, tokens, nowMs);
  assert.ok(reply.kind === "renewed", `the renewal was answered with ${reply.kind}`);
  return reply.ticket;
}

/** At most so many at once: what is taken is held until it is given back, or its time is up. */
export function holdsContract(suite: Suite): void {
  suite.test("at most N are at once, and who gives back lets another in", async (place) => {
    const first = await place.ticket(one(), T0);
    assert.equal(await place.grants(one(), T0 + 1), true);
    assert.equal(await place.grants(one(), T0 + 2), false);
    assert.equal((await place.settle(one(), first, { parallel: 1 }, T0 + 3)).kind, "applied");
    assert.equal(await place.holds(one(), "parallel", T0 + 3), 1_000);
    assert.equal(await place.grants(one(), T0 + 4), true);
    assert.equal(await place.grants(one(), T0 + 5), false);
  });

  suite.test("amounts are weights", async (place) => {
    const ten = [Limit.concurrent("parallel", 10)];
    const seven = await place.ticket(claim("a", ten, { parallel: 7 }), T0);
    assert.equal(await place.grants(claim("a", ten, { parallel: 4 }), T0), false);
    assert.equal(await place.grants(claim("a", ten, { parallel: 3 }), T0), true);
    await place.settle(claim("a", ten, {}), seven, { parallel: 2 }, T0 + 1);
    assert.equal(await place.holds(claim("a", ten, {}), "parallel", T0 + 1), 2_000);
    await place.settle(claim("a", ten, {}), seven, { parallel: 5 }, T0 + 2);
    assert.equal(await place.holds(claim("a", ten, {}), "parallel", T0 + 2), 7_000);
  });

  suite.test("who dies is gone when its time is up, and at the latest a quarter of it later", async (place) => {
    await place.take([claim("a", two, { parallel: 2 })], T0);
    assert.equal(await place.grants(one(), T0 + HOLD_MS - 1), false);
    assert.equal(await place.grants(claim("a", two, { parallel: 2 }), T0 + HOLD_MS), true);
    // Slices end every quarter of a minute: this one is held until the next such end after its minute.
    await place.take([claim("b", two, { parallel: 2 })], T0 + 1);
    assert.equal(await place.grants(one("b"), T0 + 74_999), false);
    assert.equal(await place.grants(one("b"), T0 + 75_000), true);
  });

  suite.test("each hold ends by itself, whenever others began", async (place) => {
    await place.take([one()], T0);
    await place.take([one()], T0 + 30_000);
    assert.equal(await place.grants(one(), T0 + 59_999), false);
    assert.equal(await place.grants(one(), T0 + 60_000), true);
    assert.equal(await place.grants(one(), T0 + 89_999), false);
    assert.equal(await place.grants(one(), T0 + 90_000), true);
  });

  suite.test("a give-back that comes too late frees nobody else's slot", async (place) => {
    const late = await place.ticket(one(), T0);
    await place.take([one()], T0);
    // Both have ended; two others have the slots.
    await place.take([claim("a", two, { parallel: 2 })], T0 + HOLD_MS);
    await place.settle(one(), late, { parallel: 1 }, T0 + HOLD_MS + 1);
    assert.equal(await place.holds(one(), "parallel", T0 + HOLD_MS + 1), 0);
    assert.equal(await place.grants(one(), T0 + HOLD_MS + 2), false);
  });

  suite.test("a hold that is renewed goes on, and ends by its last renewal", async (place) => {
    const first = await place.ticket(claim("a", two, { parallel: 2 }), T0);
    const second = await renewed(place, one(), first, { parallel: 2 }, T0 + 40_000);
    assert.equal(await place.grants(one(), T0 + 60_000), false);
    const third = await renewed(place, one(), second, { parallel: 2 }, T0 + 80_000);
    assert.equal(await place.grants(one(), T0 + 149_999), false);
    // Renewed after 80 s, for a minute: it ends with the slice at 150 s.
    assert.equal((await place.renew(one(), third, { parallel: 2 }, T0 + 150_000)).kind, "lost");
    assert.equal(await place.grants(one(), T0 + 150_000), true);
  });

  suite.test("what was renewed is given back with the new ticket, and not with the old one", async (place) => {
    const old = await place.ticket(one(), T0);
    await place.take([one()], T0);
    const now = await renewed(place, one(), old, { parallel: 1 }, T0 + 20_000);
    await place.settle(one(), now, { parallel: 1 }, T0 + 20_001);
    assert.equal(await place.holds(one(), "parallel", T0 + 20_001), 1_000);
    await place.take([one()], T0 + 20_002);
    // Its first slice is over.
    await place.settle(one(), old, { parallel: 1 }, T0 + 60_000);
    assert.equal(await place.holds(one(), "parallel", T0 + 60_000), 1_000);
  });

  suite.test("part of a hold can be renewed, and of more than is held nothing", async (place) => {
    const ticket = await place.ticket(claim("a", two, { parallel: 2 }), T0);
    assert.equal((await place.renew(one(), ticket, { parallel: 3 }, T0 + 30_000)).kind, "lost");
    await renewed(place, one(), ticket, { parallel: 1 }, T0 + 30_000);
    assert.equal(await place.holds(one(), "parallel", T0 + 60_000), 1_000);
    assert.equal(await place.holds(one(), "parallel", T0 + 90_000), 2_000);
  });

  suite.test("several holds are renewed together, all of them or none", async (place) => {
    const ten = [Limit.concurrent("parallel", 10)];
    const of = claim("a", ten, { parallel: 1 });
    const parts = [];
    for (const afterMs of [0, 10_000, 20_000]) {
      parts.push({ ticket: await place.ticket(of, T0 + afterMs), amounts: amountsOf({ parallel: 1 }) });
    }
    const joined = joinedTicket(parts);
    const after = await renewed(place, of, joined, { parallel: 3 }, T0 + 40_000);
    assert.equal(after.pins.length, 1, "they end together now");
    assert.equal(await place.holds(of, "parallel", T0 + 104_999), 7_000);
    assert.equal(await place.holds(of, "parallel", T0 + 105_000), 10_000);
    // One of these two has ended.
    const ended = { ticket: await place.ticket(of, T0 + 110_000), amounts: amountsOf({ parallel: 1 }) };
    const going = { ticket: await place.ticket(of, T0 + 160_000), amounts: amountsOf({ parallel: 1 }) };
    const both = joinedTicket([ended, going]);
    assert.equal((await place.renew(of, both, { parallel: 2 }, T0 + 200_000)).kind, "lost");
    assert.equal(await place.holds(of, "parallel", T0 + 224_999), 9_000);
    assert.equal(await place.holds(of, "parallel", T0 + 225_000), 10_000, "the other was not renewed either");
  });

  suite.test("a renewal never shortens a hold", async (place) => {
    const ticket = await place.ticket(claim("a", two, { parallel: 2 }), T0 + 1);
    const short = { ...one(), holdMs: 1_000 };
    const after = await renewed(place, short, ticket, { parallel: 2 }, T0 + 2);
    assert.equal(await place.grants(one(), T0 + 74_999), false);
    await place.settle(one(), after, { parallel: 2 }, T0 + 74_999);
    assert.equal(await place.holds(one(), "parallel", T0 + 74_999), 2_000);
  });

  suite.test("what holds no slots cannot be renewed", async (place) => {
    const nothing = one("nobody");
    const ticket = await place.ticket(claim("a", mixed, { rpm: 1, parallel: 1 }), T0);
    assert.equal((await place.renew(nothing, ticket, { parallel: 1 }, T0 + 1)).kind, "lost");
    assert.equal((await place.renew(one("a", mixed), ticket, { rpm: 1 }, T0 + 1)).kind, "lost");
    assert.equal((await place.renew(one("a", mixed), ticket, {}, T0 + 1)).kind, "lost");
  });

  suite.test("a request may hold for a shorter time, and is renewed for that", async (place) => {
    const short = { ...claim("a", two, { parallel: 2 }), holdMs: 10_000 };
    const ticket = await place.ticket(short, T0 + 1);
    assert.equal(await place.grants(one(), T0 + 14_999), false);
    await renewed(place, short, ticket, { parallel: 2 }, T0 + 14_999);
    assert.equal(await place.grants(one(), T0 + 29_999), false);
    assert.equal(await place.grants(one(), T0 + 30_000), true);
    // Not for a longer one.
    const long = { ...one("b"), holdMs: 10 * HOLD_MS };
    await place.take([{ ...long, take: amountsOf({ parallel: 2 }) }], T0);
    assert.equal(await place.grants(one("b"), T0 + HOLD_MS), true);
  });

  suite.test("rates and slots are taken together or not at all", async (place) => {
    const ask = (tokens: Tokens) => claim("a", mixed, tokens);
    assert.equal(await place.grants(ask({ rpm: 11, parallel: 1 }), T0), false);
    assert.equal(await place.holds(ask({}), "parallel", T0), 2_000);
    const ticket = await place.ticket(ask({ rpm: 1, parallel: 2 }), T0);
    assert.equal(await place.grants(ask({ rpm: 1, parallel: 1 }), T0), false);
    assert.equal(await place.holds(ask({}), "rpm", T0), 9_000);
    assert.equal(await place.grants(ask({ rpm: 2 }), T0), true, "who needs no slot passes");
    // Slots come back and rates stay, or both come back.
    await place.settle(ask({}), ticket, { parallel: 1 }, T0);
    assert.equal(await place.holds(ask({}), "rpm", T0), 7_000);
    await place.giveBack(ask({}), ticket, { rpm: 1, parallel: 1 }, T0);
    assert.equal(await place.holds(ask({}), "rpm", T0), 8_000);
    assert.equal(await place.holds(ask({}), "parallel", T0), 2_000);
  });

  suite.test("at every level, or nothing is held", async (place) => {
    const org = [Limit.concurrent("parallel", 3)];
    await place.take([one("org", org), one("org", org)].slice(0, 1), T0);
    const claims = [claim("a", two, { parallel: 2 }), claim("org", org, { parallel: 3 })];
    const refused = kinds(await place.take(claims, T0));
    assert.ok(!refused.every((kind) => kind === "taken"), String(refused));
    if (refused[0] === "taken") await place.credit(claims[0] as Claim, { parallel: 2 }, T0);
    assert.equal(await place.holds(one(), "parallel", T0), 2_000);
    const smaller = [claim("a", two, { parallel: 2 }), claim("org", org, { parallel: 2 })];
    assert.deepEqual(kinds(await place.take(smaller, T0)), ["taken", "taken"]);
    assert.equal(await place.holds(one("org", org), "parallel", T0), 0);
  });

  suite.test("a clock that is behind holds longer, not shorter, and sees no slot free that is not", async (place) => {
    await place.take([one()], T0 + 20_000);
    await place.take([one()], T0);
    assert.equal(await place.grants(one(), T0 + 1), false);
    assert.equal(await place.grants(one(), T0 + 59_999), false);
    assert.equal(await place.grants(one(), T0 + 90_000), true);
  });

  suite.test("another process sees what is held, gives it back and renews it", async (place) => {
    const other = await place.another();
    const ticket = await place.ticket(claim("a", two, { parallel: 2 }), T0);
    assert.equal(await other.grants(one(), T0 + 1), false);
    // A ticket is a value: it may be stored and read.
    const read = ticketFrom(JSON.parse(JSON.stringify(storedTicket(ticket))));
    assert.deepEqual(read, ticket);
    const after = await renewed(other, one(), read, { parallel: 2 }, T0 + 40_000);
    assert.equal(await place.grants(one(), T0 + 60_000), false);
    await other.settle(one(), after, { parallel: 1 }, T0 + 60_001);
    assert.equal(await place.grants(one(), T0 + 60_002), true);
  });

  suite.test("many at once get exactly the slots that there are", async (place) => {
    const ten = [Limit.concurrent("parallel", 10)];
    const other = await place.another();
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, i) => (i % 2 ? place : other).take([one("a", ten)], T0 + i)),
    );
    // A store may answer that it could not decide among so many.
    const granted = answers.filter(([answer]) => answer?.kind === "taken").length;
    const undecided = answers.filter(([answer]) => answer?.kind === "contended").length;
    assert.ok(granted <= 10 && granted + undecided >= 10, `${granted} granted, ${undecided} undecided`);
    assert.equal(await place.holds(one("a", ten), "parallel", T0 + 40), (10 - granted) * 1000);
  });

  suite.test("a soft limit counts beyond N, and a bypass holds nothing", async (place) => {
    const soft = [Limit.concurrent("parallel", 1, { soft: true })];
    const ticket = await place.ticket(claim("a", soft, { parallel: 3 }), T0);
    assert.equal(await place.holds(one("a", soft), "parallel", T0), -2_000);
    await place.settle(one("a", soft), ticket, { parallel: 3 }, T0 + 1);
    assert.equal(await place.holds(one("a", soft), "parallel", T0 + 1), 1_000);
    const free = claim("b", two, { parallel: 5 }, { bypass: true });
    assert.equal(await place.grants(free, T0), true);
    assert.equal(await place.holds(one("b"), "parallel", T0), 2_000);
  });

  suite.test("a reset leaves what runs, unless the limit is named: then all of it is forgotten", async (place) => {
    const ask = (tokens: Tokens) => claim("a", mixed, tokens);
    const old = await place.ticket(ask({ rpm: 10, parallel: 2 }), T0);
    await place.reset(ask({}), undefined, T0 + 1);
    assert.equal(await place.holds(ask({}), "rpm", T0 + 1), 10_000);
    assert.equal(await place.holds(ask({}), "parallel", T0 + 1), 0);
    await place.reset(ask({}), ["parallel"], T0 + 2);
    assert.equal(await place.holds(ask({}), "parallel", T0 + 2), 2_000);
    await place.take([ask({ parallel: 2 })], T0 + 3);
    await place.settle(ask({}), old, { parallel: 1 }, T0 + 4);
    assert.equal(await place.holds(ask({}), "parallel", T0 + 4), 0);
    assert.equal((await place.renew(ask({}), old, { parallel: 1 }, T0 + 5)).kind, "lost");
  });

  suite.test("of a bucket that was deleted nothing is given back into the next", async (place) => {
    await place.create({ id: "a" });
    const old = await place.ticket(one(), T0);
    await place.scope.entities.delete("a", place.event("entity_deleted", "a"));
    await place.take([claim("a", two, { parallel: 2 })], T0);
    await place.settle(one(), old, { parallel: 1 }, T0);
    assert.equal(await place.holds(one(), "parallel", T0), 0);
    assert.equal((await place.renew(one(), old, { parallel: 1 }, T0 + 1)).kind, "lost");
  });

  suite.test("usage has the slots that were granted, and for how long they were held", async (place) => {
    const ten = [Limit.concurrent("parallel", 10, { holdMs: HOLD_MS })];
    const of = claim("a", ten, { parallel: 2 });
    const settled = await place.ticket(of, T0);
    await place.settle(of, settled, { parallel: 2 }, T0 + 5_000);
    assert.deepEqual(await used(place), { counters: { parallel: 2 }, heldMs: { parallel: 10_000 } });
    const undone = await place.ticket(of, T0 + 6_000);
    await place.giveBack(of, undone, { parallel: 2 }, T0 + 7_000);
    assert.deepEqual(await used(place), { counters: { parallel: 2 }, heldMs: { parallel: 12_000 } });
    const going = await place.ticket(of, T0 + 10_000);
    const after = await renewed(place, of, going, { parallel: 2 }, T0 + 30_000);
    assert.deepEqual(await used(place), { counters: { parallel: 4 }, heldMs: { parallel: 52_000 } });
    await place.settle(of, after, { parallel: 1 }, T0 + 40_000);
    assert.deepEqual(await used(place), { counters: { parallel: 4 }, heldMs: { parallel: 62_000 } });
    // The other ends by itself: a whole hold is counted once somebody comes by.
    await place.take([of], T0 + 200_000);
    assert.deepEqual(await used(place), { counters: { parallel: 6 }, heldMs: { parallel: 122_000 } });
    await place.settle(of, after, { parallel: 1 }, T0 + 200_001);
    assert.deepEqual(await used(place), { counters: { parallel: 6 }, heldMs: { parallel: 122_000 } });
  });

  suite.test("how long slots of large weights were held is counted exactly", async (place) => {
    const weight = 300_001;
    const of = claim("a", [Limit.concurrent("mb", 1_000_000, { holdMs: 24 * HOUR_MS })], { mb: weight });
    const [one, two, three] = [await place.ticket(of, T0), await place.ticket(of, T0), await place.ticket(of, T0)];
    await renewed(place, of, three, { mb: weight }, T0 + 11 * HOUR_MS);
    for (const ticket of [one, two]) await place.settle(of, ticket, { mb: weight }, T0 + 20 * HOUR_MS + 1);
    await place.take([of], T0 + 40 * HOUR_MS);
    const query = { entityId: "a", resource: "api", window: "hourly", fromMs: T0, toMs: T0 + 41 * HOUR_MS } as const;
    const { items } = await place.scope.usage.query(query, { limit: 100 });
    const heldMs = items.reduce((sum, item) => sum + (item.heldMs.mb ?? 0), 0);
    assert.equal(heldMs, weight * (11 * HOUR_MS + 2 * (20 * HOUR_MS + 1) + 24 * HOUR_MS));
  });

  suite.test("the time of a hold is counted once, whatever comes too late for it", async (place) => {
    const of = claim("a", [Limit.concurrent("parallel", 10, { holdMs: HOLD_MS })], { parallel: 2 });
    const old = await place.ticket(of, T0);
    await renewed(place, of, old, { parallel: 2 }, T0 + 30_000);
    // As if the answer to the renewal was lost: the slice of before does not have them any more.
    await place.settle(of, old, { parallel: 2 }, T0 + 31_000);
    assert.deepEqual(await used(place), { counters: { parallel: 2 }, heldMs: { parallel: 60_000 } });
    assert.equal((await place.renew(of, old, { parallel: 2 }, T0 + 150_000)).kind, "lost");
    await place.take([of], T0 + 200_000);
    assert.deepEqual(await used(place), { counters: { parallel: 4 }, heldMs: { parallel: 180_000 } });
  });

  suite.test("a request that was refused elsewhere leaves no trace in usage", async (place) => {
    const of = claim("a", mixed, { rpm: 1, parallel: 1 });
    const ticket = await place.ticket(of, T0);
    const held = { bucket: of.bucket, set: of.set, origin: of.origin, bypass: false, ticket };
    await place.scope.buckets.credit(held, of.take, { nowMs: T0 + 900, timeoutMs: 60_000, undoes: "request" });
    const { counters, heldMs } = await used(place);
    assert.deepEqual([Object.values(counters).filter(Boolean), Object.values(heldMs).filter(Boolean)], [[], []]);
  });
}

async function used(place: TestedNamespace) {
  const query = { entityId: "a", resource: "api", window: "hourly", fromMs: T0, toMs: T0 + HOUR_MS } as const;
  const { items } = await place.scope.usage.query(query, { limit: 10 });
  const { counters = {}, heldMs = {} } = items[0] ?? {};
  return { counters, heldMs };
}
