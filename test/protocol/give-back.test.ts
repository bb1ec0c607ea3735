import assert from "node:assert/strict";
import { test } from "node:test";
import type { Ticket } from "../../src/domain/bucket/give-back.ts";
import { storedTicket, ticketFrom } from "../../src/domain/lease/stored-ticket.ts";
import { limitMakers } from "../../src/domain/limits/limit.ts";
import type { Claim } from "../../src/ports/bucket-store.ts";
import type { ItemAnswer } from "../../src/ports/item-store.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import { amountsOf, claim, DAY_MS, HOUR_MS, MINUTE_MS, T0 } from "../kit/contract-kit.ts";
import { calendar } from "../limits/kind-arbitraries.ts";
import { Cluster, type Process } from "./kit.ts";

// What is given back arrives: whoever gives it back, and however the shards were split and joined since it was taken.

const Kinds = limitMakers(calendar);
const monthly = [Kinds.quota("month", 100, { reset: { cron: "0 0 1 * *" } })];
const month = (tokens: number): Claim => claim("ada", monthly, { month: tokens });

/** As another process reads it from a stored lease. */
const reread = (ticket: Ticket): Ticket => ticketFrom(JSON.parse(JSON.stringify(storedTicket(ticket))));

async function resized({ buckets, clock }: Process, ...steps: readonly ("more" | "fewer")[]): Promise<void> {
  for (const to of steps) {
    await clock.advance(20 * MINUTE_MS);
    assert.ok(await buckets.resize(month(0).bucket, to, clock.now()), `${to} shards`);
  }
}

async function givesBack(process: Process, ticket: Ticket, tokens: number): Promise<string> {
  const context = { nowMs: process.clock.now(), timeoutMs: 1_000 };
  const held = { ...month(0), ticket: reread(ticket) };
  return (await process.buckets.credit(held, amountsOf({ month: tokens }), context)).kind;
}

test("a process that knows the bucket from before the split gives back, and all of it is there", async () => {
  for (const knows of ["nothing of the bucket", "it from before the split", "it in two shards"]) {
    const cluster = new Cluster();
    const [taker, giver] = [await cluster.open(), await cluster.open()];
    await taker.place.take([month(0)], T0);
    if (knows.includes("before")) await giver.place.take([month(0)], T0);
    await resized(taker, "more");
    if (knows.includes("two")) await giver.place.state("ada");
    const tickets = [await taker.place.ticket(month(40), T0), await taker.place.ticket(month(40), T0)];
    for (const ticket of tickets) assert.equal(await givesBack(giver, ticket, 40), "applied");
    assert.equal(await giver.place.drain(month, T0, 100), 100, `it knows ${knows}`);
  }
});

test("what was taken from two shards comes back after they became four, or one and two again", async () => {
  for (const steps of [["more"], ["fewer"], ["fewer", "more"], ["more", "fewer", "more", "more"]] as const) {
    const cluster = new Cluster();
    const process = await cluster.open();
    await process.place.take([month(0)], T0);
    await resized(process, "more");
    const ticket = await process.place.ticket(month(40), T0);

    await resized(process, ...steps);
    assert.equal(await givesBack(process, ticket, 40), "applied");
    assert.equal(await process.place.drain(month, cluster.clock.now(), 100), 100, steps.join(", "));
  }
});

test("a take that was gathered from several shards is released in steps by processes that read its ticket anew", async () => {
  const cluster = new Cluster();
  const process = await cluster.open();
  await process.place.take([month(0)], T0);
  await resized(process, "more");
  const ticket = await process.place.ticket(month(80), T0);
  for (let step = 0; step < 2; step++) assert.equal(await givesBack(await cluster.open(), ticket, 40), "applied");
  assert.equal(await process.place.drain(month, T0, 100), 100);
});

