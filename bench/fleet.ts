import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { type BenchTable, followedBy, median, type Pair, pairedRounds, quantile, ratiosOf } from "./measure.ts";

const ROUNDS = 3;
const SPAN_MS = 1_000;

/** Many processes with one caller each, and the works that they do in turns. */
export interface Fleet<Work extends string> {
  readonly title: string;
  readonly processes: number;
  /** What each process runs: a program that calls `serveWorks`. */
  readonly program: URL;
  readonly argsOf: (process: number) => readonly string[];
  /** What the server has used of processors. */
  readonly cpuMs: () => Promise<number>;
  readonly base: Work;
  /** By the names of their rows. */
  readonly others: Readonly<Record<string, Work>>;
  /** Peers are compared with, not followed. */
  readonly peers: readonly Work[];
}

type FleetClock = "server CPU" | "time";

/** What a request costs the server where nothing is joined to batches. `time` is that of a round by the number of its requests. */
export async function fleetTableOf<Work extends string>(fleet: Fleet<Work>): Promise<BenchTable> {
  const workers = await Promise.all(Array.from({ length: fleet.processes }, (_, i) => started(fleet, i)));
  try {
    const others = Object.values(fleet.others) as Work[];
    for (const work of [fleet.base, ...others]) await round(workers, work, fleet);
    const pairs = await pairedRounds<Work, Readonly<Record<FleetClock, number>>>(
      { base: fleet.base, others },
      ROUNDS,
      (work) => round(workers, work, fleet),
    );
    return {
      title: fleet.title,
      rows: Object.keys(fleet.others).map((name, i) => rowOf(name, pairs[i] ?? [])),
      followed: Object.entries(fleet.others).flatMap(([name, work], i) =>
        fleet.peers.includes(work) ? [] : followedBy(name, pairs[i] ?? [], ["server CPU"]),
      ),
    };
  } finally {
    // A server that stops before they do would end their connections with an error.
    await Promise.all(
      workers.map((worker) => {
        const exit = once(worker, "exit");
        worker.disconnect();
        return exit;
      }),
    );
  }
}

/** In a process of a fleet: works for so many ms when it is told to, one call after the other with a pause between them, and tells how often. */
export function serveWorks(calls: Readonly<Record<string, () => Promise<unknown>>>): void {
  process.on("message", async ({ work, ms }: { readonly work: string; readonly ms: number }) => {
    const until = performance.now() + ms;
    let count = 0;
    for (; performance.now() < until; count++) {
      await calls[work]?.();
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    process.send?.(count);
  });
  process.on("disconnect", () => process.exit());
  process.send?.("ready");
}

function rowOf(name: string, pairs: readonly Pair<FleetClock>[]): object {
  const ratios = ratiosOf(pairs, "server CPU");
  const serverCpuMicroseconds = median(pairs.map(({ own }) => own["server CPU"]));
  return {
    ...{ name, serverCpuMicroseconds, callsPerSecond: 1e6 / median(pairs.map(({ own }) => own.time)) },
    takesPerSecondACore: 1e6 / serverCpuMicroseconds,
    ...{ ratio: median(ratios), ratioLow: quantile(ratios, 0.25), ratioHigh: quantile(ratios, 0.75) },
  };
}

async function round<Work extends string>(workers: readonly ChildProcess[], work: Work, { cpuMs }: Fleet<Work>) {
  const startMs = await cpuMs();
  const counts = await Promise.all(
    workers.map(async (worker) => {
      const answer = once(worker, "message");
      worker.send({ work, ms: SPAN_MS });
      return Number((await answer)[0]);
    }),
  );
  const calls = counts.reduce((sum, count) => sum + count);
  return { "server CPU": (((await cpuMs()) - startMs) * 1_000) / calls, time: (SPAN_MS * 1_000) / calls };
}

async function started<Work extends string>({ program, argsOf }: Fleet<Work>, i: number): Promise<ChildProcess> {
  const worker = fork(program, [...argsOf(i)]);
  await once(worker, "message");
  return worker;
}
