import { type ChildProcess, fork } from "node:child_process";
import { LimiterError } from "../domain/names/errors.ts";
import { siblingModule } from "../local/sibling-module.ts";
import type { Counts, FromWorker, ToWorker, WorkerResult, WorkerTask } from "./messages.ts";

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
    // What it says for itself is no answer of the command.
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
    // Whoever waits for one of them need not wait for the other.
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
