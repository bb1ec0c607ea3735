import assert from "node:assert/strict";
import { test } from "node:test";
import { isSlotPin, type Ticket } from "../../src/domain/bucket/give-back.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import type { Claim, Held } from "../../src/ports/bucket-store.ts";
import { amountsOf, claim, HOUR_MS, kinds, T0 } from "../kit/contract-kit.ts";
import { Cluster, type Process } from "./kit.ts";

// At most N at once on conditional writes: what it costs, and what is particular to it there.

const FREE = { writes: 0, transactions: 0, reads: 0 };
const ONE_WRITE = { writes: 1, transactions: 0, reads: 0 };
const HOLD_MS = 60_000;
const limits = [Limit.perMinute("rpm", 100), Limit.concurrent("parallel", 10, { holdMs: HOLD_MS })];
const CALL = { timeoutMs: 1_000 };

function asking(slots: number, entityId = "ada"): Claim {
  return claim(entityId, limits, { rpm: 1, parallel: slots });
}

function heldBy(of: Claim, ticket: Ticket): Held {
  return { ...of, ticket };
}

function settle({ place }: Process, of: Claim, ticket: Ticket, slots: number, nowMs: number) {
  const context = { ...CALL, nowMs, slotsUsed: true } as const;
  return place.scope.buckets.credit(heldBy(of, ticket), amountsOf({ parallel: slots }), context);
}

function renew({ place }: Process, of: Claim, ticket: Ticket, slots: number, nowMs: number) {
  return place.scope.buckets.renew(heldBy(of, ticket), amountsOf({ parallel: slots }), { ...CALL, nowMs });
}

test("a take of slots is one write a level and no read, also where a slice ends or is opened", async () => {
  const cluster = new Cluster();
  const a = await cluster.open();
  await a.place.ticket(asking(1), T0);
  cluster.spent();
  for (let step = 1; step <= 12; step++) {
    const nowMs = T0 + step * 7_000;
    cluster.clock.set(nowMs);
    await a.place.ticket(asking(1), nowMs);
    assert.deepEqual(cluster.spent(), ONE_WRITE, `${step * 7} s`);
  }
  const levels = [asking(1), asking(1, "team")];
  await a.place.take(levels, T0 + 90_000);
  cluster.spent();
  assert.deepEqual(kinds(await a.place.take(levels, T0 + 90_001)), ["taken", "taken"]);
  assert.deepEqual(cluster.spent(), { writes: 2, transactions: 0, reads: 0 });
});

test("settling is one write a level, and a renewal one write, also where its slice has to be opened", async () => {
  const cluster = new Cluster();
  const a = await cluster.open();
  const ticket = await a.place.ticket(asking(2), T0);
  cluster.spent();
  let held = ticket;
  for (const nowMs of [T0 + 20_000, T0 + 20_001, T0 + 40_000, T0 + 60_000]) {
    cluster.clock.set(nowMs);
    const reply = await renew(a, asking(1), held, 2, nowMs);
    assert.equal(reply.kind, "renewed");
    if (reply.kind === "renewed") held = reply.ticket;
    assert.deepEqual(cluster.spent(), ONE_WRITE, `${nowMs - T0} ms`);
  }
  assert.equal((await settle(a, asking(1), held, 2, T0 + 60_001)).kind, "applied");
  assert.deepEqual(cluster.spent(), ONE_WRITE);
});

/** Calls take a turn, so that others come meanwhile. */
const pause = () => new Promise<void>((resolve) => setImmediate(resolve));

test("renewals of one process that come together are two writes at most", async () => {
  const cluster = new Cluster();
  const a = await cluster.open({ line: { pause } });
  const tickets = [];
  for (let i = 0; i < 10; i++) tickets.push(await a.place.ticket(asking(1), T0 + i));
  cluster.spent();
  cluster.clock.set(T0 + 20_000);
  const replies = await Promise.all(tickets.map((ticket) => renew(a, asking(1), ticket, 1, T0 + 20_000)));
  assert.ok(replies.every(({ kind }) => kind === "renewed"));
  const { writes } = cluster.spent();
  assert.ok(writes <= 2, `${writes} writes`);
  assert.equal(await a.place.holds(asking(0), "parallel", T0 + 75_000), 0);
});

