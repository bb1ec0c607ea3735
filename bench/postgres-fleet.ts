import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { type BenchTable, followedBy, median, type Pair, pairedRounds, quantile, ratiosOf } from "./measure.ts";
import type { BenchServer } from "./postgres-server.ts";

const PROCESSES = 20;
const ROUNDS = 3;
const SPAN_MS = 1_000;

/** The work of each process: `own` chains of 4, a chain of 4 whose upper three levels all processes share, two limiters of the peer, a bare update. */
export type FleetWork = "own" | "shared" | "flexible" | "bare";

type FleetClock = "server CPU" | "time";

/**
 * Twenty processes with one caller each, so that nothing is joined to batches: what a request costs the server. `time` is that of a round
 * by the number of its requests.
 */
export async function fleetTable(server: BenchServer): Promise<BenchTable> {
  const workers = await Promise.all(Array.from({ length: PROCESSES }, (_, i) => started(server.url, i)));
  try {
    const base = "flexible" as const;
    const others = ["own", "shared", "bare"] as const;
    for (const work of [base, ...others]) await round(workers, work, server);
    const pairs = await pairedRounds<FleetWork, Readonly<Record<FleetClock, number>>>(
      { base, others },
      ROUNDS,
      (work) => round(workers, work, server),
    );
    const named = {
      own: "ours, own chains of 4",
      shared: "ours, a leaf each below 3 shared levels",
      bare: "one bare update",
    };
    return {
      title: `PostgreSQL, ${PROCESSES} processes with one caller each, against rate-limiter-flexible with two limits`,
      rows: others.map((work, i) => rowOf(named[work], pairs[i] ?? [])),
      followed: others.flatMap((work, i) =>
        work === "bare" ? [] : followedBy(named[work], pairs[i] ?? [], ["server CPU"]),
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

function rowOf(name: string, pairs: readonly Pair<FleetClock>[]): object {
  const ratios = ratiosOf(pairs, "server CPU");
  const serverCpuMicroseconds = median(pairs.map(({ own }) => own["server CPU"]));
  return {
    ...{ name, serverCpuMicroseconds, callsPerSecond: 1e6 / median(pairs.map(({ own }) => own.time)) },
    takesPerSecondACore: 1e6 / serverCpuMicroseconds,
    ...{ ratio: median(ratios), ratioLow: quantile(ratios, 0.25), ratioHigh: quantile(ratios, 0.75) },
  };
}

async function round(workers: readonly ChildProcess[], work: FleetWork, server: BenchServer) {
  const startMs = (await server.cpuMs()) as number;
  const counts = await Promise.all(
    workers.map(async (worker) => {
      const answer = once(worker, "message");
      worker.send({ work, ms: SPAN_MS });
      return Number((await answer)[0]);
    }),
  );
  const calls = counts.reduce((sum, count) => sum + count);
  const cpuMs = ((await server.cpuMs()) as number) - startMs;
  return { "server CPU": (cpuMs * 1_000) / calls, time: (SPAN_MS * 1_000) / calls };
}

async function started(url: string, i: number): Promise<ChildProcess> {
  const worker = fork(new URL("./postgres-fleet-worker.ts", import.meta.url), [url, String(i)]);
  await once(worker, "message");
  return worker;
}
