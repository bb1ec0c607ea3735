import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { RateLimiter } from "../../src/entry/index.ts";
import { LIMITS, NOW_MS } from "./stopping-app.ts";

const APP = fileURLToPath(new URL("stopping-app.ts", import.meta.url));

/** An application with two requests whose leases are open. */
async function withOpenRequests(t: TestContext, framework: string, stop: "at once" | "by exit" | "drained") {
  const folder = mkdtempSync(join(tmpdir(), "zae-limiter-stops-"));
  const file = join(folder, "limits.db");
  const child = fork(APP, [framework, file, stop]);
  t.after(() => {
    child.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  });
  const exited = once(child, "exit") as Promise<[code: number | null, signal: string | null]>;
  const [{ port }] = (await once(child, "message")) as [{ port: number }];
  const answers: Promise<string>[] = [];
  for (let i = 0; i < 2; i++) {
    const open = once(child, "message");
    answers.push(
      fetch(`http://127.0.0.1:${port}/`, { headers: { connection: "close" } }).then((response) => response.text()),
    );
    answers.at(-1)?.catch(() => {});
    assert.deepEqual((await open)[0], "open");
  }
  const left = async () => {
    await using limiter = await RateLimiter.open({ store: `sqlite:${file}`, clock: { now: () => NOW_MS } });
    const held = await limiter.available({ entityId: "key-1", resource: "chat", limits: LIMITS });
    return Object.fromEntries(held.map(({ limit, available }) => [limit, available]));
  };
  return { child, exited, answers, left };
}

for (const framework of ["express", "fastify"]) {
  for (const stop of ["at once", "by exit"] as const) {
    test(`${framework}: what is open when its process ends ${stop} counts as used`, async (t) => {
      const { child, exited, answers, left } = await withOpenRequests(t, framework, stop);
      child.kill("SIGTERM");
      assert.deepEqual(await exited, stop === "at once" ? [null, "SIGTERM"] : [0, null]);
      for (const answer of answers) await assert.rejects(answer);
      assert.deepEqual(await left(), { rpm: 8, tpm: 400 });
    });
  }

  test(`${framework}: a limiter that is closed with drainMs waits for open requests, and stores how they end`, async (t) => {
    const { child, exited, answers, left } = await withOpenRequests(t, framework, "drained");
    const stopping = once(child, "message");
    child.kill("SIGTERM");
    assert.deepEqual((await stopping)[0], "stopping");
    child.send("end");
    assert.deepEqual(await Promise.all(answers), ["done", "done"]);
    assert.deepEqual(await exited, [0, null]);
    assert.deepEqual(await left(), { rpm: 8, tpm: 800 });
  });
}
