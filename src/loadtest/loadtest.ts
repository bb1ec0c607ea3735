import type { RateLimiter } from "../entry/rate-limiter.ts";
import { type Counts, runFleet, type WorkerTask } from "./fleet.ts";
import { type LoadtestDetail, type LoadtestReport, type LoadtestTerms, reportOf } from "./report.ts";
import { scenarioOf, setUp } from "./scenarios.ts";
import { type LoadTarget, openTarget } from "./target.ts";

export interface LoadtestOptions {
  readonly target: LoadTarget;
  readonly terms: LoadtestTerms;
  readonly durationMs: number;
  readonly timeoutMs: number;
  /** Leave the namespace there. */
  readonly keeps: boolean;
  readonly onProgress: (progress: Progress) => void;
  /** Ends it before its time; what was measured until then is reported, and the namespace purged. */
  readonly signal: AbortSignal;
}

export type Progress =
  | { readonly kind: "running"; readonly elapsedMs: number; readonly counts: Counts }
  | { readonly kind: "purging"; readonly records: number };

/** The charts show about so many slices of time. */
const SLICES = 60;

/** Runs a load test in a namespace of its own, and removes that. */
export async function runLoadtest(
  options: LoadtestOptions,
): Promise<{ readonly report: LoadtestReport; readonly detail: LoadtestDetail }> {
  const { target, terms, keeps } = options;
  if (target.kind === "memory") return ran(options, "default");
  const namespace = `loadtest-${crypto.randomUUID().slice(0, 8)}`;
  const admin = await openTarget(target, { namespace: "default", timeoutMs: options.timeoutMs });
  try {
    const { id } = await admin.limiter.registerNamespace(namespace, { principal: "loadtest" });
    try {
      await setUp(admin.limiter.namespace(namespace) as RateLimiter, scenarioOf(terms.scenario));
      const { report, detail } = await ran(options, namespace);
      return { report: keeps ? { ...report, namespace } : report, detail };
    } finally {
      if (!keeps) await purge(admin.limiter, { id, name: namespace }, options);
    }
  } finally {
    await admin.close();
  }
}

async function ran(options: LoadtestOptions, namespace: string) {
  const { target, terms, durationMs, timeoutMs, onProgress, signal } = options;
  const { scenario, seed, processes, concurrency } = terms;
  const sliceMs = Math.max(100, Math.ceil(durationMs / SLICES));
  const tasks = Array.from(
    { length: processes },
    (_, worker): WorkerTask => ({
      ...{ target, namespace, scenario, timeoutMs, durationMs, concurrency, seed, worker, sliceMs },
    }),
  );
  // The processes begin when all of them are ready.
  let beganMs: number | undefined;
  const results = await runFleet({
    tasks,
    onProgress: (counts) => {
      beganMs ??= performance.now();
      onProgress({ kind: "running", elapsedMs: performance.now() - beganMs, counts });
    },
    signal,
  });
  const tookMs = Math.round(performance.now() - (beganMs ?? performance.now()));
  const stores = target.kind === "memory" ? processes : 1;
  const { detail, ...report } = reportOf({ terms, results, sliceMs, durationMs: tookMs, stores });
  return { report: signal.aborted ? { ...report, interrupted: true as const } : report, detail };
}

async function purge(
  limiter: RateLimiter,
  { id, name }: { readonly id: string; readonly name: string },
  { onProgress }: LoadtestOptions,
): Promise<void> {
  await limiter.deleteNamespace(name, { principal: "loadtest" });
  await limiter.purgeNamespace(id, {
    principal: "loadtest",
    onProgress: (records) => onProgress({ kind: "purging", records }),
  });
}
