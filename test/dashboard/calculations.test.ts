import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { changesOf } from "../../src/dashboard/audit-change.ts";
import { corrected, isBetween, matches, reread, rowOf } from "../../src/dashboard/bucket-rows.ts";
import { filtered, metadataOf, metadataText, treeOf } from "../../src/dashboard/entity-tree.ts";
import { levelAt, rateOf, stateOf } from "../../src/dashboard/level.ts";
import { draftOf, isChanged, limitOf, newDraft } from "../../src/dashboard/limit-draft.ts";
import { joinedRefusals, refusalSums } from "../../src/dashboard/refusal-sums.ts";
import { hrefOf, parseRoute } from "../../src/dashboard/route.ts";
import type { AuditEvent, Entity, UsageSnapshot } from "../../src/dashboard/shapes.ts";
import {
  type Counted,
  chargedTo,
  countedUsage,
  metricsOf,
  rangeOf,
  seriesOf,
  totalsOf,
  trimmed,
  windowStarts,
} from "../../src/dashboard/usage-series.ts";
import {
  amountsText,
  dayWords,
  durationWords,
  quoted,
  rateText,
  rateWords,
  short,
  tokensWords,
  waitWords,
  whole,
} from "../../src/dashboard/words.ts";
import type { Kin } from "../../src/domain/charge/own-usage.ts";
import { AuditEnds } from "../../src/domain/config/audit.ts";
import { Limit } from "../../src/entry/index.ts";

// What the dashboard works out by itself, without a browser.

const held = {
  limit: "rpm",
  counts: "rpm",
  available: 10,
  capacity: 60,
  kind: "drip",
  soft: false,
  shadow: false,
} as const;

test("a level rises by whole tokens with time, up to the capacity and no further", () => {
  const rate = { amount: 60, periodMs: 60_000 };
  for (const [elapsedMs, level] of [
    [0, 10],
    [999, 10],
    [1_000, 11],
    [49_999, 59],
    [50_000, 60],
    [9e9, 60],
    [-5_000, 10],
  ] as const) {
    assert.equal(levelAt(held, rate, elapsedMs), level, `${elapsedMs} ms`);
  }
  assert.equal(levelAt({ ...held, available: -30 }, rate, 20_000), -10, "debt is paid first");
  assert.equal(levelAt({ ...held, available: 75 }, rate, 20_000), 75, "what was topped up stays");
  assert.equal(levelAt({ ...held, kind: "calendar" }, rate, 20_000), 10, "a quota does not drip");
  assert.equal(levelAt(held, undefined, 20_000), 10, "nor does what nobody knows the rate of");
});

test("the rate is that of the window that is open, which the capacity shows", () => {
  const limit = Limit.perMinute("rpm", 100, {
    schedule: [
      { cron: "* 9-17 * * *", scale: 0.5 },
      { cron: "* 18 * * *", capacity: 10, refillAmount: 3 },
    ],
  });
  assert.deepEqual(rateOf(limit, 100), { amount: 100, periodMs: 60_000 });
  assert.deepEqual(rateOf(limit, 50), { amount: 50, periodMs: 60_000 });
  assert.deepEqual(rateOf(limit, 10), { amount: 3, periodMs: 60_000 });
  assert.equal(rateOf(limit, 77), undefined, "the bucket knows other limits than those that are stored");
  assert.equal(rateOf(undefined, 100), undefined);
});

test("empty, in debt and low are told apart", () => {
  assert.deepEqual(
    [-1, 0, 1, 20, 21, 100].map((level) => stateOf(level, 100)),
    ["debt", "empty", "low", "low", "plenty", "plenty"],
  );
});

const bucket = (entityId: string, available: number) => ({
  entityId,
  resource: "api",
  limits: [{ ...held, available }],
});
const idsOf = (rows: readonly { readonly entityId: string }[]) => rows.map(({ entityId }) => entityId).join("");