test("one renewal that comes too late does not keep the others of its write from being renewed", async () => {
  const cluster = new Cluster();
  const a = await cluster.open({ line: { pause } });
  const early = await a.place.ticket(asking(1), T0);
  const late = [];
  for (let i = 0; i < 3; i++) late.push(await a.place.ticket(asking(1), T0 + 40_000));
  // Somebody else has let the first one end.
  const b = await cluster.open();
  await b.place.ticket(asking(1), T0 + 61_000);
  const all = [early, ...late];
  cluster.clock.set(T0 + 61_001);
  const replies = await Promise.all(all.map((ticket) => renew(a, asking(1), ticket, 1, T0 + 61_001)));
  assert.deepEqual(
    replies.map(({ kind }) => kind),
    ["lost", "renewed", "renewed", "renewed"],
  );
});

test("who is short of slots only is refused from memory for a tenth of a second, not longer", async () => {
  const cluster = new Cluster();
  const a = await cluster.open({ denyMemoryMs: 1_000 });
  const b = await cluster.open();
  const ticket = await b.place.ticket(asking(10), T0);
  assert.deepEqual(kinds(await a.place.take([asking(1)], T0 + 1)), ["short"]);
  cluster.spent();
  assert.deepEqual(kinds(await a.place.take([asking(1)], T0 + 90)), ["short"]);
  assert.deepEqual(cluster.spent(), FREE);
  await settle(b, asking(1), ticket, 1, T0 + 95);
  assert.deepEqual(kinds(await a.place.take([asking(1)], T0 + 102)), ["taken"]);
});

test("after a lost answer the ticket is the one that ends first, so that it frees nobody else's slot", async () => {
  const cluster = new Cluster();
  const a = await cluster.open();
  const b = await cluster.open();
  await a.place.ticket(asking(1), T0);
  // It lands; the answer is lost. Before it is sent again, another process opens a later slice.
  let isLost = false;
  const c = await cluster.open({
    through: (line) =>
      Object.assign(Object.create(line), {
        write: async (...[write, call]: Parameters<typeof line.write>) => {
          const answer = await line.write(write, call);
          if (isLost || !write.trace?.parts.some(({ kind }) => kind === "take")) return answer;
          isLost = true;
          await b.place.ticket(asking(1), T0 + 16_000);
          return { kind: "unknown", cause: new Error("lost") };
        },
        read: line.read.bind(line),
        transact: line.transact.bind(line),
      }),
  });
  const ticket = await c.place.ticket(asking(1), T0 + 2);
  const pin = ticket.pins.find(isSlotPin);
  assert.equal(pin?.endMs, T0 + 75_000, "of the slice that it went into");
});

test("a hold that is given back long after its end has ended by itself: usage counts it for as long as it was held", async () => {
  const cluster = new Cluster();
  const a = await cluster.open();
  const ticket = await a.place.ticket(asking(2), T0);
  cluster.clock.set(T0 + 20 * HOLD_MS);
  await settle(a, asking(1), ticket, 2, T0 + 20 * HOLD_MS);
  const item = cluster.item(a.place.namespaceId, "ada");
  assert.deepEqual([item?.b_parallel_tk, item?.b_parallel_hu], [10_000, 2_000 * HOLD_MS]);
});

test("a bucket that takes slots is not split, and one in shards is joined first", async () => {
  const cluster = new Cluster();
  const a = await cluster.open();
  const drip = [Limit.perMinute("rpm", 100)];
  await a.place.ticket(claim("ada", drip, { rpm: 1 }), T0);
  const { resize } = await import("../../src/protocol/shards/resize.ts");
  const context = (a.buckets as unknown as { context: Parameters<typeof resize>[0] }).context;
  assert.equal(await resize(context, asking(1).bucket, "more", T0 + 20_000), true);
  assert.ok(cluster.item(a.place.namespaceId, "ada", 1) !== undefined, "it is in two shards");
  const later = { ...asking(10), origin: { asOfMs: T0 + 30_000, generation: 2 } };
  cluster.clock.set(T0 + 30_000);
  assert.equal(await a.place.grants(later, T0 + 30_000), true);
  assert.equal(cluster.item(a.place.namespaceId, "ada", 1), undefined, "it is one again");
  assert.equal(await a.place.grants({ ...later, take: amountsOf({ parallel: 1 }) }, T0 + 30_001), false);
  assert.equal(await resize(context, asking(1).bucket, "more", T0 + 60_000), false);
});

