import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { here } from "./in-process.ts";
import { zaeLimiter } from "./run-bin.ts";

const HEADER =
  "entityId,resource,window,windowStart,windowEnd,requests,limit,tokens,overdrafts,bypassed,wouldRefuse,heldMs";

async function usedStore(t: TestContext): Promise<{ folder: string; store: string }> {
  const folder = mkdtempSync(join(tmpdir(), "zael-usage-export-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const store = `sqlite:${join(folder, "limiter.db")}`;
  const limiter = await RateLimiter.open({ store, clock: { now: () => Date.UTC(2026, 2, 15, 12, 30) } });
  await limiter.setSystemDefaults([Limit.perMinute("rpm", 100)]);
  for (const entityId of ["a", "b"]) {
    await limiter.withLease({ entityId, resource: "api", consume: { rpm: 3 } }, async () => {});
  }
  await limiter.close();
  return { folder, store };
}

test("usage export writes CSV, NDJSON and JSON, filtered, to stdout or to a file", async (t) => {
  const { folder, store } = await usedStore(t);
  const at = ["usage", "export", "--store", store];
  const csv = await zaeLimiter(at);
  assert.deepEqual([csv.code, csv.stderr], [0, ""]);
  assert.deepEqual(csv.stdout.split("\n"), [
    HEADER,
    "a,api,hourly,2026-03-15T12:00:00.000Z,2026-03-15T13:00:00.000Z,1,rpm,3,0,0,0,0",
    "b,api,hourly,2026-03-15T12:00:00.000Z,2026-03-15T13:00:00.000Z,1,rpm,3,0,0,0,0",
    "",
  ]);
  for (const flags of [
    ["-e", "a"],
    ["--entity-id", "a"],
  ]) {
    const line = await here([...at, ...flags, "--ndjson"]);
    assert.deepEqual([JSON.parse(line.stdout).entityId, JSON.parse(line.stdout).counters], ["a", { rpm: 3 }]);
  }
  const document = await here([...at, "-w", "monthly", "--format", "json", "-r", "api"]);
  assert.equal(JSON.parse(document.stdout).items.length, 2);
  for (const [range, rows] of [
    [["--from", "2026-03-15T12:00", "--to", "2026-03-16"], 2],
    [["--start", "2026-03-15T13:00:00Z"], 0],
    [["--to", "2026-03-15T14:00:00+02:00"], 0],
    [["--from", "1h"], 0],
  ] as const) {
    const { code, stdout } = await here([...at, ...range]);
    assert.deepEqual([code, stdout.trimEnd().split("\n").length - 1], [0, rows], range.join(" "));
  }
  const file = join(folder, "usage.csv");
  const quiet = await here([...at, "-o", file, "--quiet"]);
  assert.deepEqual(quiet, { code: 0, stdout: "", stderr: "" });
  assert.equal(readFileSync(file, "utf8"), csv.stdout);
  assert.deepEqual(
    readdirSync(folder).filter((name) => name.includes(".part")),
    [],
  );
});

test("what is not there or makes no sense is told with its exit code, and no store comes into being", async (t) => {
  const { folder, store } = await usedStore(t);
  const nowhere = join(folder, "none.db");
  for (const [args, code, message] of [
    [["--store", `sqlite:${nowhere}`], 4, /There is no store/],
    [["--store", store, "-N", "tenant"], 4, /no namespace "tenant"/],
    [["--store", "memory"], 2, /sqlite:FILE, postgres:\/\/HOST\/DATABASE, redis:\/\/HOST or dynamodb:STACK/],
    [["--store", store, "--format", "xls"], 2, /csv.*ndjson.*json/],
    [["--store", store, "-w", "weekly"], 2, /hourly.*daily.*monthly/],
    [["--store", store, "--from", "7"], 2, /--from/],
    [["--store", store, "--to", "2026-13-01"], 2, /--to.*2026-13-01/],
  ] as const) {
    const ran = await here(["usage", "export", ...args]);
    assert.deepEqual([ran.code, ran.stdout], [code, ""], `${args.join(" ")}: ${ran.stderr}`);
    assert.match(ran.stderr, message);
  }
  assert.equal(existsSync(nowhere), false);
});
