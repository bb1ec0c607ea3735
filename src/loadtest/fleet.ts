import { type ChildProcess, fork } from "node:child_process";
import { LimiterError } from "../domain/names/errors.ts";
import { siblingModule } from "../local/background.ts";
import type { HistogramCounts } from "./histogram.ts";
import type { GrantedTokens, ScenarioName } from "./scenarios.ts";
import type { LoadTarget, Units } from "./target.ts";

/** The task of one process of the test. */
export interface WorkerTask {
  readonly target: LoadTarget;
  readonly namespace: string;
  readonly scenario: ScenarioName;
  readonly timeoutMs: number;
  readonly durationMs: number;
  readonly concurrency: number;
  readonly seed: number;
  /** The number of this process among all. */
  readonly worker: number;
  /** The length of a slice of the report's charts. */
  readonly sliceMs: number;
}

export interface Counts {
  readonly granted: number;
  readonly refused: number;
  readonly errors: number;
}

/** The counts of one slice of time. */
export interface Slice extends Counts {
  readonly latency: HistogramCounts;
}

export interface WorkerResult extends Counts {
  readonly errorCodes: Readonly<Record<string, number>>;
  readonly grantedTokens: GrantedTokens;
  /** The tokens charged after the fact, where they were more than was taken. */
  readonly correctedTokens: GrantedTokens;
  readonly latency: HistogramCounts;
  readonly slices: readonly Slice[];
  /** Readings of the limiter's clock before its first request and after its last answer. */
  readonly firstMs: number;
  readonly lastMs: number;
  readonly units?: Units;
}

export type ToWorker = { readonly kind: "task"; readonly task: WorkerTask } | { readonly kind: "go" | "stop" };

export type FromWorker =
  | { readonly kind: "ready" }
  | { readonly kind: "progress"; readonly counts: Counts }
  | { readonly kind: "done"; readonly result: WorkerResult }
  | { readonly kind: "failed"; readonly message: string };

interface FleetOptions {
  readonly tasks: readonly WorkerTask[];
  /** Told what all of them have done so far. */
  readonly onProgress: (counts: Counts) => void;
  /** They stop after the requests that are under way. */
  readonly signal: AbortSignal;
}

/** Runs a process for each task, all beginning together; what each has done. */
export async function runFleet({ tasks, onProgress, signal }: FleetOptions): Promise<readonly WorkerResult[]> {
  const counts = new Map<number, Counts>();
  const workers = tasks.map(
    (task) =>
      new WorkerHandle(task, (own) => {
        counts.set(task.worker, own);
        onProgress(sum([...counts.values()]));
      }),
  );
  const stop = () => {
    for (const worker of workers) worker.send({ kind: "stop" });
  };
  try {
    await Promise.all(workers.map(({ ready }) => ready));
    // One that is told to stop before it began would not know of it.
    for (const worker of workers) worker.send({ kind: "go" });
    signal.addEventListener("abort", stop);
    if (signal.aborted) stop();
    return await Promise.all(workers.map(({ result }) => result));
  } finally {
    signal.removeEventListener("abort", stop);
    for (const worker of workers) worker.end();
    await Promise.allSettled(workers.map(({ ended }) => ended));
  }
}

export function sum(all: readonly Counts[]): Counts {
  const total = { granted: 0, refused: 0, errors: 0 };
  for (const { granted, refused, errors } of all) {
    total.granted += granted;
    total.refused += refused;
    total.errors += errors;
  }
  return total;
}

class WorkerHandle {
  readonly ready: Promise<void>;
  readonly result: Promise<WorkerResult>;
  readonly ended: Promise<void>;
  readonly #child: ChildProcess;

  constructor(task: WorkerTask, onProgress: (counts: Counts) => void) {
    // The child's own output is no answer of the command.
    const child = fork(siblingModule("worker-process", import.meta.url), [], { stdio: ["ignore", 2, 2, "ipc"] });
    this.#child = child;
    // Not "close": that does not come where the channel is cut here while the process ends.
    this.ended = new Promise((resolve) => child.once("exit", () => resolve()));
    const ready = deferred<void>();
    const result = deferred<WorkerResult>();
    child.on("message", (message: FromWorker) => {
      if (message.kind === "ready") ready.resolve();
      if (message.kind === "progress") onProgress(message.counts);
      if (message.kind === "done") result.resolve(message.result);
      if (message.kind === "failed") lost(new LimiterError("loadtest_failed", message.message));
    });
    const lost = (error: unknown) => {
      ready.reject(error);
      result.reject(error);
    };
    child.once("error", lost);
    child.once("exit", (code, signal) => {
      const how = signal ?? `exit code ${code}`;
      lost(new LimiterError("loadtest_failed", `A process of the load test ended early, with ${how}.`));
    });
    this.ready = ready.promise;
    this.result = result.promise;
    // A caller who waits for one of them need not wait for the other.
    for (const promise of [this.ready, this.result]) promise.catch(() => {});
    this.send({ kind: "task", task });
  }

  send(message: ToWorker): void {
    if (this.#child.connected) this.#child.send(message, () => {});
  }

  /** It ends when nobody is there to tell. */
  end(): void {
    if (this.#child.connected) this.#child.disconnect();
  }
}

function deferred<Value>() {
  let resolve: (value: Value) => void = () => {};
  let reject: (reason: unknown) => void = () => {};
  const promise = new Promise<Value>((onValue, onReason) => {
    resolve = onValue;
    reject = onReason;
  });
  return { promise, resolve, reject };
}