test("shards that have not all heard of the same limits are told of the slots, and joined", async () => {
  const cluster = new Cluster();
  const a = await cluster.open();
  const drip = (rate: number, asOfMs: number) =>
    claim("ada", [Limit.perMinute("rpm", rate)], { rpm: 1 }, { origin: { asOfMs, generation: null } });
  await a.place.ticket(drip(100, T0), T0);
  const { resize } = await import("../../src/protocol/shards/resize.ts");
  const context = (a.buckets as unknown as { context: Parameters<typeof resize>[0] }).context;
  assert.equal(await resize(context, asking(1).bucket, "more", T0 + 20_000), true);
  // One of them hears of it with the take; the other does not.
  await a.place.ticket(drip(200, T0 + 21_000), T0 + 21_000);
  const terms = [0, 1].map((shard) => cluster.item(a.place.namespaceId, "ada", shard)?.b_rpm_cp);
  assert.deepEqual(terms.toSorted(), [100_000, 200_000]);
  cluster.clock.set(T0 + 22_000);
  const slots = { ...asking(10), origin: { asOfMs: T0 + 22_000, generation: null } };
  assert.equal(await a.place.grants(slots, T0 + 22_000), true);
  assert.equal(cluster.item(a.place.namespaceId, "ada", 1), undefined);
});

test("an item with slots expires an hour after the last of them has ended, at the earliest", async () => {
  const cluster = new Cluster();
  const a = await cluster.open({ usageKeptS: () => 0 });
  const day = [Limit.concurrent("parallel", 2, { holdMs: 86_400_000 })];
  await a.place.ticket(claim("ada", day, { parallel: 1 }), T0);
  const { ttl } = cluster.item(a.place.namespaceId, "ada") ?? {};
  assert.ok(typeof ttl === "number", "it expires");
  assert.ok(ttl * 1000 >= T0 + 86_400_000 + HOUR_MS, `${ttl}`);
  assert.ok(ttl * 1000 <= T0 + 1.25 * 86_400_000 + 4 * HOUR_MS, `${ttl}`);
});

test("a process that saw a slice empty gives slots back that another took into it since", async () => {
  const cluster = new Cluster();
  const [a, b] = [await cluster.open(), await cluster.open()];
  const before = await a.place.ticket(asking(1), T0);
  await settle(a, asking(1), before, 1, T0 + 1);
  const taken = await b.place.ticket(asking(1), T0 + 2);
  // As it reads the ticket from the record of a stored lease; what it last saw of the bucket is older.
  await settle(a, asking(1), taken, 1, T0 + 3);
  assert.equal(await b.place.holds(asking(0), "parallel", T0 + 4), 10_000);
});

test("a renewal of slots that have ended is lost, also where the limit is of another kind by now", async () => {
  for (const other of [Limit.quota("parallel", 10, { resetAfterMs: HOUR_MS }), Limit.perMinute("parallel", 10)]) {
    const cluster = new Cluster();
    const a = await cluster.open();
    const ticket = await a.place.ticket(asking(1), T0);
    // It takes by the other limits itself, so what it knows of the bucket is right.
    const given = { asOfMs: T0 + 90_000, generation: null };
    cluster.clock.set(T0 + 90_000);
    await a.place.ticket(claim("ada", [limits[0] as Limit, other], { parallel: 1 }, { origin: given }), T0 + 90_000);
    const reply = await renew(a, asking(1), ticket, 1, T0 + 90_001);
    assert.equal(reply.kind, "lost", JSON.stringify(other));
  }
});
