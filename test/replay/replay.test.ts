import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { applyManifest, parseManifest, planManifest } from "../../src/entry/manifest.ts";
import { SeededRandom } from "../../src/entry/testing.ts";
import { LoggedRequests } from "../../src/replay/logged-requests.ts";
import type { Replayed } from "../../src/replay/replay.ts";
import { ReplayedLimits } from "../../src/replay/replayed-limits.ts";
import { here } from "../cli/in-process.ts";
import { atDepth } from "../depth.ts";

const T0 = Date.UTC(2026, 10, 19, 12);
const STRICT = "resources:\n  gpt-5: { limits: { rpm: 2/min, tpm: 1000/min } }\n";
const WIDE = "resources:\n  gpt-5: { limits: { rpm: 5/min, tpm: 1000/min } }\n";

/** Replays lines on manifests, by the command itself. */
async function replayed(
  t: TestContext,
  lines: readonly unknown[],
  { made = STRICT, old, args = [] }: { made?: string; old?: string; args?: readonly string[] } = {},
) {
  const folder = mkdtempSync(join(tmpdir(), "replay-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const [log, file, before] = ["log.ndjson", "new.yaml", "old.yaml"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  writeFileSync(log, lines.map((line) => (typeof line === "string" ? line : JSON.stringify(line))).join("\n"));
  writeFileSync(file, made);
  if (old !== undefined) writeFileSync(before, old);
  const ran = await here([
    "replay",
    log,
    "-f",
    file,
    ...(old === undefined ? [] : ["--old", before]),
    "--json",
    ...args,
  ]);
  const answer = () => JSON.parse(ran.stdout) as Replayed;
  return { ...ran, answer, log };
}

const at = (seconds: number, consume: object, more: object = {}) => ({
  ...{ atMs: T0 + seconds * 1_000, entityId: "key-1", resource: "gpt-5", consume },
  ...more,
});

test("a log is decided as the store would have decided it, by old limits and by new ones", async (t) => {
  const { code, answer } = await replayed(
    t,
    [
      // 500 are taken, and 900 it came to: 100 are left.
      at(0, { rpm: 1, tpm: 500 }, { actual: { tpm: 900 } }),
      // 16 have dripped in until then; 500 need 400 more, which takes 23 s.
      at(1, { rpm: 1, tpm: 500 }),
      // By the new limits the second and last of rpm.
      { ...at(2, { rpm: 1 }), atMs: undefined, at: "2026-11-19T12:00:02" },
      at(3, { rpm: 1 }),
      // More than the limit can ever hold.
      at(4, { rpm: 0, tpm: 5_000 }),
    ],
    { old: WIDE },
  );
  assert.equal(code, 0);
  assert.deepEqual(answer(), {
    ...{ lines: 5, used: 5, skipped: 0, fromMs: T0, toMs: T0 + 4_000 },
    ...{ old: { granted: 3, refused: 2 }, new: { granted: 2, refused: 3 }, newlyRefused: 1, newlyGranted: 0 },
    rows: [
      {
        ...{ entityId: "key-1", resource: "gpt-5", limit: "tpm", level: "key-1", total: false },
        ...{ old: { refused: 2 }, new: { refused: 2, firstAtMs: T0 + 1_000, waitMaxMs: null } },
      },
      {
        ...{ entityId: "key-1", resource: "gpt-5", limit: "rpm", level: "key-1", total: false },
        // 2 a minute: 3 s after the first, a tenth of a token is there.
        ...{ old: { refused: 0 }, new: { refused: 1, firstAtMs: T0 + 3_000, waitMaxMs: 27_000 } },
      },
    ],
  });
});

test("lines count by their instants, however they stand in the files", async (t) => {
  const { answer } = await replayed(t, [at(60, { rpm: 2 }), at(0, { rpm: 2 }), at(59, { rpm: 1 })]);
  // At 59 s one of the two is back, and is taken: at 60 s there is not enough for two.
  assert.deepEqual([answer().new, answer().rows[0]?.new.firstAtMs], [{ granted: 2, refused: 1 }, T0 + 60_000]);
});

test("a slot is held until the work of its line ends, also beyond the hold of the limit", async (t) => {
  const made = "resources:\n  gpt-5: { limits: { parallel: { capacity: 1, hold_seconds: 30 } } }\n";
  const one = { parallel: 1 };
  const lines = [at(0, one, { endMs: T0 + 100_000 }), at(80, one), at(100, one), at(101, one)];
  const { answer } = await replayed(t, lines, { made });
  assert.deepEqual(answer().new, { granted: 3, refused: 1 });
  assert.equal(answer().rows[0]?.new.firstAtMs, T0 + 80_000);
});

test("parents, totals, switches and further resources count as they do on a store", async (t) => {
  const made = `
resources:
  gpt-5: { limits: { rpm: 100/min } }
  images: { limits: { rpm: 1/min } }
  audio: { limits: { rpm: 1/min }, disabled: true }
entities:
  org: { totals: { usd: "3,reset=daily" } }
  key-1: { parent: org, cascade: true }
`;
  const { answer, stderr } = await replayed(
    t,
    [
      at(0, { rpm: 1, usd: 2 }, { also: { images: { rpm: 1 } } }),
      at(1, { rpm: 1, usd: 2 }),
      at(2, { rpm: 1 }, { also: { images: { rpm: 1 } } }),
      { ...at(3, { rpm: 1 }), resource: "audio" },
      { ...at(4, { rpm: 1 }), resource: "no-limits" },
    ],
    { made },
  );
  assert.equal(stderr, "");
  const { new: counts, rows } = answer();
  assert.deepEqual(counts, { granted: 2, refused: 3 });
  assert.deepEqual(rows.map(({ resource, limit, level, total }) => [resource, limit, level, total]).sort(), [
    ["audio", null, "resource", false],
    ["gpt-5", "rpm", "key-1", false],
    ["gpt-5", "usd", "org", true],
  ]);
});

test("what `events follow` prints of a limiter is understood: each request once, as it was asked", async (t) => {
  const { answer, stderr, code } = await replayed(t, [
    { type: "acquired", ...event(0), role: "entity", consumed: { rpm: 1 }, asked: { rpm: 1 } },
    { type: "acquired", ...event(0), role: "parent", consumed: { rpm: 1 } },
    { type: "refused", ...event(1), statuses: [], asked: { rpm: 3 } },
    { type: "lease", ...event(1), status: "settled" },
    { type: "acquired", ...event(2), role: "entity", consumed: { rpm: 1 } },
  ]);
  assert.equal(code, 0);
  assert.deepEqual(
    [answer().lines, answer().used, answer().skipped, answer().new],
    [5, 2, 3, { granted: 1, refused: 1 }],
  );
  assert.match(stderr, /log\.ndjson:5: the event has no `asked`/);
});

const event = (seconds: number) => ({
  ...{ atMs: T0 + seconds * 1_000, namespace: "default", entityId: "key-1", resource: "gpt-5" },
});

test("the events of a limiter say what was asked, granted or refused", async () => {
  await using limiter = await RateLimiter.open({ store: "memory" });
  await limiter.setSystemDefaults([Limit.perMinute("rpm", 2), Limit.perMinute("tokens", 10, { counts: "tpm" })]);
  const { deps } = (await import("../../src/engine/limiter/limiter-parts.ts")).partsOf(limiter);
  const heard: unknown[] = [];
  const stop = deps.events.listen?.(["acquired", "refused"], (...published) => {
    const { asked, also, role } = published[1] as { asked?: object; also?: object; role?: string };
    if (role !== "also") heard.push(also === undefined ? asked : { asked, also });
  });
  const key = { entityId: "key-1", resource: "gpt-5" };
  await limiter.tryAcquire({ ...key, consume: { tpm: 4, rpm: 1 } });
  await limiter.tryAcquire({ ...key, consume: { tpm: 9, rpm: 0 }, also: { images: { rpm: 1 } } });
  await limiter.tryAcquire({ ...key, consume: { rpm: 0, tpm: 1 }, also: { images: { rpm: 1 } } });
  stop?.();
  const also = { images: { rpm: 1 } };
  assert.deepEqual(heard, [
    { tpm: 4, rpm: 1 },
    { asked: { tpm: 9, rpm: 0 }, also },
    { asked: { rpm: 0, tpm: 1 }, also },
  ]);
});

test("another log is read by JSON pointers; its ids may be any text", async (t) => {
  const line = (id: unknown, total: number) => ({
    ts: "2026-11-19T12:00:00Z",
    user: { id },
    "a/b": "gpt-5",
    usage: { total },
  });
  const fields = ["at=/ts", "entityId=/user/id", "resource=/a~1b", "consume.tpm=/usage/total", "consume.rpm=/none"];
  const args = fields.flatMap((field) => ["--field", field]);
  const { answer } = await replayed(t, [line("auth0|42", 900), line("auth0|42", 200), line(7, 900)], { args });
  assert.deepEqual(answer().new, { granted: 2, refused: 1 });
  assert.equal(answer().rows[0]?.entityId, "text:auth0_7C42");
  for (const [field, told] of [
    ["entity=/user", /did you mean `entityId`/],
    ["at=ts", /JSON pointer/],
    ["consume=", undefined],
  ] as const) {
    const { code, stderr } = await replayed(t, [line("a", 1)], { args: ["--field", field] });
    assert.equal(code, 2);
    if (told !== undefined) assert.match(stderr, told);
  }
});

test("lines that cannot be read are counted, and the first five told", async (t) => {
  const wrong = [
    "{",
    "[]",
    at(0, { rpm: 1.5 }),
    at(0, { rpm: 1 }, { entityId: "" }),
    at(0, { rpm: 1 }, { atMs: "soon" }),
    at(0, { rpm: 1 }, { endMs: T0 - 1 }),
  ];
  const { code, stderr, answer } = await replayed(t, [...wrong, "", at(0, { rpm: 1 })]);
  assert.deepEqual([code, answer().lines, answer().used, answer().skipped], [0, 7, 1, 6]);
  assert.deepEqual(
    stderr.split("\n").map((line) => /:(\d+): /.exec(line)?.[1] ?? line),
    ["1", "2", "3", "4", "5", "And 1 more lines that cannot be read.", ""],
  );
  const none = await replayed(t, wrong);
  assert.deepEqual([none.code, none.stdout], [2, ""]);
  assert.match(none.stderr, /"code":"replay_empty"/);
});

test("the exit code is 1 only where more is refused than is allowed", async (t) => {
  const lines = [at(0, { rpm: 2 }), at(0, { rpm: 1 })];
  for (const [percent, expected] of [
    ["50", 0],
    ["49.9", 1],
    ["0", 1],
  ] as const) {
    assert.equal((await replayed(t, lines, { args: ["--fail-above", percent] })).code, expected, percent);
  }
  assert.equal((await replayed(t, lines, { args: ["--fail-above", "101"] })).code, 2);
  assert.equal((await replayed(t, lines, { made: "resources: 1" })).code, 2);
});

test("whatever is asked, and whenever it ends, is decided as a limiter at that instant decides", async (t) => {
  for (const seed of atDepth([1], [1, 2, 3, 4, 5, 6, 7, 8])) {
    const random = new SeededRandom(seed);
    const whole = (most: number) => Math.floor(random.next() * most);
    let nowMs = T0;
    const lines = Array.from({ length: 300 }, () => {
      nowMs += whole(4_000);
      return {
        atMs: nowMs,
        entityId: `key-${whole(3)}`,
        resource: "gpt-5",
        consume: { rpm: 1, tpm: whole(700) },
        actual: { tpm: whole(900) },
      };
    });
    const limiter = await RateLimiter.open({ store: "memory", clock: { now: () => nowMs } });
    await limiter.setResourceDefaults("gpt-5", [Limit.perMinute("rpm", 5), Limit.perMinute("tpm", 1_000)]);
    let refused = 0;
    for (const { atMs, actual, ...request } of lines) {
      nowMs = atMs;
      const outcome = await limiter.tryAcquire(request);
      if (outcome.ok) await outcome.lease.settle(actual);
      else refused++;
    }
    await limiter.close();
    const { answer } = await replayed(t, lines, { made: WIDE });
    assert.equal(answer().new.refused, refused, `seed ${seed}`);
    assert.ok(refused > 30, `seed ${seed} refused ${refused}`);
  }
});

const MANY_KINDS = `
resources:
  gpt-5:
    limits: { rpm: 9/min, tpm: 3000/min, day: "60000,reset=daily,counts=tpm", spell: "1200,after=40s,counts=tpm" }
  gpt-5-mini:
    limits: { rpm: "4/min,shadow", tpm: "1500/min,soft", parallel: { capacity: 3, hold_seconds: 3600 } }
entities:
  org: { totals: { tpm: "90000,reset=hourly", usd: 400/min } }
  key-0: { parent: org, cascade: true }
  key-1: { parent: org, cascade: true }
`;

test("leases of every kind of limit, parents and totals are settled as their method settles them, now and later", async (t) => {
  for (const seed of atDepth([1], [1, 2, 3, 4, 5, 6, 7, 8])) {
    const random = new SeededRandom(seed);
    const whole = (most: number) => Math.floor(random.next() * most);
    let nowMs = T0;
    const lines = Array.from({ length: atDepth(400, 800) }, () => {
      nowMs += whole(3_000);
      const isMini = whole(3) === 0;
      const tpm = whole(700);
      return {
        ...{ atMs: nowMs, entityId: `key-${whole(3)}`, resource: isMini ? "gpt-5-mini" : "gpt-5" },
        consume: { rpm: 1, ...(whole(4) > 0 ? { tpm } : {}), ...(isMini ? { parallel: 1 } : {}), usd: whole(9) },
        ...(whole(5) > 0 ? { actual: { tpm: whole(900), usd: whole(9) } } : {}),
        ...(whole(3) === 0 ? { endMs: nowMs + whole(40_000) } : {}),
      };
    });
    const refused = await refusedBySteps(MANY_KINDS, lines);
    const { answer, stderr } = await replayed(t, lines, { made: MANY_KINDS, args: ["--top", "1000"] });
    assert.equal(stderr, "");
    assert.equal(answer().new.refused, refused.length, `seed ${seed}`);
    const first = answer().rows.map((row) => row.new.firstAtMs ?? 0);
    assert.equal(Math.min(...first), refused[0], `seed ${seed}`);
    assert.ok(refused.length > 30, `seed ${seed} refused ${refused.length}`);
  }
});

interface Line {
  readonly atMs: number;
  readonly entityId: string;
  readonly resource: string;
  readonly consume: Readonly<Record<string, number>>;
  readonly actual?: Readonly<Record<string, number>>;
  readonly endMs?: number;
}

/** The instants of the lines that a limiter refuses, asked and settled by its public methods. */
async function refusedBySteps(manifest: string, lines: readonly Line[]): Promise<readonly number[]> {
  let nowMs = T0;
  await using limiter = await RateLimiter.open({
    ...{ store: "memory", clock: { now: () => nowMs }, unnamedLimits: "allow" },
  });
  await applyManifest(limiter, await planManifest(limiter, parseManifest(manifest)));
  const refused: number[] = [];
  let open: { readonly endMs: number; readonly settle: () => Promise<void> }[] = [];
  for (const { atMs, actual, endMs = atMs, ...request } of lines) {
    const due = open.filter((one) => one.endMs <= atMs).sort((a, b) => a.endMs - b.endMs);
    open = open.filter((one) => one.endMs > atMs);
    for (const one of due) {
      nowMs = one.endMs;
      await one.settle();
    }
    nowMs = atMs;
    const { limits, lease } = await taken(limiter, request);
    if (lease === undefined) {
      refused.push(atMs);
      continue;
    }
    const among = (tokens: object) => Object.fromEntries(Object.entries(tokens).filter(([name]) => limits.has(name)));
    const settle = () => lease.settle(actual === undefined ? undefined : among(actual));
    if (endMs === atMs) await settle();
    else open.push({ endMs, settle });
  }
  return refused;
}

/** A request without the measures that nothing counts, and those that something counts. */
async function taken(limiter: RateLimiter, { consume, ...about }: Omit<Line, "atMs">) {
  const levels = (await limiter.explain(about)).levels.flatMap((level) => level.limits);
  const limits = new Set(levels.map(({ counts }) => counts));
  const counted = Object.fromEntries(Object.entries(consume).filter(([name]) => limits.has(name)));
  const outcome = await limiter.tryAcquire({ ...about, consume: counted });
  return { limits, lease: outcome.ok ? outcome.lease : undefined };
}

test("lines on a store in memory are decided and settled without a promise", async () => {
  for (const manifest of [WIDE, MANY_KINDS]) {
    const clock = { nowMs: T0, now: () => clock.nowMs };
    await using limiter = await RateLimiter.open({ store: "memory", clock, usage: false, unnamedLimits: "allow" });
    await applyManifest(limiter, await planManifest(limiter, parseManifest(manifest)));
    const limits = new ReplayedLimits(limiter, clock);
    const requests = new LoggedRequests();
    for (let i = 0; i < atDepth(1_000, 50_000); i++) {
      const atMs = T0 + i * 900;
      const about = { entityId: `key-${i % 4}`, resource: "gpt-5", also: undefined };
      const consume = { rpm: 1, tpm: (i * 37) % 500 };
      const actual = i % 5 === 0 ? undefined : { tpm: (i * 53) % 700 };
      requests.add({ atMs, endMs: i % 3 === 0 ? atMs + 4_000 : atMs, ...about, consume, actual });
    }
    const kinds = { granted: 0, refused: 0, unlimited: 0, promised: 0 };
    for (const request of requests.inOrder()) {
      const decision = limits.decide(request);
      kinds[decision instanceof Promise ? "promised" : decision.kind]++;
    }
    assert.equal(kinds.promised, 0);
    assert.ok(kinds.granted > 100 && kinds.refused > 10, JSON.stringify(kinds));
  }
});
