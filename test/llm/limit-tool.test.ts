import assert from "node:assert/strict";
import { test } from "node:test";
import { currentLease, Limit, RateLimitExceeded, RateLimiter, ValidationError } from "../../src/entry/index.ts";
import { limitTool } from "../../src/entry/llm.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";

async function openLimiter() {
  const clock = new SimulatedClock(1_800_000_000_000);
  const limiter = await RateLimiter.open({ store: "memory", clock });
  await limiter.setResourceDefaults("tool:search", [
    Limit.perMinute("calls", 2),
    Limit.perMinute("rpm", 10, { counts: "requests" }),
    Limit.quota("day", 100, { counts: "calls", reset: "daily" }),
  ]);
  const held = async (resource = "tool:search") =>
    Object.fromEntries(
      (await limiter.available({ entityId: "key-1", resource })).map(({ limit, available }) => [limit, available]),
    );
  return { limiter, clock, held };
}

async function search(words: string, limit: number): Promise<string> {
  return `${limit} pages about ${words}`;
}

test("a limited function has the arguments and the result of its own, and takes 1 of every measure", async () => {
  const { limiter, held } = await openLimiter();
  const limited = limitTool(search, { limiter, entityId: "key-1" });
  const result: string = await limited("buckets", 3);
  assert.equal(result, "3 pages about buckets");
  assert.equal(limited.name, "search");
  assert.deepEqual(await held(), { calls: 1, rpm: 9, day: 99 });
});

test("a call that is refused does not run, and throws RateLimitExceeded", async () => {
  const { limiter } = await openLimiter();
  let runs = 0;
  const limited = limitTool(
    async function search() {
      return ++runs;
    },
    { limiter, entityId: "key-1" },
  );
  await limited();
  await limited();
  await assert.rejects(limited(), (error) => error instanceof RateLimitExceeded && error.primary.limit === "calls");
  assert.equal(runs, 2);
});

test("a call leaves what it must leave", async () => {
  const { limiter, held } = await openLimiter();
  const limited = limitTool(search, { limiter, entityId: "key-1", leavePercent: 50 });
  await limited("buckets", 3);
  await assert.rejects(limited("buckets", 3), (error) => error instanceof RateLimitExceeded);
  assert.equal((await held()).calls, 1);
  assert.throws(() => limitTool(search, { limiter, entityId: "key-1", leavePercent: 100 }), ValidationError);
});

test("a call that throws, also before its first await, gives its tokens back", async () => {
  const { limiter, held } = await openLimiter();
  const fault = new Error("no such page");
  const fail = () => {
    throw fault;
  };
  for (const fn of [fail, async () => fail()]) {
    const limited = limitTool(fn, { limiter, entityId: "key-1", resource: "tool:search" });
    await assert.rejects(limited(), fault);
  }
  assert.deepEqual(await held(), { calls: 2, rpm: 10, day: 100 });
});

test("entity, resource and amounts may be functions of the arguments, and any text may be a resource", async () => {
  const { limiter, held } = await openLimiter();
  await limiter.setResourceDefaults("text:tool:two_20words", [Limit.perMinute("pages", 50)]);
  const limited = limitTool(search, {
    limiter: Promise.resolve(limiter),
    entityId: async (words) => words,
    resource: () => "tool:two words",
    consume: (_, pages) => ({ pages }),
  });
  await limited("key-1", 20);
  assert.deepEqual(await held("text:tool:two_20words"), { pages: 30 });
});

test("a budget that only a parent or a total has is charged by the request", async () => {
  const { limiter } = await openLimiter();
  await limiter.setTotals("key-1", [Limit.quota("month", 5, { counts: "requests", reset: "monthly" })]);
  await limitTool(search, { limiter, entityId: "key-1", resource: "elsewhere" })("x", 1);
  const [total] = await limiter.available({ entityId: "key-1", resource: "*" });
  assert.equal(total?.available, 4);
});

test("the lease is the current one within the function, which may be a method", async () => {
  const { limiter, held } = await openLimiter();
  const shop = {
    stock: 7,
    search: limitTool(
      async function search(this: { stock: number }) {
        await currentLease()?.adjust({ calls: 1 });
        return this.stock;
      } as () => Promise<number>,
      { limiter, entityId: "key-1" },
    ),
  };
  assert.equal(await shop.search(), 7);
  assert.deepEqual(await held(), { calls: 0, rpm: 9, day: 98 });
});

test("a call may wait for its tokens", async () => {
  const { limiter, clock } = await openLimiter();
  const limited = limitTool(search, { limiter, entityId: "key-1", wait: { maxMs: 30_000 } });
  await limited("a", 1);
  await limited("b", 1);
  const third = limited("c", 1);
  await clock.advance(30_000);
  assert.equal(await third, "1 pages about c");
});

test("options that are wrong are refused when the tool is made", async () => {
  const { limiter } = await openLimiter();
  const good = { limiter, entityId: "key-1" };
  const wrong: readonly [unknown, unknown, string, RegExp][] = [
    ["search", good, "tool_invalid", /"search"/],
    [search, { entityId: "key-1" }, "option_invalid", /limiter of limitTool is undefined/],
    [search, { limiter }, "option_invalid", /entityId of limitTool is undefined/],
    [search, { limiter, entityId: "" }, "option_invalid", /entityId/],
    [search, { ...good, resource: 3 }, "option_invalid", /resource of limitTool is 3/],
    [search, { ...good, consume: 1 }, "option_invalid", /consume of limitTool is 1/],
    [search, { ...good, wait: { maxMs: -1 } }, "option_invalid", /wait/],
    [search, { ...good, amount: 1 }, "option_unknown", /amount/],
    [async () => 1, good, "option_invalid", /has no name, and no resource is given/],
  ];
  for (const [fn, options, code, message] of wrong) {
    assert.throws(
      () => limitTool(fn as () => void, options as typeof good),
      (error) => error instanceof ValidationError && error.code === code && message.test(error.message),
    );
  }
});

test("a tool that its caller aborts has been called, by whichever argument the signal comes", async (t) => {
  const limiter = await RateLimiter.open({ store: "memory" });
  t.after(() => limiter.close());
  await limiter.setSystemDefaults([Limit.perDay("calls", 9)]);
  const left = async () => (await limiter.available({ entityId: "key-1", resource: "tool:search" }))[0]?.available;
  const search = limitTool(
    async function search(_words: string, _given: unknown) {
      throw new Error("stopped");
    },
    { limiter, entityId: "key-1" },
  );
  const signal = AbortSignal.abort();
  for (const given of [signal, { signal }, { abortSignal: signal }]) await assert.rejects(search("a", given));
  assert.equal(await left(), 6);
  await assert.rejects(search("a", { signal: new AbortController().signal }));
  assert.equal(await left(), 6);
});
