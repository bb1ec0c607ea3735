import assert from "node:assert/strict";
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import {
  claim,
  context,
  kinds,
  NOON,
  oneTime,
  openOn,
  tempFile,
  tokensMilli,
} from "../../../test/sqlite/temp-store.ts";

const WORKER = fileURLToPath(new URL("../../../test/sqlite/worker.ts", import.meta.url));

interface Worker {
  readonly process: ChildProcess;
  /** Grants that it has acknowledged so far. */
  grants(): number;
  readonly ended: Promise<unknown>;
}

/** A process that is ready to take tokens one by one; see the worker. */
async function worker(t: TestContext, file: string, capacity: number, callers: number): Promise<Worker> {
  const process = fork(WORKER, [file, String(capacity), String(callers)], {
    stdio: ["ignore", "pipe", "inherit", "ipc"],
  });
  t.after(() => process.kill("SIGKILL"));
  let grants = 0;
  process.stdout?.on("data", (bytes: Buffer) => {
    grants += bytes.length;
  });
  const ended = once(process, "close");
  await once(process, "message");
  return { process, grants: () => grants, ended };
}

test("two processes that empty one bucket get exactly what it held, and neither starves", async (t) => {
  const file = tempFile(t);
  // So many that it lasts: on a busy machine one of them may begin a good deal later than the other.
  const capacity = 150_000;
  // Both make the file at once.
  const [a, b] = await Promise.all([worker(t, file, capacity, 4), worker(t, file, capacity, 4)]);
  for (const { process } of [a, b]) process.send("go");
  await Promise.all([a.ended, b.ended]);
  assert.equal(a.grants() + b.grants(), capacity);
  assert.ok(Math.min(a.grants(), b.grants()) > capacity / 5, `${a.grants()} and ${b.grants()}`);
  const { buckets, usage } = openOn(t, file);
  const wanted = claim("shared", [oneTime("tokens", capacity)], { tokens: 1 });
  assert.deepEqual(kinds(await buckets.take([wanted], context(NOON))), ["short"]);
  const { items } = await usage.query({ window: "hourly", fromMs: 0, toMs: NOON + 1 }, { limit: 9 });
  assert.deepEqual(
    items.map(({ counters, requests }) => [counters, requests]),
    [[{ tokens: capacity }, capacity]],
  );
});

test("kill -9 in the middle of work loses no take that was acknowledged, mints none, and leaves a sound file", async (t) => {
  const file = tempFile(t);
  const capacity = 1_000_000;
  const callers = 8;
  let acknowledged = 0;
  for (const [round, enough] of [50, 900, 333].entries()) {
    const victim = await worker(t, file, capacity, callers);
    victim.process.stdout?.on("data", () => {
      if (victim.grants() >= enough) victim.process.kill("SIGKILL");
    });
    victim.process.send("go");
    await victim.ended;
    acknowledged += victim.grants();
    const { buckets, usage, connection, store } = openOn(t, file);
    assert.deepEqual(connection.prepare("PRAGMA integrity_check").get(), ["ok"]);
    const key = claim("shared", [], {}).bucket;
    const [state] = await buckets.read([key]);
    const missing = capacity - Number(tokensMilli(state, "tokens")) / 1_000;
    // At most one transaction was committed and not yet acknowledged: one call of each caller.
    assert.ok(missing >= acknowledged, `${acknowledged} acknowledged, ${missing} taken`);
    assert.ok(missing <= acknowledged + callers * (round + 1), `${acknowledged} acknowledged, ${missing} taken`);
    const { items } = await usage.query({ window: "hourly", fromMs: 0, toMs: NOON + 1 }, { limit: 9 });
    assert.deepEqual(items[0]?.counters, { tokens: missing });
    await store.close();
  }
});
