import { fleetTableOf } from "./fleet.ts";
import type { BenchTable } from "./measure.ts";
import type { BenchServer } from "./postgres-server.ts";

const PROCESSES = 20;

/** The work of each process: `own` chains of 4, a chain of 4 whose upper three levels all processes share, two limiters of the peer, a bare update. */
export type FleetWork = "own" | "shared" | "flexible" | "bare";

/** Twenty processes with one caller each, so that nothing is joined to batches: what a request costs the server. */
export function fleetTable(server: BenchServer): Promise<BenchTable> {
  return fleetTableOf<FleetWork>({
    title: `PostgreSQL, ${PROCESSES} processes with one caller each, against rate-limiter-flexible with two limits`,
    processes: PROCESSES,
    program: new URL("./postgres-fleet-worker.ts", import.meta.url),
    argsOf: (i) => [server.url, String(i)],
    cpuMs: async () => (await server.cpuMs()) as number,
    base: "flexible",
    others: {
      "ours, own chains of 4": "own",
      "ours, a leaf each below 3 shared levels": "shared",
      "one bare update": "bare",
    },
    peers: ["bare"],
  });
}
