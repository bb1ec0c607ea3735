import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify, stripVTControlCharacters } from "node:util";
import { APIError, OpenAI } from "openai";
import { dayLines } from "../../examples/gateway/day.ts";
import { CALLERS, type CallEvent, PROJECT } from "../../examples/gateway/gateway.ts";
import { draw, type LoggedEvent, logged } from "../../examples/gateway/screen.ts";
import { changedByHand, startService } from "../../examples/gateway/service.ts";
import { Tally } from "../../examples/gateway/tally.ts";
import {
  dashboardLine,
  eventLine,
  INTRODUCTION,
  levelsLines,
  proofLine,
  summaryLines,
} from "../../examples/gateway/words.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { plainEnvironment } from "../docs/readme.ts";

const main = fileURLToPath(new URL("../../examples/gateway/main.ts", import.meta.url));
const expected = readFileSync(new URL("../../examples/gateway/expected-output.txt", import.meta.url), "utf8");
const ESCAPE = "\x1b";
const execute = promisify(execFile);

const PRIMARY = {
  entityId: PROJECT,
  resource: "gpt-4",
  limit: "tpm",
  counts: "tpm",
  available: -250,
  capacity: 4_500,
  requested: 700,
  exceeded: true,
  kind: "drip",
  soft: false,
  shadow: false,
  retryAfterMs: 1_900,
} as const;

test("without a terminal the gateway prints lines, ends by itself, and runs again over its file", async (t) => {
  const folder = await emptyFolder(t);
  const first = await runFor(2, folder);
  assert.match(first, /bursty {2}refused {3}bursty rpm: 0 left, wants 1; retry in \d\.\d s/);
  assert.match(first, /\w+ {2}answered {2}[\d,]+ estimated, [\d,]+ used: [\d,]+ (given back|more charged)/);
  assert.ok(!first.includes(ESCAPE), "no control characters where nobody draws");
  assert.deepEqual(summaryShape(first), summaryShape(expected));
  assert.ok(existsSync(join(folder, ".zae-limiter/gateway.db")));

  const again = await runFor(1, folder);
  assert.deepEqual(summaryShape(again), summaryShape(expected));
});

test("what the gateway counted is what the limiter has stored", async (t) => {
  const stdout = await runFor(2, await emptyFolder(t));
  for (const { key } of CALLERS) {
    const [counted, stored] = rowsOf(stdout, key);
    const [answered, failed, , , used] = counted as number[];
    const [granted, rpm, tpm] = stored as number[];
    // A call that was stopped with the run had been sent: it pays for its request and its input.
    const cut = [...stdout.matchAll(new RegExp(`${key} +cut short`, "g"))].length;
    assert.equal(rpm, (answered as number) + cut, `${key}: requests`);
    assert.ok(cut === 0 ? tpm === used : (tpm as number) > (used as number), `${key}: tokens`);
    assert.ok((granted as number) >= (answered as number) + (failed as number), `${key}: granted`);
  }
  const [, ...keys] = [PROJECT, ...CALLERS.map(({ key }) => key)].map((id) => rowsOf(stdout, id).at(-1) as number[]);
  const [project] = rowsOf(stdout, PROJECT);
  for (const column of [0, 1, 2]) {
    const sum = keys.reduce((total, row) => total + (row[column] as number), 0);
    assert.equal(project?.[column], sum, `column ${column}: the project was charged for all its keys`);
  }
});

test("a run ends with the proof that the project got no more than there was", async (t) => {
  const stdout = await runFor(2, await emptyFolder(t));
  const [, used, burst, elapsed, rate, owed, most] =
    /\nproject: used ([\d,]+) of at most ([\d,]+) \+ ([\d.]+) s x ([\d,]+)\/s(?: \+ ([\d,]+) owed)? = ([\d,]+)\n$/.exec(
      stdout,
    ) ?? assert.fail(stdout);
  const [usedOnes, mostOnes] = [numberOf(used), numberOf(most)];
  assert.equal(usedOnes, rowsOf(stdout, PROJECT)[0]?.[2], "what the limiter has stored");
  assert.equal(mostOnes, numberOf(burst) + Math.ceil(numberOf(elapsed) * numberOf(rate)) + numberOf(owed));
  assert.ok(usedOnes <= mostOnes);
});

test("the proof can fail, and counts what is owed", () => {
  const proof = { used: 13_463, elapsedMs: 20_150, left: 120, isChanged: false };
  assert.equal(proofLine(proof), "project: used 13,463 of at most 4,500 + 20.2 s x 500/s = 14,600");
  assert.match(proofLine({ ...proof, used: 14_601 }), /= 14,600: TOO MUCH$/);
  assert.match(proofLine({ ...proof, used: 14_850, left: -250 }), / \+ 250 owed = 14,850$/);
  assert.match(proofLine({ ...proof, used: 99_000, isChanged: true }), /used 99,000; limits were changed by hand/);
});

