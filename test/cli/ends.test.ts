import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { test } from "node:test";
import { tempFile } from "../sqlite/temp-store.ts";
import { onFile } from "./on-file.ts";

// Limits and access with an end, as operators set, see and end them.

const HOUR_MS = 3_600_000;

test("limits that are set for an hour hide those before, are shown with what follows, and can be ended", async (t) => {
  const { run } = await onFile(t, "resource set-defaults gpt-4 -l rpm:600", "entity create key-1");
  const json = async (line: string) => JSON.parse((await run(`${line} --json`)).stdout);
  const limits = async () =>
    (await json("entity get-limits key-1")).limits.map(({ capacity }: { capacity: number }) => capacity);
  await run("entity set-limits key-1 -l rpm:100");
  const before = Date.now();
  const set = await json("entity set-limits key-1 -l rpm:5000 --for 1h");
  assert.ok(set.untilMs >= before + HOUR_MS && set.untilMs <= Date.now() + HOUR_MS, String(set.untilMs));
  assert.deepEqual([await limits(), set.changed], [[5000], true]);
  assert.equal(set.then.limits[0].capacity, 100);
  const shown = (await run("entity get-limits key-1")).stdout;
  assert.match(
    shown,
    /^key-1\n {2}rpm:5000\/min\n {2}until (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d UTC, then rpm:100\/min\n$/,
  );
  const explained = (await run("explain key-1 gpt-4")).stdout.replaceAll(/\s+/g, " ");
  assert.match(explained, /rpm:5000\/min \(until .* UTC,.* then 100 a minute\)/);
  // The base changes under it, or it is gone with a plain set.
  assert.deepEqual((await json("entity set-limits key-1 -l rpm:200 --keep-override")).then.limits[0].capacity, 200);
  assert.deepEqual(await limits(), [5000]);
  const dry = await json("entity delete-limits key-1 --override --yes --dry-run");
  assert.deepEqual([dry.override, dry.limits[0].capacity, await limits()], [true, 200, [5000]]);
  assert.equal((await run("entity delete-limits key-1 --override --yes")).code, 0);
  assert.deepEqual(await limits(), [200]);
  const none = await run("entity delete-limits key-1 --override --yes");
  assert.equal(none.code, 4);
  assert.match(none.stderr, /No limits of key-1 have an end/);
  await run("entity set-totals key-1 -l rpm:7 --for 1h");
  const audit = (await run("audit list -e key-1")).stdout;
  const what = audit.replaceAll(/(\d{4}-\d\d-\d\d )?\d\d:\d\d(:\d\d)? UTC/g, "…").split("\n");
  assert.deepEqual(
    what.slice(1, 6).map((row) => row.slice(20).trim().split(/ {2,}/)[0]),
    [
      "totals set, until …",
      "limits deleted, override ended",
      "limits set, under an override until …",
      "limits set, until …, replaced …",
      "limits set",
    ],
  );
});

test("an end is one instant: both, a duration in its place, and settings with one are refused", async (t) => {
  const { run } = await onFile(t);
  for (const [line, said] of [
    ["entity set-limits a -l rpm:1 --for 1h --until 2030-01-01T00:00Z --allow-unknown", /both name the end/],
    ["entity set-limits a -l rpm:1 --until 1h --allow-unknown", /give --for 1h/],
    ["entity set-limits a -l rpm:1 --for soon --allow-unknown", /--for is "soon"/],
    [
      "entity set-limits a -l rpm:1 --for 1h --keep-override --allow-unknown",
      /--keep-override is for limits without an end/,
    ],
    ["system set-defaults -l rpm:1 --on-unavailable allow --for 1h", /Settings have no end/],
    ["system set-defaults --on-unavailable allow --for 1h", /Settings have no end/],
    ["access set disabled -e a --for 1h --until 2030-01-01T00:00Z --allow-unknown", /both name the end/],
    ["cascade set off -e a --for 1h --allow-unknown", /--for/],
    ["entity set-limits a -l rpm:1 --for 367d --allow-unknown", /366 days/],
    ["entity set-limits a -l rpm:1 --until 2020-01-01T00:00Z --allow-unknown", /give a later instant/],
  ] as const) {
    const { code, stderr } = await run(line);
    assert.ok(code === 2 || /until_invalid|later instant|366 days/.test(stderr), `${line}: ${code} ${stderr}`);
    assert.match(stderr, said);
  }
  assert.equal((await run("entity get-limits a")).code, 4);
});

test("access that is set for a time says when it ends and what follows", async (t) => {
  const { run } = await onFile(t, "resource set-defaults gpt-4 -l rpm:10", "entity create key-1");
  assert.match((await run("access set disabled -e key-1 --for 1h")).stdout, /access disabled until .* UTC/);
  const shown = JSON.parse((await run("access show -e key-1 --json")).stdout);
  assert.deepEqual([shown.access, "accessThen" in shown], ["disabled", false]);
  assert.ok(shown.accessUntilMs > Date.now());
  assert.match((await run("access show -e key-1")).stdout, /access disabled until .* UTC, then inherit/);
  assert.match((await run("explain key-1 gpt-4")).stdout, /key-1 is disabled on everything until .* UTC/);
  assert.equal((await run("access set enforce -e key-1")).code, 0);
  assert.equal("accessUntilMs" in JSON.parse((await run("access show -e key-1 --json")).stdout), false);
});

test("a manifest declares what counts afterwards, says so, and is exported with a note", async (t) => {
  const { run } = await onFile(t);
  const file = `${tempFile(t)}.yaml`;
  const declare = (n: number) => writeFileSync(file, `owner: ops\nresources:\n  gpt-4: { limits: { rpm: ${n} } }\n`);
  declare(100);
  assert.equal((await run(`limits apply -f ${file} --yes`)).code, 0);
  await run("resource set-defaults gpt-4 -l rpm:9 --for 1h");
  assert.equal((await run(`limits diff -f ${file}`)).code, 0, "no drift");
  declare(200);
  const plan = JSON.parse((await run(`limits plan -f ${file} --json`)).stdout);
  assert.ok(plan.changes[0].overrideUntilMs > Date.now(), JSON.stringify(plan.changes));
  assert.match(plan.warnings.join(), /hides it/);
  assert.equal((await run(`limits apply -f ${file} --yes`)).code, 0);
  const level = JSON.parse((await run("resource get-defaults gpt-4 --json")).stdout);
  assert.deepEqual([level.limits[0].capacity, level.then.limits[0].capacity], [9, 200]);
  const exported = await run("limits export");
  assert.match(exported.stdout, /^# yaml-language-server.*\n# .*is not exported, but what counts afterwards\.\n/);
  assert.match(exported.stdout, /rpm:200|200/);
  assert.match(exported.stderr, /Note: .*is not exported/);
});
