import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { once } from "node:events";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Connection } from "../../src/adapters/sqlite/connection.ts";
import { MIGRATIONS } from "../../src/adapters/sqlite/open-connection.ts";
import { RateLimiter } from "../../src/entry/index.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { tempFile } from "../sqlite/temp-store.ts";
import { ONE_A_DAY, refusedOf, refusedOnce, T0 } from "./refusing-kit.ts";

const WORKER = fileURLToPath(new URL("./refusing-worker.ts", import.meta.url));

test("of two processes on one file one is killed: what it had not written is missing, and nothing counts twice", async (t) => {
  const file = tempFile(t);
  const clock = new SimulatedClock(T0);
  const limiter = await RateLimiter.open({ store: `sqlite:${file}`, clock });
  t.after(() => limiter.close());
  await limiter.setSystemDefaults(ONE_A_DAY);
  await limiter.acquire({ entityId: "key-1", resource: "api", consume: { rpd: 1 } });
  const EACH = 20;
  const victim = fork(WORKER, [file, String(EACH)], { stdio: ["ignore", "pipe", "inherit", "ipc"] });
  t.after(() => victim.kill("SIGKILL"));
  let text = "";
  victim.stdout?.on("data", (bytes: Buffer) => {
    text += String(bytes);
    if (text.split("\n").length > 5) victim.kill("SIGKILL");
  });
  const ended = once(victim, "close");
  let own = 0;
  // This one is refused meanwhile, on the same bucket, and writes now and then.
  for (; victim.exitCode === null && victim.signalCode === null; own++) {
    await refusedOnce(limiter);
    if (own % 10 === 9) await clock.advance(10_000);
  }
  await ended;
  const said = Number(text.trim().split("\n").at(-1));
  const stored = (await refusedOf(limiter)) - own;
  // It was killed before it wrote the next ones, or after.
  assert.ok(stored === said || stored === said + EACH, `${stored} stored of the victim's, which said ${said}`);
  await clock.advance(60_000);
  await limiter.close();
  const later = await RateLimiter.open({ store: `sqlite:${file}`, clock });
  t.after(() => later.close());
  assert.equal(await refusedOf(later), stored + own);
});

test("a file of the schema before refusals is brought up with all it has, and then counts them", async (t) => {
  const file = tempFile(t);
  const before = MIGRATIONS.findIndex((sql) => sql.includes("CREATE TABLE refusal "));
  const old = new Connection(new DatabaseSync(file), { file, random: Math.random, steadyMs: () => 0 });
  for (const sql of MIGRATIONS.slice(0, before)) old.exec(sql);
  old.exec(`PRAGMA application_id = ${0x7a61656c}; PRAGMA user_version = ${before}`);
  old.exec("INSERT INTO namespace VALUES ('default', 'default', 'active', 0, NULL)");
  old.exec(`INSERT INTO usage VALUES ('default', ${T0}, 'key-1', 'api', 7, '{"rpd":"7000"}')`);
  old.close();
  const limiter = await RateLimiter.open({ store: `sqlite:${file}`, clock: new SimulatedClock(T0) });
  t.after(() => limiter.close());
  assert.equal((await limiter.usageSummary({ window: "daily" })).requests, 7, "what was there is there");
  assert.equal(await refusedOf(limiter), 0);
  await limiter.setSystemDefaults(ONE_A_DAY);
  await limiter.acquire({ entityId: "key-1", resource: "api", consume: { rpd: 1 } });
  await refusedOnce(limiter);
  assert.equal(await refusedOf(limiter), 1);
});

test("refusals are dropped from the file as usage is, once they are old enough", async (t) => {
  const file = tempFile(t);
  const DAY_MS = 86_400_000;
  const clock = new SimulatedClock(T0);
  const limiter = await RateLimiter.open({ store: `sqlite:${file}`, clock, usage: { keepMs: 2 * DAY_MS } });
  t.after(() => limiter.close());
  await limiter.setSystemDefaults(ONE_A_DAY);
  await limiter.acquire({ entityId: "key-1", resource: "api", consume: { rpd: 1 } });
  await refusedOnce(limiter);
  await clock.advance(4 * DAY_MS);
  // Old rows go a few at a time, in transactions of others.
  for (let i = 0; i < 300; i++) await limiter.acquire({ entityId: `id-${i}`, resource: "api", consume: { rpd: 1 } });
  assert.equal(await refusedOf(limiter), 0);
});