test("no line is wider than 80 columns, whatever the numbers", async (t) => {
  const stdout = await runFor(2, await emptyFolder(t));
  const lines = [...stdout.split("\n"), ...longestLines()];
  assert.deepEqual(
    lines.filter((line) => line.length > 80),
    [],
  );
});

test("a quota and a schedule are shown on a day that passes in a moment", async () => {
  const lines = await dayLines();
  assert.match(lines[0] ?? "", /^A simulated day/);
  const rows = lines.slice(4).map((line) => line.trim().split(/ {2,}/));
  assert.deepEqual(
    rows.map(([time, , granted, left]) => [time, granted, left]),
    [
      ["06:00", "8", "42 of 50"],
      ["08:00", "8", "34 of 50"],
      ["10:00", "5", "29 of 50"],
      ["12:00", "5", "24 of 50"],
      ["14:00", "5", "19 of 50"],
      ["16:00", "5", "14 of 50"],
      ["18:00", "5", "9 of 50"],
      ["20:00", "8", "1 of 50"],
      ["22:00", "1", "0 of 50"],
      ["00:00", "8", "42 of 50"],
    ],
  );
  assert.equal(rows[8]?.at(-1), "refused by day; retry in 120 min");
  assert.equal(rows[2]?.at(-1), "refused by atOnce; retry in 12 min");
});

test("Ctrl-C ends the gateway at once, with its summary and a clean exit", async (t) => {
  // For so long that nothing else can end it.
  const args = [main, "--seconds", "3600", "--port", "0"];
  const child = spawn(process.execPath, args, { cwd: await emptyFolder(t), env: plainEnvironment() });
  let stdout = "";
  let isInterrupted = false;
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
    if (isInterrupted || !/\w+ {2}refused/.test(stdout)) return;
    isInterrupted = true;
    child.kill("SIGINT");
  });
  const code = await new Promise((resolve) => child.on("close", resolve));
  assert.equal(code, 0);
  assert.match(stdout, /^Summary after \d+\.\d s$/m);
  // How many calls were under way is up to the machine; each was told of and is in the summary.
  const cut = [...stdout.matchAll(/\w+ {2}cut short/g)].length;
  const [, counted = "0"] = /^ {2}stopped with the run, request and input paid: (\d+)$/m.exec(stdout) ?? [];
  assert.equal(Number(counted), cut);
});

test("while it runs, one address shows the limiter at work: the page, its buckets, its refusals", async (t) => {
  const args = [main, "--seconds", "3600", "--port", "0"];
  const child = spawn(process.execPath, args, { cwd: await emptyFolder(t), env: plainEnvironment() });
  t.after(() => child.kill("SIGKILL"));
  const exited = new Promise((resolve) => child.on("close", resolve));
  const stdout = await new Promise<string>((resolve) => {
    let text = "";
    child.stdout.setEncoding("utf8").on("data", (more: string) => {
      text += more;
      if (/\w+ {2}refused/.test(text)) resolve(text);
    });
  });
  const [, url = ""] = /^Dashboard: (http:\S+) /m.exec(stdout) ?? [];
  const page = await fetch(url);
  assert.deepEqual([page.status, /<div id="root">/.test(await page.text())], [200, true]);
  const answer = await fetch(`${url}v1/namespaces/default/buckets?resource=gpt-4`);
  const { items } = (await answer.json()) as { items: { entityId: string }[] };
  assert.deepEqual(items.map(({ entityId }) => entityId).sort(), ["bursty", "greedy", PROJECT, "steady"]);
  child.kill("SIGTERM");
  assert.equal(await exited, 0);
});