test("a list that is read again keeps the places of its rows", () => {
  const rows = ["a", "c", "d"].map((id) => rowOf(bucket(id, 1), 0));
  const again = reread(
    rows,
    ["a", "b", "d"].map((id) => bucket(id, 2)),
    5,
  );
  assert.equal(idsOf(again), "adb");
  assert.ok(again.every(({ limits, readAtMs }) => limits[0]?.available === 2 && readAtMs === 5));
  assert.equal(corrected(rows, bucket("c", 9), 7)?.[1]?.limits[0]?.available, 9);
  assert.equal(corrected(rows, bucket("x", 9), 7), undefined);
});

test("only what belongs between the rows of a page is missing on it", () => {
  const rows = ["b", "d"].map((id) => rowOf(bucket(id, 1), 0));
  assert.deepEqual(
    ["a", "c", "e"].map((id) => isBetween(rows, bucket(id, 1), false)),
    [false, true, false],
  );
  assert.equal(isBetween(rows, bucket("a", 1), true), true, "before the first of all");
  assert.equal(isBetween([], bucket("a", 1), true), false);
});

test("a filter is words, each a part of the entity or the resource", () => {
  const one = { entityId: "key-1", resource: "models/gpt-4" };
  for (const filter of ["", "key", "GPT", "key gpt", " gpt  key-1 "]) assert.ok(matches(one, filter), filter);
  for (const filter of ["key-2", "key o1"]) assert.ok(!matches(one, filter), filter);
});

test("a limit survives being edited, whatever its kind", () => {
  const limits = [
    Limit.perMinute("rpm", 100),
    Limit.custom("tpm", { capacity: 20_000, refillAmount: 10_000, refillPeriodMs: 30_000, soft: true }),
    Limit.quota("month", 1_000, { reset: { cron: "0 0 1 * *", tz: "Europe/Berlin" } }),
    Limit.quota("session", 500, { counts: "tpm", resetAfterMs: 18_000_000, notifyAt: [50, 80] }),
    Limit.perMinute("rpm", 100, { schedule: [{ cron: "* 9-17 * * 1-5", tz: "Asia/Tokyo", scale: 0.5 }] }),
    Limit.perMinute("rpm", 100, {
      schedule: [{ cron: "* 9 * * *", capacity: 7, refillAmount: 3, refillPeriodMs: 9_000 }],
    }),
  ];
  for (const limit of limits) {
    const draft = draftOf(limit);
    assert.deepEqual(limitOf(draft), limit);
    assert.equal(isChanged(draft, draftOf(limit)), false);
    assert.equal(isChanged(draft, { ...draft, capacity: "8" }), true);
    assert.equal(isChanged(draft, { ...draft, capacity: String(limit.capacity) }), false, "60000 is 60,000");
    assert.equal(isChanged(draft, { ...draft, windows: [] }), limit.schedule !== undefined);
  }
});

test("what is no number is named, with the limit and the field", () => {
  const draft = { ...newDraft(), name: "rpm" };
  assert.equal(limitOf({ ...draft, capacity: "12,000" }).capacity, 12_000);
  assert.equal(limitOf({ ...draft, period: " 3600 " }).refillPeriodMs, 3_600_000);
  for (const [text, capacity] of [
    ...([
      ["9k", 9_000],
      ["60,000", 60_000],
      ["1,234,567", 1_234_567],
      ["60 000", 60_000],
      ["10_000", 10_000],
    ] as const),
    ...([
      ["2M", 2_000_000],
      ["$5", 5_000_000],
      ["$0.29", 290_000],
      ["$1,000", 1_000_000_000],
      ["$2k", 2_000_000_000],
    ] as const),
  ]) {
    assert.equal(limitOf({ ...draft, capacity: text }).capacity, capacity, text);
  }
  for (const wrong of ["", "ten", "1e3", "0x10", "1,00", "1,0000", "9m", "$", "$0.1234567", "NaN", "Infinity"]) {
    assert.throws(() => limitOf({ ...draft, capacity: wrong }), /rpm: the capacity is ".*"; give a number/, wrong);
  }
  assert.throws(() => limitOf({ ...draft, name: " " }), /has no name/);
});

