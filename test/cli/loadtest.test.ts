import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { createTable } from "../../src/entry/dynamodb.ts";
import { RateLimiter } from "../../src/entry/index.ts";
import type { WorkerResult } from "../../src/loadtest/fleet.ts";
import { htmlReport } from "../../src/loadtest/html-report.ts";
import { type LoadtestReport, reportOf } from "../../src/loadtest/report.ts";
import { LOCAL_ACCESS } from "../../src/local/runner.ts";
import { deepTest } from "../deep-test.ts";
import { atDepth } from "../depth.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { here } from "./in-process.ts";
import { started, zaeLimiter } from "./run-bin.ts";

/** A folder of its own, with a SQLite store in it. */
async function withStore(t: TestContext): Promise<{ readonly folder: string; readonly store: string }> {
  const folder = mkdtempSync(join(tmpdir(), "zael-loadtest-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const store = `sqlite:${join(folder, "limiter.db")}`;
  await (await RateLimiter.open({ store })).close();
  return { folder, store };
}

async function namespacesOf(options: { readonly store: string; readonly endpoint?: string }): Promise<string[]> {
  const limiter = await RateLimiter.open({ ...options, ...(options.endpoint === undefined ? {} : LOCAL_ACCESS) });
  const names: string[] = [];
  for await (const { name } of limiter.listNamespaces()) names.push(name);
  for await (const { name } of limiter.listOrphanNamespaces()) names.push(name);
  await limiter.close();
  return names;
}

const SHORT = ["--duration", "300ms", "--processes", "2", "--concurrency", "4"];

/** What must hold of every run, however slow the machine is. */
function assertSound(report: LoadtestReport, scenario: string): void {
  const { requests, granted, refused, errors, admission, latencyMs } = report;
  assert.deepEqual([report.scenario, report.processes, report.concurrency], [scenario, 2, 4]);
  assert.equal(requests, granted + refused + errors);
  assert.ok(granted > 0, "nothing was granted");
  assert.equal(errors, 0, JSON.stringify(report.errorCodes));
  assert.equal(admission.excessTokens, 0);
  assert.ok(admission.grantedTokens > 0 && admission.grantedTokens <= admission.boundTokens);
  const { p50, p90, p99, max } = latencyMs;
  assert.ok(p50 <= p90 && p90 <= p99 && p99 <= max);
}

for (const scenario of atDepth(["cascade"], ["hot-key", "cascade", "llm"])) {
  test(`${scenario} on SQLite grants no more than arithmetic allows, and leaves nothing behind`, async (t) => {
    const { store } = await withStore(t);
    const args = ["loadtest", "--store", store, "--scenario", scenario, ...SHORT, "--seed", "7", "--json"];
    const { code, stdout, stderr } = await zaeLimiter(args);
    assert.deepEqual([code, stderr], [0, ""], stdout);
    const report = JSON.parse(stdout);
    assertSound(report, scenario);
    assert.deepEqual([report.store, report.seed, report.units], [store, 7, undefined]);
    assert.deepEqual(await namespacesOf({ store }), ["default"]);
  });
}

deepTest(
  "on memory each process has a store of its own; the report of bursts is a page that needs no network",
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), "zael-loadtest-"));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const html = join(folder, "report.html");
    const args = ["loadtest", "--store", "memory", "--scenario", "bursts", "--processes", "2", "--concurrency", "4"];
    const { code, stdout, stderr } = await zaeLimiter([...args, "--duration", "1200ms", "--html", html]);
    assert.deepEqual([code, stderr], [0, ""], stdout);
    assert.match(stdout, /^bursts, seed \d+\n/);
    assert.match(stdout, /Nothing was over-admitted/);
    for (const line of stdout.split("\n")) assert.ok(line.length <= 80, line);
    const page = readFileSync(html, "utf8");
    assert.match(page, /prefers-color-scheme: dark/);
    assert.equal(page.match(/<svg viewBox/g)?.length, 3);
    assert.doesNotMatch(page, /<script|https?:|url\(|<link|<img|NaN|undefined/);
  },
);

