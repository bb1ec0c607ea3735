import assert from "node:assert/strict";
import { test } from "node:test";
import { limitMakers } from "../../src/domain/limits/limit.ts";
import type { Claim, WriteReply } from "../../src/ports/bucket-store.ts";
import type { ItemAnswer, ItemCall, ItemStore, ItemWrite } from "../../src/ports/item-store.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import { claim, HOUR_MS, MINUTE_MS, SECOND_MS, T0 } from "../kit/contract-kit.ts";
import { calendar } from "../limits/kind-arbitraries.ts";
import { Cluster } from "./kit.ts";

// What becomes of a request while the store throttles, does not answer, or answers late.

const Kinds = limitMakers(calendar);
const TIMEOUT_MS = SECOND_MS;
const YEARLY = [Kinds.quota("year", 100, { reset: { cron: "0 0 1 1 *" } })];

type Answering = (write: ItemWrite, call: ItemCall) => ItemAnswer | Promise<ItemAnswer> | undefined;

/** A store that answers some writes in its own way; undefined: as always. */
function answering(how: Answering): (line: ItemStore) => ItemStore {
  return (line) => overriding(line, { write: (write, call) => how(write, call) ?? line.write(write, call) });
}

const THROTTLED: ItemAnswer = { kind: "refused", why: "throttled", cause: new Error("throttled") };

/** All of the yearly quota, taken and given back. */
async function givenBack(cluster: Cluster, isThrottled: () => boolean) {
  const isCredit = (write: ItemWrite) => write.add.b_year_tk !== undefined && (write.add.b_year_tk ?? 0) > 0;
  let credits = 0;
  const through = answering((write) => {
    if (!isCredit(write)) return undefined;
    credits++;
    return isThrottled() ? THROTTLED : undefined;
  });
  const { place, buckets } = await cluster.open({ through });
  const all = claim("ada", YEARLY, { year: 100 });
  const ticket = await place.ticket(all, T0);
  const held = { ...all, ticket };
  const context = { nowMs: T0, timeoutMs: TIMEOUT_MS };
  const reply = Promise.resolve(place.scope.buckets.credit(held, all.take, context));
  return { place, buckets, all, reply, credits: () => credits };
}

/** The reply, and by how much time had passed then, at most to `forMs`. */
async function within(cluster: Cluster, reply: Promise<WriteReply>, forMs: number) {
  let told: { reply: WriteReply; atMs: number } | undefined;
  void reply.then((given) => {
    told = { reply: given, atMs: cluster.clock.now() - T0 };
  });
  for (let passed = 0; passed < forMs && told === undefined; passed += 10) await cluster.clock.advance(10);
  return told;
}

test("a give-back that is throttled for two seconds is not lost, and its caller is not held up", async () => {
  const cluster = new Cluster();
  const { place, buckets, all, reply } = await givenBack(cluster, () => cluster.clock.now() < T0 + 2 * SECOND_MS);
  const told = await within(cluster, reply, 5 * SECOND_MS);
  assert.ok(told !== undefined && told.atMs <= TIMEOUT_MS, "the caller hears in its time");
  assert.equal(told.reply.kind === "unavailable" && told.reply.applied, "unknown", "nobody may give it back again");
  let isSettled = false;
  void buckets.settled().then(() => {
    isSettled = true;
  });
  await cluster.clock.advance(500);
  assert.equal(isSettled, false, "whoever closes the store waits for it");
  await cluster.clock.advance(5 * SECOND_MS);
  assert.equal(isSettled, true);
  assert.ok(await place.grants(all, T0 + 10 * SECOND_MS));
});

test("a give-back that is throttled for a moment is applied before its caller hears", async () => {
  const cluster = new Cluster();
  const { place, all, reply } = await givenBack(cluster, () => cluster.clock.now() < T0 + 100);
  const told = await within(cluster, reply, 5 * SECOND_MS);
  assert.equal(told?.reply.kind, "applied");
  assert.ok(await place.grants(all, T0 + SECOND_MS));
});

