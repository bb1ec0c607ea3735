import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { once } from "node:events";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Connection } from "../../src/adapters/sqlite/connection.ts";
import { MIGRATIONS } from "../../src/adapters/sqlite/open-connection.ts";
import { RateLimiter } from "../../src/entry/index.ts";
import { StoredLeases } from "../../src/leases/stored-leases.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { openOn, tempFile } from "../sqlite/temp-store.ts";
import { HOLDS, openStoredLeases, still, T0, taking } from "./kit.ts";

const WORKER = fileURLToPath(new URL("./sqlite-worker.ts", import.meta.url));
const CAPACITY = 1_000_000;
const DatabaseSync = process.getBuiltinModule("node:sqlite").DatabaseSync;

async function openFile(t: TestContext, file: string) {
  const { store, connection } = openOn(t, file);
  const clock = new SimulatedClock(T0);
  const opened = await openStoredLeases(store, clock);
  await opened.limiter.setResourceDefaults("gpt-4", [still("tpm", CAPACITY)]);
  const left = async () => (await opened.limiter.available({ entityId: "key-1", resource: "gpt-4" }))[0]?.available;
  return { ...opened, store, connection, clock, left };
}

test("an acquire that holds is one commit, with its key two; a hold of nothing is one", async (t) => {
  const { storedLeases, connection } = await openFile(t, tempFile(t));
  await storedLeases.acquire(taking({ tpm: 1 }));
  const commits = async (work: () => Promise<unknown>): Promise<number> => {
    const before = connection.commits;
    await work();
    return connection.commits - before;
  };
  assert.equal(await commits(() => storedLeases.acquire(taking({ tpm: 1 }))), 1);
  assert.equal(await commits(() => storedLeases.acquire(taking({ tpm: 1 }, { holdMs: 0 }))), 1);
  assert.equal(await commits(() => storedLeases.acquire(taking({ tpm: 1 }, { idempotencyKey: "k" }))), 2);
  // Those that are under way together share their commits.
  assert.equal(
    await commits(() => Promise.all(Array.from({ length: 20 }, () => storedLeases.acquire(taking({ tpm: 1 }))))),
    1,
  );
});

test("leases and keys outlive the process: the next one settles, repeats and expires", async (t) => {
  const file = tempFile(t);
  const first = await openFile(t, file);
  const asked = taking({ tpm: 500 }, { idempotencyKey: "order-7", onExpiry: "refund" });
  const answer = await first.storedLeases.acquire(asked);
  const other = await first.storedLeases.acquire(taking({ tpm: 100 }, { onExpiry: "refund" }));
  await first.limiter.close();
  await first.store.close();
  const next = await openFile(t, file);
  assert.deepEqual(await next.storedLeases.acquire(asked), { ...answer, replayed: true });
  assert.equal(
    (await next.storedLeases.settle(answer.lease.leaseId as string, { consumed: { tpm: 50 } })).status,
    "settled",
  );
  await next.clock.advance(HOLDS.holdMs);
  assert.equal(await next.storedLeases.expireDue(), 1);
  assert.equal((await next.storedLeases.get(other.lease.leaseId as string)).status, "expired");
  assert.equal(await next.left(), CAPACITY - 50);
});

test("a file of schema version 2 is brought to the newest with all it has, and then keeps leases", async (t) => {
  const file = tempFile(t);
  const old = new Connection(new DatabaseSync(file), { file, random: Math.random, steadyMs: () => 0 });
  for (const sql of MIGRATIONS.slice(0, 2)) old.exec(sql);
  old.exec(`PRAGMA application_id = ${0x7a61656c}; PRAGMA user_version = 2`);
  old.exec("INSERT INTO namespace VALUES ('default', 'default', 'active', 0, NULL)");
  old.exec("INSERT INTO config VALUES ('default', '', 'gpt-4', '[]', NULL, 'bypass', NULL)");
  old.close();
  const { storedLeases, limiter, connection } = await openFile(t, file);
  assert.deepEqual(connection.prepare("PRAGMA user_version").get(), [MIGRATIONS.length]);
  assert.equal((await limiter.getPolicy({ resource: "gpt-4" })).access, "bypass", "what was there is there");
  const { lease } = await storedLeases.acquire(taking({ tpm: 500 }));
  assert.equal(lease.bypassed, true);
  assert.equal((await storedLeases.rollback(lease.leaseId as string)).status, "rolledBack");
});

test("kill -9 in the middle of work loses no lease that was answered, by id or by key, and gives none back", async (t) => {
  const file = tempFile(t);
  const { storedLeases, left, clock, store } = await openFile(t, file);
  let answered: string[] = [];
  for (const name of ["a", "b"]) {
    const lines: string[] = [];
    const victim = fork(WORKER, [file, name], { stdio: ["ignore", "pipe", "inherit", "ipc"] });
    t.after(() => victim.kill("SIGKILL"));
    let text = "";
    victim.stdout?.on("data", (bytes: Buffer) => {
      text += String(bytes);
      if (text.split("\n").length > 60) victim.kill("SIGKILL");
    });
    const ended = once(victim, "close");
    await once(victim, "message");
    victim.send("go");
    await ended;
    lines.push(...text.split("\n").slice(0, -1));
    assert.ok(lines.length >= 60);
    answered = [...answered, ...lines];
  }
  // The workers go by the machine's clock: what they took is long ahead of this one.
  const limiter = await RateLimiter.open({ store });
  const now = new StoredLeases(limiter, { ...HOLDS, onChange: () => {} });
  let held = 0;
  for (const line of answered) {
    const [idempotencyKey = "", leaseId = ""] = line.split(" ");
    const lease = await now.get(leaseId);
    held += lease.consumed.tpm as number;
    const again = await now.acquire(taking({ tpm: 2 }, { idempotencyKey }));
    assert.deepEqual([again.replayed, again.lease.leaseId], [true, leaseId]);
  }
  const charged = CAPACITY - Number(await left());
  // Of each victim at most one take was not answered yet, and one give-back not done.
  assert.ok(charged >= held && charged <= held + 2 * 3, `${charged} charged, ${held} held`);
  assert.ok(clock.now() === T0 && storedLeases !== now);
});