const entity = (id: string, parentId?: string): Entity => ({
  ...{ id, name: id.toUpperCase(), cascade: true, metadata: {}, version: 1, createdAtMs: 0, updatedAtMs: 0 },
  ...(parentId === undefined ? {} : { parentId }),
});

test("entities hang below their parents; whose parent is unknown stands at the top", () => {
  const tree = treeOf([entity("c", "b"), entity("b", "a"), entity("a"), entity("x", "elsewhere")]);
  assert.deepEqual(
    tree.map((node) => [node.entity.id, node.children[0]?.entity.id, node.children[0]?.children[0]?.entity.id]),
    [
      ["a", "b", "c"],
      ["x", undefined, undefined],
    ],
  );
  const found = filtered(tree, "C");
  assert.deepEqual([found.length, found[0]?.entity.id, found[0]?.children[0]?.children[0]?.entity.id], [1, "a", "c"]);
  assert.deepEqual(filtered(tree, "nobody"), []);
});

test("metadata are lines of a text, there and back", () => {
  const metadata = { plan: "gold", note: "a=b" };
  assert.deepEqual(metadataOf(metadataText(metadata)), metadata);
  assert.throws(() => metadataOf("plan"), /the line "plan" is not key=value/);
});

let events = 0;
const event = (
  action: AuditEvent["action"],
  details: AuditEvent["details"],
  more: Partial<AuditEvent> = {},
): AuditEvent => ({
  ...{ eventId: String(++events), atMs: 0, action, entityId: "key-1", details },
  ...more,
});

test("an audit event's old values are found further down the trail, on the same thing", () => {
  const trail = [
    event("limits_deleted", {}),
    event("limits_set", { limits: [Limit.perMinute("rpm", 60)] }),
    event("limits_set", { limits: [Limit.perMinute("rpm", 1)] }, { resource: "other" }),
    event("entity_updated", { parentId: null }),
    event("limits_set", { limits: [Limit.perMinute("rpm", 100), Limit.perMinute("tpm", 5)] }),
    event("entity_created", { name: "key-1", cascade: true, parentId: "acme", metadata: {} }),
  ];
  assert.deepEqual(changesOf(trail, 0, true), [{ field: "rpm", before: "60, refills 60/min", after: "none" }]);
  assert.deepEqual(changesOf(trail, 1, true), [
    { field: "rpm", before: "100, refills 100/min", after: "60, refills 60/min" },
    { field: "tpm", before: "5, refills 5/min", after: "none" },
  ]);
  assert.deepEqual(changesOf(trail, 3, true), [{ field: "parentId", before: "acme", after: "none" }]);
  assert.deepEqual(changesOf(trail, 4, true)[0], { field: "rpm", before: "none", after: "100, refills 100/min" });
  assert.equal(changesOf(trail, 4, false)[0]?.before, undefined, "older than what was read: not known");
  assert.deepEqual(
    changesOf(trail, 5, false).map(({ before, after }) => [before, after]),
    [
      ["none", "key-1"],
      ["none", "true"],
      ["none", "acme"],
    ],
  );
});

test("an event under an override changes the base, one of an override what is in force, and its end neither", () => {
  const at = (atMs: number, action: AuditEvent["action"], details: object): AuditEvent => ({
    ...{ eventId: `${atMs}`, atMs, action, entityId: "key-1", details: details as AuditEvent["details"] },
  });
  const set = (atMs: number, rate: number, end: object = {}) =>
    at(atMs, "limits_set", { limits: [Limit.perMinute("rpm", rate)], ...end });
  const trail = [
    set(90, 7),
    at(70, "limits_deleted", { override: true }),
    set(60, 6, { untilMs: 80 }),
    set(55, 5),
    set(30, 3, { underUntilMs: 50 }),
    set(20, 2, { untilMs: 50 }),
    set(10, 1),
  ];
  const rates = trail.map((_, i) =>
    changesOf(trail, i, true).map(({ before, after }) => [before, after].map((text) => text?.replace(/, .*/, ""))),
  );
  assert.deepEqual(rates, [
    [["5", "7"]],
    [["6", "5"]],
    [["5", "6"]],
    [["3", "5"]],
    [["1", "3"]],
    [["1", "2"]],
    [["none", "1"]],
  ]);
  const late = trail.slice(0, 2);
  assert.deepEqual(changesOf(late, 1, false), [], "the base is older than what was read");
  const ends = new AuditEnds(65, String);
  assert.deepEqual(
    trail.map((event) => ends.of(event)),
    [
      undefined,
      "override ended",
      "until 80, replaced 70",
      undefined,
      "under an override until 50",
      "ended 50",
      undefined,
    ],
  );
  assert.equal(new AuditEnds(65, String).of(set(60, 6, { untilMs: 80 })), "until 80");
  const other = new AuditEnds(65, String);
  other.of({ ...set(62, 9), resource: "gpt-4" });
  assert.equal(other.of(set(60, 6, { untilMs: 80 })), "until 80", "another level was changed");
});