test("shards that got a quota at different instants get back what each gave, and another lease finds its room", async () => {
  const cluster = new Cluster();
  const process = await cluster.open();
  const drip = [Kinds.custom("month", { capacity: 100, refillAmount: 1, refillPeriodMs: 1_000_000_000_000 })];
  await process.place.take([claim("ada", drip, { month: 0 })], T0);
  await resized(process, "more");
  // The rule becomes a quota: each shard hears of it by its own next take, and counts from then.
  const origin = { asOfMs: T0 + 1, generation: null };
  const later = (tokens: number): Claim => claim("ada", monthly, { month: tokens }, { origin });
  const tickets: Ticket[] = [];
  for (let i = 0; i < 4; i++) {
    await cluster.clock.advance(1_000);
    tickets.push(await process.place.ticket(later(15), cluster.clock.now()));
  }
  const gathered = await process.place.ticket(later(40), cluster.clock.now());
  assert.equal(await process.place.drain(later, cluster.clock.now(), 100), 0, "60 and 40 are out");
  assert.equal(await givesBack(process, gathered, 40), "applied");
  for (const ticket of tickets) assert.equal(await givesBack(process, ticket, 15), "applied");
  assert.equal(await process.place.drain(later, cluster.clock.now(), 100), 100);
});

test("give-backs to a bucket in shards at once, from many processes, lose nothing to each other", async () => {
  const cluster = new Cluster();
  const processes = await Promise.all(Array.from({ length: 5 }, () => cluster.open()));
  const [first] = processes as [Process, ...Process[]];
  await first.place.take([month(0)], T0);
  await resized(first, "more", "more");
  const tickets: Ticket[] = [];
  for (const process of processes) tickets.push(await process.place.ticket(month(20), T0));
  assert.equal(await first.place.drain(month, T0, 100), 0);
  const replies = await Promise.all(processes.map((process, i) => givesBack(process, tickets[i] as Ticket, 20)));
  assert.deepEqual(new Set(replies), new Set(["applied"]));
  assert.equal(await first.place.drain(month, T0, 100), 100);
});

/** A process whose first read of several shards is held up: `meanwhile` comes after some of them were read, or after all were. */
async function heldUp(cluster: Cluster, after: "the first shard" | "all shards", meanwhile: () => Promise<void>) {
  let isHeldUp = false;
  const process = await cluster.open({
    through: (line) =>
      overriding(line, {
        read: async (keys, options, call) => {
          if (isHeldUp || keys.length === 1) return line.read(keys, options, call);
          isHeldUp = true;
          const count = after === "all shards" ? keys.length : 1;
          const found = await line.read(keys.slice(0, count), options, call);
          await meanwhile();
          return [...found, ...(await line.read(keys.slice(count), options, call))];
        },
      }),
  });
  return { process, isHeldUp: () => isHeldUp };
}

/** The ticket of a lease that is out of one of two full shards. */
async function outOf(
  shard: 0 | 1,
  cluster: Cluster,
  { place, clock }: Process,
  take: (tokens: number) => Claim,
  tokens: number,
): Promise<Ticket> {
  for (let tries = 0; tries < 50; tries++) {
    const ticket = await place.ticket(take(tokens), clock.now());
    const left = cluster.item(place.namespaceId, "ada", 1 - shard)?.b_month_tk;
    if (left === 50_000) return ticket;
    await place.giveBack(take(0), ticket, { month: tokens }, clock.now());
  }
  assert.fail(`no take went to shard ${shard}`);
}

test("tokens that go from one shard to another between two reads of them are no proof that a quota is full", async () => {
  const cluster = new Cluster();
  const other = await cluster.open();
  await other.place.take([month(0)], T0);
  await resized(other, "more");
  const ticket = await outOf(1, cluster, other, month, 30);
  const giver = await heldUp(cluster, "the first shard", async () => {
    const brief = await other.place.ticket(month(25), cluster.clock.now());
    assert.equal(await givesBack(other, brief, 25), "applied");
    assert.equal(
      cluster.item(other.place.namespaceId, "ada", 1)?.b_month_tk,
      45_000,
      "it came back to the other shard",
    );
  });
  assert.equal(await givesBack(giver.process, ticket, 30), "applied");
  assert.ok(giver.isHeldUp());
  assert.equal(await other.place.drain(month, cluster.clock.now(), 100), 100);
});

