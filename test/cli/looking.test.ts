import assert from "node:assert/strict";
import { test } from "node:test";
import { onFile } from "./on-file.ts";

test("bucket list without a resource has the buckets of all, and usage totals has a sum for each", async (t) => {
  const { run } = await onFile(
    t,
    "system set-defaults -l rpm:100 -l tpm:1000",
    "entity create proj-1",
    "entity create key-1 --parent proj-1",
    "acquire key-1 gpt-4 -c rpm=1 -c tpm=10 --allow-unknown",
    "acquire key-1 claude -c rpm=1 -c tpm=20 --allow-unknown",
  );
  const rows = async (line: string) => JSON.parse((await run(`${line} --json`)).stdout).items;
  const places = (await rows("bucket list")).map(({ entityId, resource, limit }: Record<string, string>) =>
    [entityId, resource, limit].join(" "),
  );
  const of = (entityId: string) =>
    ["claude", "gpt-4"].flatMap((resource) => ["rpm", "tpm"].map((limit) => `${entityId} ${resource} ${limit}`));
  assert.deepEqual(places.sort(), [...of("key-1"), ...of("proj-1")].sort());
  assert.equal((await rows("bucket list -e key-1")).length, 4);
  assert.equal((await rows("bucket list -e key-1 -r claude")).length, 2);
  const sums = (await rows("usage totals")).map(({ entityId, requests, total }: Record<string, unknown>) => [
    ...[entityId, requests, total],
  ]);
  assert.deepEqual(sums, [
    ["key-1", 2, { rpm: 2, tpm: 30 }],
    ["proj-1", 2, { rpm: 2, tpm: 30 }],
  ]);
  const [claude] = await rows("usage totals --by resource -e key-1");
  assert.deepEqual([claude.resource, claude.total], ["claude", { rpm: 1, tpm: 20 }]);
  const table = (await run("usage totals --by resource -e key-1")).stdout;
  assert.equal(
    table,
    "RESOURCE  REQUESTS  TOKENS\nclaude           1  rpm=1 tpm=20\ngpt-4            1  rpm=1 tpm=10\n",
  );
  assert.equal(
    (await run("usage totals --from 2000-01-01 --to 2000-01-02")).stdout,
    "No usage in that time. Usage of totals is under -r '*'.\n",
  );
});

test("usage by zone, of callers without limits, and of totals", async (t) => {
  const { run } = await onFile(
    t,
    "entity create org",
    "entity create key-1 --parent org",
    "entity set-limits org -l rpm:100",
    "entity set-totals org -l usd:$50/day",
    "acquire key-1 gpt-4 -c rpm=1 -c usd=$2 --allow-unknown",
  );
  const days = await run("usage list -e key-1 -w daily --tz Asia/Kolkata");
  const day = new Intl.DateTimeFormat("sv-SE", { timeZone: "Asia/Kolkata" }).format(new Date());
  assert.match(days.stdout, new RegExp(`${day} +key-1 +gpt-4 +1 +rpm=1 usd=`));
  const rows = async (line: string) => JSON.parse((await run(`${line} --json`)).stdout).items;
  assert.deepEqual(
    (await rows("usage list --totals")).map(({ entityId, resource }: Record<string, string>) => [entityId, resource]),
    [
      ["key-1", "gpt-4"],
      ["org", "*"],
      ["org", "gpt-4"],
    ],
  );
  assert.match((await run("usage summary")).stdout, /inTotal +usd=/);
  const wrong = await run("usage list -w daily --tz Mars/Olympus");
  assert.equal(wrong.code, 2);
  assert.match(wrong.stderr, /Mars\/Olympus/);
});

test("--leave-percent: a request that leaves too little is refused, and said so", async (t) => {
  const { run } = await onFile(t, "resource set-defaults gpt-4 -l rpm:100/day", "entity create key-1");
  const ask = async (line: string) => run(line);
  assert.equal((await ask("acquire key-1 gpt-4 -c rpm=60 --leave-percent 40")).code, 0);
  const refused = await ask("acquire key-1 gpt-4 -c rpm=1 --leave-percent 40");
  assert.equal(refused.code, 1, refused.stderr);
  assert.match((await ask("explain key-1 gpt-4 -c rpm=1 --leave-percent 40")).stdout, /the request must leave 40/);
  assert.equal((await ask("available key-1 gpt-4 -c rpm=1 --leave-percent 40 --exit-code")).code, 1);
  assert.equal((await ask("available key-1 gpt-4 -c rpm=1 --leave-percent 39 --exit-code")).code, 0);
  for (const wrong of [
    "available key-1 gpt-4 --leave-percent 40",
    "acquire key-1 gpt-4 -c rpm=1 --leave-percent 100",
  ]) {
    const { code, stderr } = await ask(wrong);
    assert.equal(code, 2, stderr);
    assert.match(stderr, /--leave-percent/);
  }
});

test("explain says what a shadow would have refused in this hour, and acquire and usage name it", async (t) => {
  const { run } = await onFile(
    t,
    "resource set-defaults gpt-4 -l rpm:100 -l tpd:1000/day,shadow",
    "entity create key-1",
  );
  assert.match((await run("resource get-defaults gpt-4")).stdout, /tpd:1000\/day,shadow|1000\/day,shadow/);
  const shadowed = async () =>
    JSON.parse((await run("acquire key-1 gpt-4 -c rpm=1 -c tpd=700 --json")).stdout).shadowed as readonly string[];
  assert.deepEqual([await shadowed(), await shadowed(), await shadowed()], [[], ["tpd"], ["tpd"]]);
  const { stdout } = await run("explain key-1 gpt-4 -c tpd=5000");
  assert.match(stdout, /^key-1 may take 5000 tpd from gpt-4 now\./);
  assert.match(stdout, /^tpd of key-1 {2}shadow {2}would have refused 2 of 3 this hour$/m);
  assert.match((await run("explain key-1 gpt-4")).stdout, /any tpd \(only measured\)/);
  assert.match((await run("usage summary -e key-1")).stdout, /wouldRefuse +tpd=2/);
  for (const asked of ["usage totals", "usage list"]) {
    const { stdout } = await run(asked);
    assert.match(stdout.replace(/\s+/g, " "), /rpm=3 tpd=700 \(would refuse tpd=2\)/);
  }
});
