import { fork } from "node:child_process";
import { CALLERS } from "./callers.ts";

const SPAN_MS = 3_000;

/**
 * Two processes on one store, each as busy as it can be: how evenly they share. The store has limits for the resource `two`; requests
 * are for the entities `key-0` to `key-99`.
 */
export async function sharingRows(store: string): Promise<object[]> {
  const rows: object[] = [];
  for (const callers of [1, CALLERS]) {
    const reports = await Promise.all([0, 1].map(() => worker(store, callers)));
    const counts = reports.map(({ calls }) => calls);
    rows.push({
      name: `two processes, ${callers} callers each`,
      callsPerSecond: counts.map((calls) => Math.round((calls * 1_000) / SPAN_MS)),
      share: Math.min(...counts) / Math.max(...counts),
      p99Ms: Math.max(...reports.map(({ p99Ms }) => p99Ms)),
    });
  }
  return rows;
}

function worker(store: string, callers: number): Promise<{ readonly calls: number; readonly p99Ms: number }> {
  const child = fork(new URL("./sharing-worker.ts", import.meta.url), [store, String(callers), String(SPAN_MS)]);
  return new Promise((resolve, reject) => {
    child.on("message", (message) => resolve(message as { calls: number; p99Ms: number }));
    child.on("error", reject);
    child.on("exit", (code) => reject(new Error(`The worker ended with ${code}.`)));
  });
}