test("any OpenAI client can call the gateway while it runs: counted in tokens and dollars, refused as OpenAI refuses", async (t) => {
  const args = [main, "--seconds", "3600", "--port", "0"];
  const child = spawn(process.execPath, args, { cwd: await emptyFolder(t), env: plainEnvironment() });
  t.after(() => child.kill("SIGKILL"));
  const exited = new Promise((resolve) => child.on("close", resolve));
  const stdout = await new Promise<string>((resolve) => {
    let text = "";
    child.stdout.setEncoding("utf8").on("data", (more: string) => {
      text += more;
      if (/^OpenAI clients: .*\n/m.test(text)) resolve(text);
    });
  });
  const [, url = ""] = /^Dashboard: (http:\S+) /m.exec(stdout) ?? [];
  const [, baseURL = ""] = /base_url (http:\S+),/.exec(stdout) ?? [];
  const client = new OpenAI({ apiKey: "sk-anything", baseURL, maxRetries: 0 });
  // A model that only dollars limit: the three callers use up the tokens of the other.
  const asked = { model: "gpt-any", messages: [{ role: "user" as const, content: "Hello?" }], max_tokens: 40 };
  assert.match((await client.chat.completions.create(asked)).choices[0]?.message.content ?? "", /stand-in/);
  let words = 0;
  for await (const chunk of await client.chat.completions.create({ ...asked, stream: true })) {
    if (chunk.choices[0]?.delta.content) words++;
  }
  assert.ok(words > 10);
  const answer = await fetch(`${url}v1/namespaces/default/buckets?entityId=${PROJECT}`);
  const { items } = (await answer.json()) as {
    items: { resource: string; limits: { limit: string; available: number }[] }[];
  };
  const budget = items.find(({ resource }) => resource === "*")?.limits[0];
  // Each call: 2 tokens of input at 30 micro-dollars, 28 of output at 60.
  assert.equal(budget?.available, 5_000_000 - 2 * (2 * 30 + 28 * 60), JSON.stringify(items));
  const dear = await client.chat.completions.create({ ...asked, max_tokens: 90_000 }).catch((error: unknown) => error);
  assert.ok(dear instanceof APIError && dear.status === 413, String(dear));
  child.kill("SIGTERM");
  assert.equal(await exited, 0);
});

test("where another program has the usual port, any that is free will do", async (t) => {
  const limiter = await RateLimiter.open({ store: "memory" });
  const [first, second] = [await startService(limiter, undefined), await startService(limiter, undefined)];
  t.after(() => Promise.all([first.close(), second.close()]));
  assert.notEqual(first.port, second.port);
  await assert.rejects(startService(limiter, second.port), { code: "port_unavailable" });
});

test("what somebody changes over HTTP is known, and the proof does not claim what it cannot", async () => {
  let nowMs = 1_000;
  const limiter = await RateLimiter.open({ store: "memory", clock: { now: () => nowMs } });
  await limiter.setSystemDefaults([Limit.perMinute("rpm", 1)], { principal: "local" });
  nowMs = 2_000;
  await limiter.setSystemDefaults([Limit.perMinute("rpm", 2)]);
  assert.equal(await changedByHand(limiter, 1_500), false);
  await limiter.setSystemDefaults([Limit.perMinute("rpm", 3)], { principal: "local" });
  assert.equal(await changedByHand(limiter, 1_500), true);
});

test("an argument that cannot be understood is answered with the usage", async (t) => {
  const cwd = await emptyFolder(t);
  for (const args of [
    ["--seconds", "soon"],
    ["--minutes", "1"],
    ["--seconds=0"],
    ["--port", "http"],
    ["--port=70000"],
  ]) {
    await assert.rejects(execute(process.execPath, [main, ...args], { cwd }), { code: 2, stderr: /^Usage: npm start/ });
  }
});

test("the screen fits any terminal, and has no colours where none are wanted", () => {
  for (const columns of [20, 40, 80, 132]) {
    for (const rows of [6, 14, 24, 60]) {
      const plain = draw(board(), { columns, rows, colour: false });
      const coloured = draw(board(), { columns, rows, colour: true });
      assert.ok(plain.length <= rows, `${plain.length} lines in ${rows} rows`);
      for (const line of plain) assert.ok(line.length <= columns, `${line.length} characters in ${columns}: ${line}`);
      assert.ok(!plain.join("").includes(ESCAPE));
      assert.deepEqual(coloured.map(stripVTControlCharacters), plain);
    }
  }
});

test("at 80 by 24 everything is on the screen, rates and bursts, the newest event last", () => {
  const lines = draw(board(), { columns: 80, rows: 24, colour: false });
  assert.ok(lines.includes("Each key:    60 rpm, burst 6; 18,000 tpm, burst 2,500."), lines.join("\n"));
  assert.ok(lines.includes("The project: 150 rpm, burst 15; 30,000 tpm, burst 4,500."), lines.join("\n"));
  assert.match(lines[0] ?? "", /^zae-limiter: an LLM gateway +5\.0 s of 20\.0 s, Ctrl-C ends it$/);
  assert.ok(lines.includes("Dashboard: http://127.0.0.1:4780/ (open to this machine while it runs)"), lines.join("\n"));
  const [endless] = draw({ ...board(), totalMs: undefined }, { columns: 80, rows: 24, colour: false });
  assert.match(endless ?? "", / 5\.0 s, Ctrl-C ends it$/);
  assert.ok(
    lines.some((line) => /^project +█+░+ 12\/15 +░+ +-250\/4,500/.test(line)),
    lines.join("\n"),
  );
  assert.ok(
    lines.some((line) => /^refused by +project tpm 3$/.test(line)),
    lines.join("\n"),
  );
  assert.equal(lines.at(-1)?.trim(), "4.0 s greedy refused x3  project tpm: 250 in debt, wants 700; retry in 1.9 s");
});

