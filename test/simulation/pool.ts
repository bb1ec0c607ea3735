import { Worker } from "node:worker_threads";
import type { Ground } from "./play.ts";
import type { SeedReport } from "./simulation.ts";

export interface SeedRange {
  readonly from: number;
  readonly seeds: number;
  readonly store: Ground;
  /** How many are played at the same time. */
  readonly workers: number;
}

/** Plays a range of seeds, each in one of several threads, and reports each as it ends. */
export async function playSeeds(range: SeedRange, onReport: (report: SeedReport) => void): Promise<void> {
  let next = range.from;
  const end = range.from + range.seeds;
  const drawOrder = () => (next < end ? { seed: next++, store: range.store } : undefined);
  const workers = Math.min(range.seeds, range.workers);
  await Promise.all(Array.from({ length: workers }, () => playOn(drawOrder, onReport)));
}

function playOn(
  drawOrder: () => { readonly seed: number; readonly store: Ground } | undefined,
  onReport: (report: SeedReport) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL("./worker.ts", import.meta.url));
    const proceed = () => {
      const order = drawOrder();
      if (order === undefined) void worker.terminate();
      else worker.postMessage(order);
    };
    worker.on("message", (report: SeedReport) => {
      onReport(report);
      proceed();
    });
    worker.on("error", reject);
    worker.on("exit", () => resolve());
    proceed();
  });
}