test("what a process has filled while it reads all shards is no proof that a limit which drips is full", async () => {
  const cluster = new Cluster();
  const drip = [Kinds.perHour("month", 100)];
  const take = (tokens: number): Claim => claim("ada", drip, { month: tokens });
  const other = await cluster.open();
  const { process, isHeldUp } = await heldUp(cluster, "all shards", async () => {
    const nowMs = cluster.clock.now();
    await other.place.ticket(take(25), nowMs);
    assert.equal((await process.place.giveBack(take(0), recent, { month: 30 }, nowMs))?.kind, "applied");
    const left = [0, 1].map((shard) => cluster.item(other.place.namespaceId, "ada", shard)?.b_month_tk);
    assert.deepEqual(left, [50_000, 25_000]);
  });
  await other.place.take([take(0)], T0);
  const old = await other.place.ticket(take(40), T0);
  await cluster.clock.advance(DAY_MS);
  assert.ok(await other.buckets.resize(take(0).bucket, "more", cluster.clock.now()));
  const recent = await outOf(0, cluster, process, take, 30);
  assert.equal((await process.place.giveBack(take(0), old, { month: 40 }, cluster.clock.now()))?.kind, "applied");
  assert.ok(isHeldUp());
  assert.equal(await other.place.drain(take, cluster.clock.now(), 100), 100, "25 of the 40 had room");
});

test("a give-back to a bucket in shards is one write and no read, where a shard with room is known", async () => {
  const cluster = new Cluster();
  const process = await cluster.open();
  await process.place.take([month(0)], T0);
  await resized(process, "more");
  const ticket = await process.place.ticket(month(40), T0);
  cluster.spent();
  assert.equal(await givesBack(process, ticket, 40), "applied");
  assert.deepEqual(cluster.spent(), { writes: 1, transactions: 0, reads: 0 });
});

test("a debit goes to the shard that can pay it, and what comes back pays a debt first", async () => {
  const cluster = new Cluster();
  const process = await cluster.open();
  await process.place.take([month(0)], T0);
  await resized(process, "more");
  const tickets: Ticket[] = [];
  for (const tokens of [45, 40, 30]) {
    const reply = await process.place.debit(month(0), { month: tokens }, T0);
    assert.ok(reply.kind === "applied" && reply.ticket !== undefined);
    tickets.push(reply.ticket);
  }
  const shards = (await process.place.state("ada"))?.shards?.map(({ limits }) => limits[0]?.tokensMilli);
  assert.deepEqual(shards?.toSorted(), [-20_000, 5_000].toSorted(), "5 and 10 were left; 30 more are owed by one");
  assert.equal(await givesBack(process, tickets[2] as Ticket, 20), "applied");
  const after = (await process.place.state("ada"))?.shards?.map(({ limits }) => limits[0]?.tokensMilli);
  assert.deepEqual(after?.toSorted(), [0, 5_000].toSorted());
});

// Undoing a request.

async function usage(process: Process): Promise<string> {
  const { items } = await process.place.scope.usage.query(
    { window: "hourly", fromMs: 0, toMs: 2 ** 53 },
    { limit: 100 },
  );
  const all = items.filter(({ entityId }) => entityId === "ada");
  return JSON.stringify(all.map(({ counters, requests, overdrafts }) => ({ counters, requests, overdrafts })));
}

/** A process whose first writes of a kind get no answer in time; `tell` lets the answers come. */
async function lossy(cluster: Cluster, answers: readonly ("before" | "after")[]) {
  const lost: (() => void)[] = [];
  let left = [...answers];
  const process = await cluster.open({
    through: (line) =>
      overriding(line, {
        write: (write, call): ReturnType<typeof line.write> => {
          const isTake = write.trace?.form !== "credit" && write.key.sheet === undefined;
          if (!isTake || left.length === 0 || !isLosing) return line.write(write, call);
          const [when, ...rest] = left;
          left = rest;
          const answer = when === "before" ? undefined : line.write(write, call);
          const later = new Promise<ItemAnswer>((resolve) => {
            lost.push(() => resolve(answer ?? line.write(write, call)));
          });
          return { kind: "unknown", cause: new Error("no answer"), later };
        },
      }),
  });
  let isLosing = false;
  const lose = () => {
    isLosing = true;
  };
  const tell = async (which: number) => {
    lost[which]?.();
    await cluster.clock.advance(100);
    await process.buckets.settled();
  };
  return { process, lose, tell };
}

