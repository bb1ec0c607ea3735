import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { type BaselineRow, changesSince, reportOf, rowsOf, type Spread, spreadOf } from "../../bench/baseline.ts";
import { type Baseline, textOf } from "../../bench/baseline-file.ts";
import { median, pairedRounds, quantile, ratiosOf } from "../../bench/measure.ts";
import { plainEnvironment } from "../docs/readme.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

const named = { bench: "memory", title: "memory, one limit", name: "ours", by: "thread CPU" } as const;
const row = (spread: Spread, of: Partial<BaselineRow> = {}): BaselineRow => ({ ...named, ...spread, ...of });
const before = row({ ratio: 1.6, low: 1.5, high: 1.7 });
const kinds = (now: BaselineRow) => changesSince([before], [now]).map(({ kind }) => kind);

test("a base runs right beside each contender, and is first in every other round", async () => {
  const order: string[] = [];
  const costs: Record<string, number> = { base: 10, quick: 5, slow: 40 };
  const pairs = await pairedRounds({ base: "base", others: ["quick", "slow"] }, 2, async (way) => {
    order.push(way);
    return { time: costs[way] as number };
  });
  assert.deepEqual(order, ["base", "quick", "base", "slow", "quick", "base", "slow", "base"]);
  assert.deepEqual(
    pairs.map((each) => ratiosOf(each, "time")),
    [
      [2, 2],
      [0.25, 0.25],
    ],
  );
});

test("a machine that slows down to a third in the middle of a run leaves the ratios as they are", async () => {
  let measures = 0;
  const [pairs = []] = await pairedRounds({ base: 10, others: [5] }, 9, async (microseconds) => ({
    time: microseconds * (measures++ < 8 ? 1 : 3),
  }));
  assert.deepEqual(ratiosOf(pairs, "time"), [2, 2, 2, 2, 2, 2, 2, 2, 2]);
});

test("the median and the quarters lie between two values in proportion", () => {
  assert.equal(median([3, 1, 2]), 2);
  assert.equal(median([4, 1, 2, 3]), 2.5);
  assert.equal(quantile([1, 2, 3, 4, 5], 0.25), 2);
  assert.equal(quantile([1, 2, 3, 4], 0.75), 3.25);
  assert.equal(quantile([7], 0.25), 7);
});

test("a single wild pair is no noise, a run that differs as a whole is", () => {
  const quiet = [1.5, 1.52, 1.54, 1.56, 1.58];
  assert.deepEqual(spreadOf([quiet]), { ratio: 1.54, low: 1.52, high: 1.56 });
  assert.deepEqual(spreadOf([[...quiet.slice(1), 9]]), { ratio: 1.56, low: 1.54, high: 1.58 });
  const other = quiet.map((ratio) => ratio + 0.1);
  assert.deepEqual(spreadOf([quiet, other, quiet]), { ratio: 1.54, low: 1.52, high: 1.66 });
});

test("runs of one row are put together; another clock, name, title or bench is another row", () => {
  const one = { ...named, ratios: [1, 2, 3] };
  const others = [{ by: "time" as const }, { name: "ours, sync" }, { title: "two" }, { bench: "sqlite" }];
  const rows = rowsOf([one, { ...one, ratios: [2, 3, 4] }, ...others.map((other) => ({ ...one, ...other }))]);
  assert.deepEqual(rows[0], row({ ratio: 2.5, low: 1.5, high: 3.5 }));
  assert.deepEqual(
    rows.slice(1),
    others.map((other) => row({ ratio: 2, low: 1.5, high: 2.5 }, other)),
  );
});

test("a ratio of a hundredth keeps its digits", () => {
  assert.equal(spreadOf([[0.0027189, 0.0027189]]).ratio, 0.00272);
});

test("a ratio fell when all of its noise lies below that of the baseline, and rose when above", () => {
  assert.deepEqual(kinds(row({ ratio: 1.4, low: 1.3, high: 1.49 })), ["fell"]);
  assert.deepEqual(kinds(row({ ratio: 1.8, low: 1.71, high: 1.9 })), ["rose"]);
});

test("a ratio is the same while its noise touches that of the baseline, however far apart the medians are", () => {
  assert.deepEqual(kinds(row({ ratio: 1.4, low: 1.3, high: 1.5 })), ["same"]);
  assert.deepEqual(kinds(row({ ratio: 1.8, low: 1.7, high: 1.9 })), ["same"]);
  assert.deepEqual(kinds(row({ ratio: 0.9, low: 0.5, high: 1.55 })), ["same"]);
  assert.deepEqual(kinds(before), ["same"]);
});

test("rows that only one side has are new or gone, and neither fell", () => {
  const renamed = row({ ratio: 0.1, low: 0.1, high: 0.1 }, { name: "ours, renamed" });
  assert.deepEqual(changesSince([before], [renamed]), [
    { kind: "new", now: renamed },
    { kind: "gone", before },
  ]);
});