/** Every kind of line with as many digits as a run can bring about. */
function longestLines(): string[] {
  const tally = new Tally();
  const primary = { ...PRIMARY, available: -2_250 };
  const atMs = 20_150;
  const lines = CALLERS.flatMap(({ key, estimate, actual, waitMs }) => {
    const waitedMs = waitMs ?? 0;
    const events: CallEvent[] = [
      { kind: "answered", key, estimate, actual: actual.from, waitedMs },
      { kind: "answered", key, estimate, actual: actual.to, waitedMs },
      { kind: "refused", key, primary, retryAfterMs: 9_900 },
      { kind: "refused", key, primary: { ...primary, entityId: key }, retryAfterMs: 9_900 },
      { kind: "failed", key, estimate },
      { kind: "cut", key, estimate },
    ];
    for (const event of events) for (let i = 0; i < 100; i++) tally.add(event);
    for (const limit of ["rpm", "tpm"]) {
      tally.add({ kind: "refused", key, primary: { ...primary, entityId: key, limit }, retryAfterMs: 1 });
    }
    return events.map((event) => eventLine(event, atMs));
  });
  const usage = new Map(
    [PROJECT, ...CALLERS.map(({ key }) => key)].map((id) => [id, { requests: 900, rpm: 900, tpm: 99_999 }]),
  );
  const proof = { used: 149_999, elapsedMs: 300_000, left: -2_250, isChanged: false };
  const { levels } = board();
  const deep = levels.map((level) => ({ ...level, available: -level.capacity }));
  return [
    ...lines,
    ...levelsLines(deep, atMs),
    ...INTRODUCTION,
    ...summaryLines({ elapsedMs: atMs, tally, usage, file: ".zae-limiter/gateway.db", proof }),
    proofLine({ ...proof, isChanged: true }),
    dashboardLine("http://127.0.0.1:65535/"),
  ];
}

function board() {
  const tally = new Tally();
  let events: readonly LoggedEvent[] = [];
  const happened = (event: CallEvent, atMs: number) => {
    tally.add(event);
    events = logged(events, event, atMs);
  };
  happened({ kind: "answered", key: "steady", estimate: 300, actual: 280, waitedMs: 400 }, 1_000);
  happened({ kind: "failed", key: "bursty", estimate: 250 }, 2_000);
  for (let i = 0; i < 3; i++) {
    happened({ kind: "refused", key: "greedy", primary: PRIMARY, retryAfterMs: 1_900 }, 3_000 + 500 * i);
  }
  const level = (entityId: string, limit: string, available: number, capacity: number) => ({
    entityId,
    resource: "gpt-4",
    limit,
    counts: limit,
    available,
    capacity,
  });
  const levels = [
    level(PROJECT, "rpm", 12, 15),
    level(PROJECT, "tpm", -250, 4_500),
    ...CALLERS.flatMap(({ key }) => [level(key, "rpm", 3, 6), level(key, "tpm", 2_500, 2_500)]),
  ];
  return {
    elapsedMs: 5_000,
    totalMs: 20_000,
    url: "http://127.0.0.1:4780/",
    proxyUrl: "http://127.0.0.1:4781/openai/v1",
    levels,
    tally,
    events,
  };
}

async function emptyFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "gateway-"));
  t.after(() => rm(folder, { recursive: true }));
  return folder;
}

/** Rejects when it does not end with code 0. */
async function runFor(seconds: number, cwd: string): Promise<string> {
  const args = [main, "--seconds", String(seconds), "--port", "0"];
  return (await execute(process.execPath, args, { cwd, env: plainEnvironment() })).stdout;
}

/** The summary without its numbers, and without the lines that only some runs have. */
function summaryShape(stdout: string): string[] {
  const [, summary = ""] = /^(Summary after [\s\S]*)/m.exec(stdout) ?? [];
  const lines = summary.split("\n").filter((line) => !/refused by|stopped with the run/.test(line));
  // Only some runs end in debt.
  const told = lines.map((line) => line.replace(/ \+ [\d,]+ owed/, ""));
  return told.map((line) =>
    line
      .replace(/[\d.,]*\d/g, "N")
      .replace(/\s+/g, " ")
      .trim(),
  );
}

function numberOf(text: string | undefined): number {
  return Number((text ?? "0").replaceAll(",", ""));
}

/** The numbers of each row that begins with a name, from the summary on. */
function rowsOf(stdout: string, name: string): number[][] {
  const summary = stdout.slice(stdout.indexOf("Summary after"));
  return [...summary.matchAll(new RegExp(`^ +${name} +([\\d, ]+)$`, "gm"))].map(([, numbers = ""]) =>
    numbers
      .trim()
      .split(/\s+/)
      .map((text) => Number(text.replaceAll(",", ""))),
  );
}