const HOUR_MS = 3_600_000;
const snapshot = (entityId: string, hour: number, tpm: number, resource = "gpt-4"): UsageSnapshot => ({
  ...{ entityId, resource, window: "hourly", windowStartMs: hour * HOUR_MS, windowEndMs: (hour + 1) * HOUR_MS },
  ...{ counters: { tpm }, requests: 1, overdrafts: {}, bypassed: {}, wouldRefuse: {}, heldMs: {} },
});

test("usage becomes a series for each entity, with 0 where nothing was used, the largest first", () => {
  const snapshots = [snapshot("a", 1, 5), snapshot("b", 1, 50), snapshot("b", 3, 1), snapshot("idle", 2, 0)];
  const starts = [0, 1, 2, 3].map((hour) => hour * HOUR_MS);
  const { series, left } = seriesOf(snapshots, "tpm", starts, 1);
  assert.deepEqual([series, left], [[{ name: "b", values: [0, 50, 0, 1], total: 51 }], 1]);
  assert.deepEqual(metricsOf(snapshots), ["granted requests", "tpm"]);
  assert.deepEqual(
    seriesOf([snapshot("a", 1, 5), snapshot("a", 1, 6, "x")], "tpm", starts, 9).series[0]?.name,
    "a on x",
  );
  assert.deepEqual(trimmed(starts, [snapshot("a", 3, 1)], 2), starts.slice(2), "from the window before the first");
  assert.deepEqual(trimmed(starts, [snapshot("a", 3, 1)], 9), starts);
});

test("windows are those of UTC, months of their own length", () => {
  const nowMs = Date.UTC(2026, 2, 1, 0, 30);
  assert.deepEqual(windowStarts("hourly", 2, nowMs), [Date.UTC(2026, 1, 28, 23), Date.UTC(2026, 2, 1)]);
  assert.deepEqual(windowStarts("daily", 2, nowMs), [Date.UTC(2026, 1, 28), Date.UTC(2026, 2, 1)]);
  assert.deepEqual(windowStarts("monthly", 3, nowMs), [
    Date.UTC(2026, 0, 1),
    Date.UTC(2026, 1, 1),
    Date.UTC(2026, 2, 1),
  ]);
});

test("an address names a page and what it shows; an unknown one is the first page", () => {
  const route = { page: "limits", params: { entity: "a+b@x.org", resource: "models/gpt 4" } } as const;
  assert.deepEqual(parseRoute(hrefOf(route.page, route.params)), route);
  assert.deepEqual(parseRoute("#/limits?entity=E&resource=R").params, { entity: "E", resource: "R" });
  for (const hash of ["", "#", "#/nowhere", "#main"]) assert.equal(parseRoute(hash).page, "overview");
  assert.equal(hrefOf("usage", { entity: "", resource: undefined }), "#/usage");
});

test("a number of four digits has a separator as all others, also in the fields that it is edited in", () => {
  assert.equal(whole(1_250), "1,250");
  const draft = draftOf(Limit.custom("tpm", { capacity: 9_000, refillAmount: 1_500, refillPeriodMs: 7_200_000 }));
  assert.deepEqual([draft.capacity, draft.amount, draft.period], ["9,000", "1,500", "7,200"]);
});

