import { fleetTableOf } from "./fleet.ts";
import type { BenchTable } from "./measure.ts";

const PROCESSES = 10;

/** The work of each process: one bucket or a chain of 4 of its own, a chain of 4 whose upper three levels all share, two limiters of the peer, a bare script. */
export type RedisFleetWork = "alone" | "own" | "shared" | "flexible" | "bare";

/** Ten processes with one caller each, so that nothing is joined to batches: what a request costs the server. */
export function redisFleetTable(url: string, cpuMs: () => Promise<number>): Promise<BenchTable> {
  return fleetTableOf<RedisFleetWork>({
    title: `Redis, ${PROCESSES} processes with one caller each, two limits a level, against one script of one INCR`,
    processes: PROCESSES,
    program: new URL("./redis-fleet-worker.ts", import.meta.url),
    argsOf: (i) => [url, String(i)],
    cpuMs,
    base: "bare",
    others: {
      "ours, a bucket each": "alone",
      "ours, own chains of 4": "own",
      "ours, a leaf each below 3 shared levels": "shared",
      "rate-limiter-flexible, two limiters": "flexible",
    },
    peers: ["flexible"],
  });
}
