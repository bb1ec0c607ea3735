import type { FromWorker, ToWorker, WorkerTask } from "./fleet.ts";
import { scenarioOf, setUp } from "./scenarios.ts";
import { type OpenTarget, openTarget } from "./target.ts";
import { Worker } from "./worker.ts";

// One process of a load test. It is told what to do by the one that started it, and ends with it.

const PROGRESS_MS = 200;

// Ctrl-C reaches every process of the terminal; the one that started this one says when to stop.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => {});
let isDone = false;
// Not before: the end of a process may be told before the last message that it has sent.
process.once("disconnect", () => process.exit(isDone ? 0 : 1));

let target: OpenTarget | undefined;
let worker: Worker | undefined;
process.on("message", (message: ToWorker) => {
  if (message.kind === "task") void begin(message.task).catch(failed);
  if (message.kind === "go") void work().catch(failed);
  if (message.kind === "stop") worker?.stop();
});

async function begin(task: WorkerTask): Promise<void> {
  target = await openTarget(task.target, task);
  // Memory is each process's own.
  if (task.target.kind === "memory") await setUp(target.limiter, scenarioOf(task.scenario));
  worker = new Worker(target, task);
  send({ kind: "ready" });
}

async function work(): Promise<void> {
  if (worker === undefined || target === undefined)
    throw new Error("The load test started before this process was ready.");
  const { counts } = worker;
  send({ kind: "progress", counts });
  const telling = setInterval(() => worker && send({ kind: "progress", counts: worker.counts }), PROGRESS_MS);
  const result = await worker.run();
  clearInterval(telling);
  await target.close();
  isDone = true;
  send({ kind: "done", result });
}

function failed(error: unknown): void {
  send({ kind: "failed", message: error instanceof Error ? error.message : String(error) });
}

function send(message: FromWorker): void {
  process.send?.(message);
}
