import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { once } from "node:events";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { FaultStore } from "../../src/testing/fault-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { atDepth } from "../depth.ts";
import { EVERY_STORE } from "../limiter/every-store.ts";
import { openOn, tempFile } from "../sqlite/temp-store.ts";
import { CHANGES, type KilledChange } from "./killed-changes.ts";
import { openStoredLeases, openWorld, still, T0, taking } from "./kit.ts";

const WORKER = fileURLToPath(new URL("./killed-worker.ts", import.meta.url));
const DEAD_AFTER_MS = 15_000;
/** More calls than any change makes; the test says when there are none left. */
const KILLS_MAX = 60;

for (const [name, openStore] of EVERY_STORE) {
  describe(`a process that is killed in the middle of a change, on ${name}`, () => {
    for (const change of CHANGES) {
      test(`${change.name}, sent again, is done once, wherever it was killed`, async (t) => {
        let kills = 0;
        for (let at = 0; ; at++) {
          assert.ok(at < KILLS_MAX);
          const { storedLeases, store, clock, left } = await openWorld(t, openStore);
          const leaseId = (await storedLeases.acquire(taking({ tpm: 500 }))).lease.leaseId as string;
          let calls = -1;
          const line = new FaultStore(store, {
            pause: async () => {
              if (calls >= 0 && calls++ === at) line.crash();
            },
          });
          const dying = await openStoredLeases(line, clock);
          calls = 0;
          const outcome = await Promise.race([
            change.send(dying.storedLeases, leaseId).then(() => "answered"),
            quiet(),
          ]);
          if (outcome === "answered" && calls <= at) break;
          kills++;
          await clock.advance(DEAD_AFTER_MS);
          const view = await change.send(storedLeases, leaseId);
          assert.deepEqual(view.consumed, { tpm: 500 + change.moves }, `killed at call ${at}`);
          const charged = 6_000 - Number((await left())["key-1.tpm"]);
          const isAtOnce = store.scope("default").leases.change !== undefined;
          // Without a transaction over both, what was debited before the record, or not credited after it, counts as used.
          if (isAtOnce) assert.equal(charged, 500 + change.moves, `killed at call ${at}`);
          else assert.ok(charged >= 500 + change.moves && charged <= 500 + 2 * Math.abs(change.moves), `${charged}`);
        }
        assert.ok(kills >= 4, `only ${kills} kills`);
      });
    }
  });
}

for (const change of CHANGES) {
  test(`kill -9 of a process on SQLite: ${change.name}, sent again, is done once`, async (t) => {
    let kills = 0;
    for (let at = atDepth(1, 0); ; at += atDepth(6, 1)) {
      assert.ok(at < KILLS_MAX);
      const file = tempFile(t);
      const { store } = openOn(t, file);
      const clock = new SimulatedClock(T0);
      const { storedLeases, limiter } = await openStoredLeases(store, clock);
      await limiter.setResourceDefaults("gpt-4", [still("tpm", 6_000)]);
      const leaseId = (await storedLeases.acquire(taking({ tpm: 500 }))).lease.leaseId as string;
      const isKilled = await killedAt(at, change, file, leaseId);
      if (!isKilled) break;
      kills++;
      await clock.advance(DEAD_AFTER_MS);
      const view = await change.send(storedLeases, leaseId);
      assert.deepEqual(view.consumed, { tpm: 500 + change.moves }, `killed at call ${at}`);
      const [tpm] = await limiter.available({ entityId: "key-1", resource: "gpt-4" });
      assert.equal(tpm?.available, 6_000 - 500 - change.moves, `killed at call ${at}`);
      const usage = await limiter.usageSummary({ entityId: "key-1", window: "daily" });
      assert.equal(usage.total.tpm, 500 + change.moves, `killed at call ${at}`);
    }
    assert.ok(kills >= atDepth(1, 4), `only ${kills} kills`);
  });
}

/** Whether a process that kills itself at a call came to that call. */
async function killedAt(at: number, { name }: KilledChange, file: string, leaseId: string): Promise<boolean> {
  const worker = fork(WORKER, [file, leaseId, name, String(at)], { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  const [code, signal] = await once(worker, "close");
  assert.ok(signal === "SIGKILL" || code === 0, `the worker ended with ${code}`);
  return signal === "SIGKILL";
}

/** Nothing of a process that is gone comes any more. */
async function quiet(): Promise<"quiet"> {
  for (let i = 0; i < 100; i++) await new Promise((resolve) => setImmediate(resolve));
  return "quiet";
}