test("a limit is money by its name: dollars in every place that shows its amounts, and in the fields that change it", () => {
  assert.deepEqual(
    [tokensWords("usd", 49_750_000), tokensWords("day_usd", -250_000), tokensWords("tpm", 49_750_000)],
    ["$49.75", "-$0.25", "49,750,000"],
  );
  assert.equal(amountsText({ usd: 250_000, rpm: 1 }), "$0.25 usd, 1 rpm");
  assert.deepEqual([short("usd", 1_500_000), short("tpm", 1_500_000)], ["$1.50", "1.5m"]);
  const draft = draftOf(Limit.quota("usd", 50_000_000, { reset: "monthly" }));
  assert.equal(draft.amount, "$50.00");
  assert.equal(limitOf(draft).capacity, 50_000_000);
});

test("numbers, rates and waits are written for people, and a wait is never said too short", () => {
  assert.deepEqual([whole(9_999), whole(10_000), whole(-12_345)], ["9,999", "10,000", "-12,345"]);
  assert.deepEqual(
    [rateWords("rpm", 60, 60_000), rateWords("rpm", 5, 30_000), rateWords("usd", 2_000_000, 86_400_000)],
    ["60/min", "5 in 30 s", "$2.00/day"],
  );
  assert.deepEqual([0, 1, 950, 10_001, 61_000, null].map(waitWords), [
    "now",
    "0.1 s",
    "1.0 s",
    "11 s",
    "1 min 1 s",
    "never",
  ]);
  assert.deepEqual([durationWords(90_061_000), durationWords(3_600_000)], ["1 d 1 h", "1 h"]);
});

test("a command to be copied is one a shell takes literally, whatever a link put into it", () => {
  for (const text of ["plain", "it's", "'; touch hacked; '", '$(id) `id` \\ "x"', "''"]) {
    assert.equal(execFileSync("sh", ["-c", `printf %s ${quoted(text)}`], { encoding: "utf8" }), text);
  }
});

test("limits that could not be read are asked for again with the next reading, those that were are not", async () => {
  const answers = [new Error("503"), { limits: [{ name: "rpm", capacity: 60 }] }];
  let asked = 0;
  const get = async () => {
    const answer = answers[asked++];
    if (answer instanceof Error) throw answer;
    return answer;
  };
  // By a name that the compiler does not follow: its types are those of a browser.
  const { Rates } = await import(String("../../src/dashboard/rates.ts"));
  const rates = new Rates({ get }, "/v1/namespaces/default");
  assert.deepEqual(await rates.limits("key-1", "gpt-4"), []);
  for (let i = 0; i < 2; i++) assert.equal((await rates.limits("key-1", "gpt-4"))[0]?.name, "rpm");
  assert.equal(asked, 2);
});

test("refusals of several windows are added up by who, what and whose limit, the most first", () => {
  const about = { resource: "api", limit: "rpm", total: false, window: "hourly" as const };
  const { sums, all } = refusalSums([
    { ...about, entityId: "a", level: "a", windowStartMs: 0, count: 2 },
    { ...about, entityId: "b", level: "org", windowStartMs: 0, count: 4 },
    { ...about, entityId: "a", level: "a", windowStartMs: 3_600_000, count: 3 },
    { ...about, entityId: "a", level: "org", windowStartMs: 0, count: 1 },
    { ...about, entityId: "a", level: "org", total: true, windowStartMs: 0, count: 1 },
  ]);
  assert.equal(all, 11);
  assert.deepEqual(
    sums.map(({ entityId, level, total, count, lastMs }) => [entityId, level, total, count, lastMs]),
    [
      ["a", "a", false, 5, 3_600_000],
      ["b", "org", false, 4, 0],
      ["a", "org", false, 1, 0],
      ["a", "org", true, 1, 0],
    ],
  );
});

