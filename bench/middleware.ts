import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { load, type Server, startServer } from "./http-load.ts";
import {
  type BenchOptions,
  type BenchTable,
  type Cost,
  followedBy,
  median,
  type PairOf,
  pairedRounds,
  quantile,
  ROUND_MS,
  ratiosOf,
} from "./measure.ts";

const WORKER = fileURLToPath(new URL("middleware-worker.ts", import.meta.url));
const ROUNDS = 9;
const WARM_UP = 15_000;
const CALIBRATION = 3_000;

/** What limits the requests of a framework. */
interface Way {
  readonly name: string;
  readonly owner: Server["owner"];
  readonly args: readonly [way: string, store: string];
}

/** Of one round: CPU of the server, and what half and 99 of 100 requests took at most. */
interface Round extends Cost<"process CPU"> {
  readonly p50: number;
  readonly p99: number;
}

/**
 * What a middleware adds to the bare framework, for a route that answers a constant: CPU of the server's process, and what a request
 * takes from its sender's side, at the middle and for the slowest of a hundred. Each takes turns with the bare framework.
 */
export async function benchMiddleware({ extent }: BenchOptions): Promise<BenchTable[]> {
  const folder = mkdtempSync(join(tmpdir(), "zae-limiter-bench-"));
  const peers = { express: "express-rate-limit, memory", fastify: "@fastify/rate-limit, memory" };
  const tables: BenchTable[] = [];
  try {
    for (const framework of ["express", "fastify"] as const) {
      const ways: readonly Way[] = [
        { name: `bare ${framework}`, owner: "peer", args: ["bare", ""] },
        ...(extent === "all" ? [{ name: peers[framework], owner: "peer", args: ["peer", ""] } as const] : []),
        { name: "rateLimit, memory", owner: "ours", args: ["limits", "memory"] },
        { name: "rateLimit, memory, stored limits", owner: "ours", args: ["stored", "memory"] },
        { name: "rateLimit, SQLite", owner: "ours", args: ["limits", `sqlite:${join(folder, `${framework}.db`)}`] },
        ...(framework === "express"
          ? [{ name: "express-rate-limit on LimiterStore, memory", owner: "ours", args: ["store", "memory"] } as const]
          : []),
      ];
      tables.push(...(await tablesOf(framework, ways)));
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return tables;
}

async function tablesOf(framework: string, ways: readonly Way[]): Promise<BenchTable[]> {
  const started = ways.map(({ args, ...way }) => startServer(WORKER, { ...way, args: [framework, ...args] }));
  const servers = await Promise.all(started);
  try {
    // What is compared is what runs for days, compiled.
    for (const server of servers) await load(server, { connections: 64, requestOf }, WARM_UP);
    const tables = [];
    for (const connections of [1, 64]) tables.push(await tableOf(framework, servers, connections));
    return tables;
  } finally {
    for (const { child } of servers) child.kill();
  }
}

async function tableOf(framework: string, servers: readonly Server[], connections: number): Promise<BenchTable> {
  const asking = { connections, requestOf };
  const calls = new Map<Server, number>();
  for (const server of servers) {
    const { cost } = await load(server, asking, CALIBRATION);
    calls.set(server, Math.ceil((ROUND_MS * 1000) / cost["process CPU"]));
  }
  const [base, ...others] = servers as [Server, ...Server[]];
  const pairs = await pairedRounds({ base, others }, ROUNDS, async (server): Promise<Round> => {
    const { cost, latencies } = await load(server, asking, calls.get(server) as number);
    return { "process CPU": cost["process CPU"], p50: median(latencies), p99: quantile(latencies, 0.99) };
  });
  const ofBase = pairs.flat().map(({ base: round }) => ({ base: round, own: round }));
  return {
    title: `a request through ${framework}, ${connections} connection${connections === 1 ? "" : "s"}`,
    rows: [rowOf(base.name, ofBase), ...others.map(({ name }, i) => rowOf(name, pairs[i] as Pairs))],
    followed: others.flatMap(({ name, owner }, i) =>
      owner === "ours" ? followedBy(name, pairs[i] as Pairs, ["process CPU"]) : [],
    ),
  };
}

type Pairs = readonly PairOf<Round>[];

function rowOf(name: string, pairs: Pairs): object {
  const byCpu = ratiosOf(pairs, "process CPU");
  const middle = (of: keyof Round) => median(pairs.map(({ own }) => own[of]));
  const ratio = (of: keyof Round) => median(pairs.map(({ base, own }) => base[of] / own[of]));
  return {
    name,
    "cpu µs": rounded(middle("process CPU")),
    "added µs": rounded(median(pairs.map(({ base, own }) => own["process CPU"] - base["process CPU"]))),
    "ratio by cpu": rounded(median(byCpu)),
    "middle half": `${rounded(quantile(byCpu, 0.25))} to ${rounded(quantile(byCpu, 0.75))}`,
    "p50 µs": Math.round(middle("p50")),
    "ratio by p50": rounded(ratio("p50")),
    "p99 µs": Math.round(middle("p99")),
    "ratio by p99": rounded(ratio("p99")),
  };
}

function requestOf(port: number): string {
  return `GET / HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`;
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}
