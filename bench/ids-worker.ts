import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Limit, type OpenOptions, RateLimiter } from "../src/entry/index.ts";

// A process that lets ids come and go through one limiter, and tells what it holds after each generation of them.

/** What the process is told to do. */
export interface IdsJob {
  readonly store: "memory" | "sqlite" | "dynamodb";
  readonly idsPerGeneration: number;
  readonly generations: number;
  /** Of the simulated clock, from one generation to the next. */
  readonly pauseMs: number;
  readonly usage: OpenOptions["usage"];
  /** How many requests are under way together; 0: synchronously, one by one. */
  readonly together: number;
  readonly dynamodb: Pick<OpenOptions, "endpoint" | "region" | "credentials"> & { readonly table: string };
}

/** What is held after a generation, once everything that can be collected is. */
export interface Held {
  readonly heapBytes: number;
  readonly fileBytes: number;
  readonly microseconds: number;
}

const HOUR_MS = 3_600_000;

async function run(job: IdsJob): Promise<Held[]> {
  const folder = mkdtempSync(join(tmpdir(), "zae-limiter-ids-"));
  const file = join(folder, "limiter.db");
  const { table, ...connection } = job.dynamodb;
  const stores = { memory: "memory", sqlite: `sqlite:${file}`, dynamodb: `dynamodb:${table}` };
  const clock = { nowMs: Date.UTC(2026, 5, 15), now: () => clock.nowMs };
  const limiter = await RateLimiter.open({
    ...{ store: stores[job.store], namespace: "default", clock, timeoutMs: 60_000 },
    ...(job.store === "dynamodb" ? connection : job.usage === undefined ? {} : { usage: job.usage }),
  });
  await limiter.setSystemDefaults([Limit.perMinute("rpm", 60), Limit.perMinute("tpm", 100_000)]);
  const request = (entityId: string) => ({ entityId, resource: "gpt-4", consume: { rpm: 1, tpm: 500 } });
  const baseBytes = heapBytes();
  const held: Held[] = [];
  for (let generation = 0; generation < job.generations; generation++) {
    const startMs = clock.nowMs;
    const begun = performance.now();
    const { idsPerGeneration: ids, together } = job;
    for (let i = 0; i < ids; i += Math.max(1, together)) {
      // All of a generation within an hour, so that they are in use together.
      clock.nowMs = startMs + Math.floor((i * HOUR_MS) / ids);
      if (together === 0) limiter.tryAcquireSync(request(`user-${generation}-${i}`));
      else {
        const calls = Array.from({ length: Math.min(together, ids - i) }, (_, n) =>
          limiter.tryAcquire(request(`user-${generation}-${i + n}`)),
        );
        await Promise.all(calls);
      }
    }
    const microseconds = ((performance.now() - begun) * 1000) / ids;
    const fileBytes = job.store === "sqlite" ? statSync(file).size : 0;
    held.push({ heapBytes: heapBytes() - baseBytes, fileBytes, microseconds });
    process.send?.({ generation });
    clock.nowMs = startMs + job.pauseMs;
  }
  await limiter.close();
  rmSync(folder, { recursive: true, force: true });
  return held;
}

function heapBytes(): number {
  globalThis.gc?.();
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
}

process.once("message", async (job: IdsJob) => {
  process.send?.({ held: await run(job) });
  process.disconnect();
});