test("equal refusals of one minute are one row, the newest first", () => {
  const refusal = (number: number, atMs: number, entityId: string, limit = "rpm") => ({
    number,
    atMs,
    entityId,
    resource: "api",
    primary: { entityId, resource: "api", limit },
  });
  const rows = joinedRefusals([
    refusal(6, 125_000, "a"),
    refusal(5, 119_999, "a"),
    refusal(4, 119_000, "b"),
    refusal(3, 118_000, "a"),
    refusal(2, 60_000, "a", "tpm"),
    refusal(1, 60_000, "a"),
  ]);
  assert.deepEqual(
    rows.map(({ refusal: { number }, count, firstNumber }) => [number, count, firstNumber]),
    [
      [6, 1, 6],
      [5, 3, 1],
      [4, 1, 4],
      [2, 1, 2],
    ],
  );
});

test("a day is said as people say it, and a rate is never 0 for some", () => {
  const nowMs = new Date(2026, 2, 10, 12).getTime();
  const at = (days: number) => new Date(2026, 2, 10 + days, 16, 5).getTime();
  assert.deepEqual(
    [0, 1, 2, 6, 7].map((days) => dayWords(at(days), nowMs)),
    ["today at 16:05", "tomorrow at 16:05", "on Thursday", "on Monday", "on 17 March"],
  );
  assert.deepEqual([0, 0.01, 0.25, 9.94, 12.6, 1_234.5].map(rateText), ["0", "<0.1", "0.3", "9.9", "13", "1,235"]);
});

test("each request is counted once, at the entity that asked, however many levels it was charged to", () => {
  const kin: Kin = new Map(
    [entity("org"), entity("proj", "org"), entity("key-1", "proj"), entity("key-2", "proj")].map((each) => [
      each.id,
      each,
    ]),
  );
  const used = (id: string, requests: number, counters: Record<string, number>) => ({
    ...{ ...snapshot(id, 1, 0), requests, counters },
  });
  const items = [
    used("key-1", 5, { tpm: 500 }),
    used("key-2", 3, { tpm: 30 }),
    // It has asked twice itself; it does not count tpm, but what it hands on is counted above; nobody below counts its month.
    used("proj", 10, { month: 550 }),
    used("org", 11, { tpm: 570 }),
    used("alone", 7, { tpm: 1 }),
  ];
  const own = (counted: Counted) =>
    countedUsage(items, kin, counted).map(({ entityId, requests, counters }) => [entityId, requests, counters]);
  assert.deepEqual(own("once"), [
    ["key-1", 5, { tpm: 500 }],
    ["key-2", 3, { tpm: 30 }],
    ["proj", 2, { month: 550 }],
    ["org", 1, { tpm: 40 }],
    ["alone", 7, { tpm: 1 }],
  ]);
  assert.equal(totalsOf(countedUsage(items, kin, "once")).requests, 18);
  assert.deepEqual(
    own("level-0").map(([id]) => id),
    ["org", "alone"],
  );
  assert.deepEqual(
    own("level-2").map(([id]) => id),
    ["key-1", "key-2"],
  );
  assert.equal(own("all").length, 5);
  // A parent without limits has no usage, and what comes through it is known all the same.
  const through = countedUsage(
    items.filter(({ entityId }) => entityId !== "proj"),
    kin,
    "once",
  );
  assert.deepEqual(through.find(({ entityId }) => entityId === "org")?.requests, 3);
  // Who does not charge its parent is no part of what the parent has.
  const apart: Kin = new Map([...kin, ["key-2", { ...entity("key-2", "proj"), cascade: false }]]);
  assert.deepEqual(countedUsage(items, apart, "once").find(({ entityId }) => entityId === "proj")?.requests, 5);
  assert.deepEqual(
    [chargedTo("org", kin), chargedTo("org", apart)],
    [
      ["proj", "key-1", "key-2"],
      ["proj", "key-1"],
    ],
  );
});

test("a range that an address names is that of its window; last month has its own days", () => {
  assert.deepEqual(
    [rangeOf("daily", "last-month").range.label, rangeOf("weekly", "9").range.label],
    [...["Last month", "Last 24 hours"]],
  );
  const { starts, toMs } = rangeOf("daily", "last-month").range.of(Date.UTC(2026, 2, 10, 12));
  assert.deepEqual([starts.length, starts[0], toMs], [28, Date.UTC(2026, 1, 1), Date.UTC(2026, 2, 1)]);
});