test("the report begins with what fell and says how much it was", () => {
  const sync = { name: "ours, sync" };
  const changes = changesSince(
    [before, row({ ratio: 2, low: 1.9, high: 2.1 }, sync), row({ ratio: 1, low: 1, high: 1 }, { name: "old" })],
    [before, row({ ratio: 1.5, low: 1.4, high: 1.6 }, sync), row({ ratio: 3, low: 3, high: 3 }, { name: "young" })],
  );
  assert.deepEqual(reportOf(changes).split("\n"), [
    "fell memory, one limit: ours, sync, by thread CPU: 1.5 (1.4 to 1.6), was 2 (1.9 to 2.1): -25 %",
    "gone memory, one limit: old, by thread CPU: was 1 (1 to 1)",
    "new  memory, one limit: young, by thread CPU: 3 (3 to 3)",
    "same memory, one limit: ours, by thread CPU: 1.6 (1.5 to 1.7), was 1.6 (1.5 to 1.7): 0 %",
    "",
    "1 of 2 ratios fell by more than their noise, 0 rose. New: 1, gone: 1; --save brings the baseline up to date.",
    "",
  ]);
});

test("the file has a line for each ratio and reads as it was written", () => {
  const { bench: _, ...stored } = before;
  const about = { measuredOn: "2026-11-16", node: "v24.0.0", cpu: "some", cores: 2, load: 0.3, runs: 3 };
  const baseline: Baseline = {
    memory: { ...about, rows: [stored, { ...stored, by: "process CPU" }] },
    sqlite: { ...about, rows: [stored] },
  };
  assert.deepEqual(JSON.parse(textOf(baseline)), baseline);
  assert.equal(textOf(baseline).match(/^ {6}\{.+\},?$/gm)?.length, 3);
});

function bench(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    // Nobody listens there: what needs a PostgreSQL cannot be measured.
    const options = { cwd: root, env: { ...plainEnvironment(), ZAEL_TEST_POSTGRES_URL: "postgres://x@127.0.0.1:1/x" } };
    const child = execFile(process.execPath, ["bench/run.ts", ...args], options, (_, stdout, stderr) =>
      resolve({ code: child.exitCode ?? -1, stdout, stderr }),
    );
  });
}

async function emptyFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "baseline-"));
  t.after(() => rm(folder, { recursive: true }));
  return folder;
}

test("--compare without a baseline measures nothing and says how to make one", async (t) => {
  const file = join(await emptyFolder(t), "none.json");
  const { code, stdout, stderr } = await bench("--compare", `--baseline=${file}`);
  assert.deepEqual([code, stdout], [2, ""]);
  assert.match(
    stderr,
    /^There is no baseline \S+none\.json; measure one on a quiet machine with npm run bench -- --save\.\n$/,
  );
});

test("what --compare and --save cannot do is told in one sentence, and nothing is measured or written", async (t) => {
  const file = join(await emptyFolder(t), "kept.json");
  await writeFile(file, "{}\n");
  const said = async (...args: string[]) => {
    const { code, stdout, stderr } = await bench(...args, `--baseline=${file}`);
    assert.deepEqual([code, stdout], [2, ""]);
    return stderr;
  };
  assert.equal(await said("--compare", "--save"), "Both --compare and --save were given; give one of them.\n");
  assert.match(
    await said("--save", "admission"),
    /^The baseline has no ratios of admission; give some of memory, .+\.\n$/,
  );
  assert.equal(await said("--compare", "--ids=10"), "--ids is not for --compare and --save; leave it out.\n");
  assert.equal(await said("--compare", "--runs=0"), "--runs is 0; give at least 1.\n");
});

test("a bench that cannot be measured here is left out: its ratios are neither gone nor deleted", async (t) => {
  const file = join(await emptyFolder(t), "kept.json");
  const { bench: _, ...stored } = before;
  const about = { measuredOn: "2026-11-16", node: process.version, cpu: "some", cores: 2, load: 0.3, runs: 3 };
  const text = textOf({ postgres: { ...about, rows: [stored] } });
  await writeFile(file, text);
  const compared = await bench("postgres", "--compare", "--runs=1", `--baseline=${file}`);
  assert.equal(compared.code, 0);
  assert.match(compared.stderr, /SKIPPED: no PostgreSQL for this bench\. .*ECONNREFUSED/);
  assert.match(compared.stderr, /^postgres could not be measured here and is left out\.$/m);
  assert.doesNotMatch(compared.stdout, /gone/);
  const saved = await bench("postgres", "--save", "--runs=1", `--baseline=${file}`);
  assert.equal(saved.code, 1);
  assert.equal(await readFile(file, "utf8"), text);
});

test("--compare says of a bench that the baseline does not know how to measure it", async (t) => {
  const file = join(await emptyFolder(t), "kept.json");
  await writeFile(file, "{}\n");
  const { stderr } = await bench("postgres", "--compare", "--runs=1", `--baseline=${file}`);
  assert.match(stderr, /kept\.json has no ratios of postgres yet: .* npm run bench -- postgres --save\.$/m);
});