test("what is granted above the bound, or fails, is told, and ends with 1", () => {
  const result: WorkerResult = {
    ...{ granted: 60, refused: 1, errors: 2, errorCodes: { unavailable: 2 }, firstMs: 1_000, lastMs: 1_999 },
    grantedTokens: { "user-0": { rps: 45 }, "user-1": { rps: 15 } },
    ...{ correctedTokens: {}, latency: { counts: [[200, 61]], maxMicros: 400 }, slices: [] },
  };
  const terms = { scenario: "steady", store: "<b>", seed: 1, processes: 1, concurrency: 1 } as const;
  const { detail, ...report } = reportOf({ terms, results: [result], sliceMs: 100, durationMs: 2_000, stores: 1 });
  // 20 of capacity and 20 of refill in a second.
  assert.deepEqual(
    detail.checks.filter(({ excessTokens }) => excessTokens > 0),
    [{ entityId: "user-0", limit: "rps", grantedTokens: 45, boundTokens: 40, excessTokens: 5 }],
  );
  assert.deepEqual(report.admission, { grantedTokens: 60, boundTokens: 800, excessTokens: 5 });
  assert.deepEqual([report.requests, report.grantedPerSecond, report.errorCodes], [63, 30, { unavailable: 2 }]);
  assert.match(htmlReport(report, detail), /Over-admitted by 5 tokens\./);
  assert.doesNotMatch(htmlReport(report, detail), /<b>/);
});

test("mistakes are told before anything is made", async (t) => {
  const { folder, store } = await withStore(t);
  const missing = join(folder, "other.db");
  for (const [args, exitCode, message] of [
    [["--store", store, "--scenario", "storm"], 2, /give steady, bursts, hot-key, cascade or llm/],
    [["--store", store, "--duration", "10"], 2, /give a duration such as 500ms/],
    [["--store", store, "--processes", "0"], 2, /--processes is "0"/],
    [["--store", store, "--seed", "x"], 2, /give a whole number/],
    [
      ["--store", store, "--html", join(folder, "no", "x.html")],
      3,
      /cannot be written: there is no such file or folder/,
    ],
    [["--store", `sqlite:${missing}`], 4, /There is no store at/],
    [["--stack", "limits", "--endpoint", "http://127.0.0.1:9"], 2, /pass --yes/],
  ] as const) {
    const { code, stdout, stderr } = await here(["loadtest", ...args]);
    assert.deepEqual([code, stdout], [exitCode, ""], stderr);
    assert.match(stderr, message);
  }
  assert.ok(!existsSync(missing));
  assert.deepEqual(await namespacesOf({ store }), ["default"]);
});

test("Ctrl-C ends it early; it reports what was measured, and purges its namespace all the same", async (t) => {
  const { store } = await withStore(t);
  const running = started(["loadtest", "--store", store, "--duration", "10m", ...SHORT.slice(2), "--json"]);
  // Its namespace is there once it has begun.
  while ((await namespacesOf({ store })).length === 1) assert.equal(running.child.exitCode, null);
  running.child.kill("SIGINT");
  const { code, stdout, stderr } = await running.ended;
  assert.deepEqual([code, stderr], [130, ""]);
  assert.equal(JSON.parse(stdout).interrupted, true);
  assert.deepEqual(await namespacesOf({ store }), ["default"]);
});

deepTest("--keep leaves the namespace there, and names it", async (t) => {
  const { store } = await withStore(t);
  const { code, stdout } = await zaeLimiter(["loadtest", "--store", store, ...SHORT, "--keep", "--json"]);
  assert.equal(code, 0, stdout);
  const { namespace } = JSON.parse(stdout);
  assert.match(namespace, /^loadtest-/);
  assert.deepEqual((await namespacesOf({ store })).sort(), ["default", namespace]);
});

await describeDynamo("zae-limiter loadtest", ({ endpoint }) => {
  deepTest("on DynamoDB it tells the units too, and leaves nothing behind", async () => {
    const stack = `loadtest-${process.pid}`;
    await createTable({ stack, endpoint, ...LOCAL_ACCESS });
    const args = ["loadtest", "--stack", stack, "--endpoint", endpoint, "--scenario", "cascade", ...SHORT, "--yes"];
    const { code, stdout, stderr } = await zaeLimiter([...args, "--timeout", "1m", "--json"]);
    assert.deepEqual([code, stderr], [0, ""], stdout);
    const report = JSON.parse(stdout);
    assertSound(report, "cascade");
    const { calls, writes } = report.units;
    // Coalesced or not, a key and its project were written at least once.
    assert.ok(calls >= 2 && writes >= 2, JSON.stringify(report.units));
    assert.deepEqual(await namespacesOf({ store: `dynamodb:${stack}`, endpoint }), ["default"]);
  });
});
