import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { tempFile } from "../sqlite/temp-store.ts";
import { here } from "./in-process.ts";

/** A key below acme, which has $50 a month over all models; a call of $0.25 was made. */
async function budget(t: TestContext) {
  const store = ["--store", `sqlite:${tempFile(t)}`];
  const said = async (code: number, ...args: string[]) => {
    const ran = await here([...args, ...store]);
    assert.equal(ran.code, code, `${args.join(" ")}: ${ran.stdout}${ran.stderr}`);
    return ran.stdout || ran.stderr;
  };
  await said(0, "init");
  await said(0, "entity", "create", "acme");
  await said(0, "entity", "create", "key-1", "--parent", "acme");
  await said(0, "entity", "set-totals", "acme", "-l", "usd:$50/month");
  await said(
    0,
    "resource",
    "set-defaults",
    "gpt-5-mini",
    "-l",
    "rpm:60,counts=requests",
    "-l",
    "team_usd:$5/year,counts=usd",
  );
  await said(0, "acquire", "key-1", "gpt-5-mini", "-c", "usd=$0.25");
  return said;
}

test("a budget of $50 a month is stored as a quota of 50,000,000, and printed as it can be typed again", async (t) => {
  const said = await budget(t);
  assert.match(await said(0, "entity", "get-totals", "acme"), /usd:\$50\/month$/m);
  const { limits } = JSON.parse(await said(0, "entity", "get-totals", "acme", "--json"));
  assert.deepEqual(limits, [
    {
      name: "usd",
      capacity: 50_000_000,
      refillAmount: 0,
      refillPeriodMs: 1_000,
      reset: { cron: "0 0 1 * *", tz: "UTC" },
    },
  ]);
});

test("a period that money cannot have is wrong use, and the remedy is in tokens", async (t) => {
  const said = await budget(t);
  const told = await said(2, "entity", "set-totals", "acme", "-l", "usd:$5/min");
  assert.match(
    told,
    /the period of money is "min"; give one of \/hour, .*Money that drips is written in tokens.*5000000\/min/,
  );
});

test("explain shows a limit called usd, or ending in _usd, as money; JSON stays in tokens", async (t) => {
  const said = await budget(t);
  const told = await said(0, "explain", "key-1", "gpt-5-mini");
  assert.match(told, /up to \$4\.75 of usd from gpt-5-mini now/);
  assert.match(told, /^key-1 +\$4\.75 +\$5\.00 +team_usd:\$5\/year,counts=usd +the resource$/m);
  assert.match(told, /^acme +\$49\.75 +\$50\.00 +\*\/usd:\$50\/month +its own total$/m);
  const refused = await said(0, "explain", "key-1", "gpt-5-mini", "-c", "usd=$4.80");
  assert.match(
    refused,
    /key-1 may take \$4\.75 more of usd now; \$4\.80 fit in .* because its team_usd holds \$4\.75 of \$5\.00 and is full again/,
  );
  const { levels } = JSON.parse(await said(0, "explain", "key-1", "gpt-5-mini", "--json"));
  assert.deepEqual([levels[1].totals[0].available, levels[1].totals[0].capacity], [49_750_000, 50_000_000]);
});

test("watch, available and the list of buckets show money, also a debt; JSON stays in tokens", async (t) => {
  const said = await budget(t);
  assert.match(
    await said(0, "watch", "--once", "--interval", "10ms"),
    /^acme \* usd .*\$49\.75\/\$50\.00 \$0\.00\/s$/m,
  );
  assert.match(await said(0, "available", "key-1", "gpt-5-mini"), /^acme +\*\/usd +usd +\$49\.75 +\$50\.00$/m);
  assert.match(await said(0, "bucket", "list", "-e", "key-1"), /team_usd +usd +\$4\.75 +\$5\.00$/m);
  const { items } = JSON.parse(await said(0, "watch", "--once", "--interval", "10ms", "--json"));
  const total = items.find(({ resource }: { resource: string }) => resource === "*");
  assert.deepEqual([total.available, total.capacity], [49_750_000, 50_000_000]);
});

test("usage shows money in its lists, sums, means and charts; JSON and exports stay in tokens", async (t) => {
  const said = await budget(t);
  await said(0, "acquire", "key-1", "gpt-5-mini", "-c", "usd=$0.000001");
  assert.match(await said(0, "usage", "list", "-e", "key-1"), /rpm=2 team_usd=\$0\.250001$/m);
  assert.match(await said(0, "usage", "list", "-e", "acme", "-r", "*"), /usd=\$0\.250001$/m);
  assert.match(await said(0, "usage", "totals"), /^key-1 +2 +rpm=2 team_usd=\$0\.250001$/m);
  assert.match(
    await said(0, "usage", "chart", "-e", "key-1", "-l", "team_usd"),
    /^team_usd {2}\$0\.250001 in 1 window\n.* \$0\.250001 /,
  );
  const summary = await said(0, "usage", "summary");
  assert.match(summary, /^total +rpm=4 team_usd=\$0\.500002$/m);
  assert.match(summary, /^average +rpm=2 team_usd=\$0\.250001$/m);
  const { items } = JSON.parse(await said(0, "usage", "list", "-e", "key-1", "--json"));
  assert.deepEqual(items[0].counters, { rpm: 2, team_usd: 250_001 });
  assert.match(await said(0, "usage", "export", "-e", "key-1"), /250001/);
});

test("money is topped up in dollars", async (t) => {
  const said = await budget(t);
  await said(0, "bucket", "top-up", "acme", "*", "-a", "usd=$10", "--yes");
  assert.match(await said(0, "explain", "acme", "*"), /\$59\.75 +\$60\.00 +usd:\$50\/month \(\$10\.00 topped up\)/);
});