test("a give-back that the store never takes is given up after thirty seconds", async () => {
  const cluster = new Cluster();
  const { buckets, reply, credits } = await givenBack(cluster, () => true);
  await within(cluster, reply, 5 * SECOND_MS);
  await cluster.clock.advance(MINUTE_MS);
  await buckets.settled();
  const tried = credits();
  assert.ok(tried > 20, `${tried} tries`);
  await cluster.clock.advance(HOUR_MS);
  assert.equal(credits(), tried);
});

test("a give-back whose answer is lost is not sent a second time", async () => {
  const cluster = new Cluster();
  let sent = 0;
  const through = answering((write) => {
    if ((write.add.b_year_tk ?? 0) <= 0) return undefined;
    sent++;
    return { kind: "unknown", cause: new Error("lost") };
  });
  const { place, buckets } = await cluster.open({ through });
  const all = claim("ada", YEARLY, { year: 100 });
  const ticket = await place.ticket(all, T0);
  const reply = await place.giveBack(all, ticket, { year: 100 }, T0);
  assert.equal(reply.kind === "unavailable" && reply.applied, "unknown");
  await cluster.clock.advance(HOUR_MS);
  await buckets.settled();
  assert.equal(sent, 1);
});

test("requests that wait behind one another on a dead connection end within timeoutMs of being asked", async () => {
  const cluster = new Cluster();
  const { clock } = cluster;
  let isDead = false;
  const through = answering((_, { timeoutMs }) => {
    if (!isDead) return undefined;
    return clock.sleep(timeoutMs, undefined).then(() => ({ kind: "unknown", cause: new Error("dead") }));
  });
  const { place } = await cluster.open({ through });
  // Limits that differ: so nobody leaves together with another.
  const claims = [10, 11, 12, 13, 14].map((n, i): Claim => {
    return claim("ada", [Kinds.perMinute("rpm", n)], { rpm: 1 }, { origin: { asOfMs: T0 + i, generation: null } });
  });
  assert.ok(await place.grants(claims[0] as Claim, T0));
  isDead = true;
  const ends: { kind: string; tookMs: number }[] = [];
  for (const [i, one] of claims.entries()) {
    const askedMs = clock.now();
    const context = { nowMs: askedMs, timeoutMs: TIMEOUT_MS, generation: undefined, atomic: false };
    void Promise.resolve(place.scope.buckets.take([one], context)).then((reply) => {
      assert.ok(reply !== "stale");
      ends[i] = { kind: reply[0]?.kind ?? "", tookMs: clock.now() - askedMs };
    });
    await clock.advance(100);
  }
  await clock.advance(10 * TIMEOUT_MS);
  assert.deepEqual(
    ends.map(({ kind }) => kind),
    claims.map(() => "unavailable"),
  );
  // A call is given a millisecond at least.
  for (const { tookMs } of ends) assert.ok(tookMs <= TIMEOUT_MS + 5, `${tookMs} ms`);
});

test("a reading is never older than timeoutMs when its write is sent, however long it waited in its lane", async () => {
  const cluster = new Cluster();
  const { clock } = cluster;
  const ages: number[] = [];
  const through = answering((write, { timeoutMs }) => {
    ages.push(clock.now() + timeoutMs - (write.trace?.readingMs ?? 0));
    return clock.sleep(900, undefined).then(() => ({ kind: "refused", why: "throttled", cause: new Error("busy") }));
  });
  const { place } = await cluster.open({ through });
  const one = (n: number) => claim("ada", [Kinds.perMinute("rpm", n)], { rpm: 1 });
  for (const n of [10, 11, 12, 13]) {
    const context = { nowMs: clock.now(), timeoutMs: TIMEOUT_MS, generation: undefined, atomic: false };
    void place.scope.buckets.take([one(n)], context);
  }
  await clock.advance(20 * TIMEOUT_MS);
  assert.ok(ages.length > 0);
  for (const age of ages) assert.ok(age <= TIMEOUT_MS + 1, `${age} ms`);
});