const softly = [Kinds.perDay("tokens", 10, { soft: true })];

test("a take that lands unseen is taken back with its overdraft, whichever of its late answers says so", async () => {
  // Landed before the answer was lost; or the first landed and only the answer to the repeat came, which shows its nonce.
  const stories: readonly (readonly [answers: readonly ("before" | "after")[], told: readonly number[]])[] = [
    [
      ["after", "after"],
      [0, 1],
    ],
    [
      ["after", "after"],
      [1, 0],
    ],
    [["after", "after"], [1]],
    [
      ["before", "before"],
      [1, 0],
    ],
  ];
  for (const [answers, told] of stories) {
    const cluster = new Cluster();
    const { process, lose, tell } = await lossy(cluster, answers);
    await process.place.take([claim("ada", softly, { tokens: 5 })], T0);
    const before = await usage(process);
    lose();
    const [answer] = await process.place.take([claim("ada", softly, { tokens: 50 })], T0 + 1);
    assert.equal(answer?.kind, "unavailable");
    for (const which of told) await tell(which);
    assert.equal(await usage(process), before, `${answers} told ${told}`);
    assert.equal(await process.place.level("ada", "tokens", T0 + 1), 5_000, `${answers} told ${told}`);
  }
});

test("a gathered request that is refused above leaves no overdraft, whichever shard it was counted on", async () => {
  const cluster = new Cluster();
  const process = await cluster.open();
  const limits = [Kinds.perDay("hard", 100), Kinds.perDay("soft", 10, { soft: true })];
  const want = (hard: number, soft: number) => claim("ada", limits, { hard, soft });
  await process.place.take([want(10, 0)], T0);
  await process.buckets.resize(want(0, 0).bucket, "more", T0 + 1);
  await process.place.take([want(40, 1)], T0 + 2);
  const before = await usage(process);
  const parent = claim("org", [Kinds.perDay("hard", 20)], { hard: 48 });
  const [own, above] = await process.place.take([want(48, 60), parent], T0 + 3);
  assert.equal(above?.kind, "short");
  if (own?.kind === "taken") {
    const context = { nowMs: T0 + 4, timeoutMs: 1_000, undoes: "request" } as const;
    await process.buckets.credit({ ...want(0, 0), ticket: own.ticket }, want(48, 60).take, context);
  }
  assert.equal(await usage(process), before);
});

test("a window that only a request opened which was undone is closed again; used by another, it stays", async () => {
  const session = [Kinds.quota("s", 500, { resetAfterMs: 5 * HOUR_MS })];
  const want = (s: number) => claim("ada", session, { s });
  for (const isUsed of [false, true]) {
    const cluster = new Cluster();
    const process = await cluster.open();
    await process.place.take([claim("ada", session, { s: 0 })], T0);
    const ticket = await process.place.ticket(want(100), T0);
    if (isUsed) await process.place.take([want(1)], T0 + 1);
    const undo = { nowMs: T0 + 2, timeoutMs: 1_000, undoes: "request" } as const;
    await process.buckets.credit({ ...want(0), ticket }, want(100).take, undo);
    // First used, or used again, four hours later.
    await process.place.take([want(500)], T0 + 4 * HOUR_MS);
    await process.place.take([want(499)], T0 + 4 * HOUR_MS);
    // The window began a millisecond after T0, as every write that moves the epoch does.
    const [then] = await process.place.take([want(1)], T0 + 1 + 5 * HOUR_MS);
    assert.equal(then?.kind, isUsed ? "taken" : "short");
    assert.ok(await process.place.grants(want(1), T0 + 9 * HOUR_MS + DAY_MS));
  }
});