test("a request whose write finds the item gone is not refused by what its process saw before", async () => {
  const cluster = new Cluster();
  let isGoing = false;
  const through = (line: ItemStore): ItemStore =>
    overriding(line, {
      write: async (write, call) => {
        if (!isGoing) return line.write(write, call);
        isGoing = false;
        // Another call of the process sees the item while the write is under way; then the item goes.
        await process.place.state("ada");
        cluster.world.table.removeWhere(process.place.namespaceId, () => true);
        return line.write(write, call);
      },
    });
  const process = await cluster.open({ through });
  const take = (rpd: number) => claim("ada", [Kinds.perDay("rpd", 10)], { rpd });
  assert.ok(await process.place.grants(take(9), T0));
  isGoing = true;
  assert.ok(await process.place.grants(take(5), T0 + 1));
});

test("of a bucket just split, of which one shard is not known yet and there is no time to look, nothing is said", async () => {
  const cluster = new Cluster();
  const first = await cluster.open();
  let isSlow = false;
  const slow = await cluster.open({
    line: {
      pause: async (call, before) => {
        if (isSlow && call === "write" && before === "answering") cluster.clock.set(cluster.clock.now() + MINUTE_MS);
      },
    },
  });
  const before = claim("ada", [Kinds.perMinute("rpm", 100)], { rpm: 1 });
  assert.ok(await slow.place.grants(before, T0));
  assert.ok(await first.buckets.resize(before.bucket, "more", T0));
  // Limits that come with this claim: a session of three, of which each shard holds a part.
  const session = Kinds.quota("ses", 3, { resetAfterMs: HOUR_MS });
  const wanted = claim("ada", [session], { ses: 3 }, { origin: { asOfMs: T0 + 1, generation: null } });
  isSlow = true;
  const [answer] = await slow.place.take([wanted], T0 + 1);
  assert.deepEqual(answer, { kind: "unseen" });
});

test("a request that a transaction is in the way of all the time is refused: the store is there, only others are faster", async () => {
  const conflict = { kind: "refused", why: "conflict", cause: new Error("a transaction is in the way") } as const;
  const cluster = new Cluster();
  let isBusy = false;
  let isThrottled = false;
  const through = (line: ItemStore) =>
    overriding(line, {
      write: (write, call) => (isThrottled ? THROTTLED : isBusy ? conflict : line.write(write, call)),
      transact: (writes, options, call) => (isBusy ? conflict : line.transact(writes, options, call)),
    });
  const { place } = await cluster.open({ through });
  const claims = ["ada", "team"].map((id) => claim(id, [Kinds.perHour("rpm", 100)], { rpm: 1 }));
  const ask = async (some: readonly Claim[], atomic: boolean) => {
    const context = { nowMs: cluster.clock.now(), timeoutMs: HOUR_MS, generation: undefined, atomic };
    let kinds: string[] | undefined;
    void Promise.resolve(place.scope.buckets.take(some, context)).then((answers) => {
      kinds = Array.from(answers === "stale" ? [] : answers, ({ kind }) => kind);
    });
    for (let steps = 0; steps < 1000 && kinds === undefined; steps++) await cluster.clock.advance(10);
    return kinds;
  };
  assert.deepEqual(await ask(claims, true), ["taken", "taken"]);
  isThrottled = true;
  assert.deepEqual(await ask(claims.slice(0, 1), false), ["unavailable"]);
  isThrottled = false;
  isBusy = true;
  // Throttled, it was to be split: that drops what was known of it, and nobody can look.
  assert.deepEqual(await ask(claims.slice(0, 1), false), ["unseen"]);
  assert.deepEqual(await ask(claims, true), ["contended", "contended"]);
});
