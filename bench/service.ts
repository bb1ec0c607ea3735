import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { load, type Server, startServer, type Told } from "./http-load.ts";
import {
  type BenchOptions,
  type BenchTable,
  followedBy,
  median,
  type Pair,
  pairedRounds,
  quantile,
  ROUND_MS,
  ratiosOf,
} from "./measure.ts";

const WORKER = fileURLToPath(new URL("service-worker.ts", import.meta.url));
const ROUNDS = 7;
const WARM_UP = 15_000;
const CALIBRATION = 4_000;

/**
 * Acquire with `holdMs: 0` over keep-alive against a route of the bare framework that answers a constant. Compared by the
 * processor time of the server's own process, so that the sender does not count; each takes turns with the bare route, and ratios are of such a pair.
 */
export async function benchService({ extent }: BenchOptions): Promise<BenchTable[]> {
  const folder = mkdtempSync(join(tmpdir(), "zae-limiter-bench-"));
  const servers = await Promise.all([
    serverOf("bare route, a constant", "peer", "bare"),
    ...(extent === "all" ? [serverOf("bare route, reads JSON", "peer", "json")] : []),
    serverOf("service on memory", "ours", "memory"),
    serverOf("service on SQLite", "ours", `sqlite:${join(folder, "limiter.db")}`),
  ]);
  try {
    // The service is more code than the bare route, and compiled bit by bit: what is compared is what runs for days.
    for (const server of servers) await load(server, { connections: 64, requestOf }, WARM_UP);
    const tables = [];
    for (const connections of [1, 64]) tables.push(await tableOf(servers, connections));
    return tables;
  } finally {
    for (const { child } of servers) child.kill();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function tableOf(servers: readonly Server[], connections: number): Promise<BenchTable> {
  const calls = new Map<Server, number>();
  for (const server of servers) {
    const { cost } = await load(server, { connections, requestOf }, CALIBRATION);
    calls.set(server, Math.ceil((ROUND_MS * 1000) / cost["process CPU"]));
  }
  const [base, ...others] = servers as [Server, ...Server[]];
  const pairs = await pairedRounds({ base, others }, ROUNDS, async (server) => {
    const { cost } = await load(server, { connections, requestOf }, calls.get(server) as number);
    return cost;
  });
  const ofBase = pairs.flat().map(({ base: cost }) => ({ base: cost, own: cost }));
  return {
    title: `acquire over HTTP, holdMs 0, ${connections} connection${connections === 1 ? "" : "s"}`,
    rows: [rowOf(base.name, ofBase), ...others.map(({ name }, i) => rowOf(name, pairs[i] as Pair<Told>[]))],
    followed: others.flatMap(({ name, owner }, i) =>
      owner === "ours" ? followedBy(name, pairs[i] as Pair<Told>[], ["process CPU"]) : [],
    ),
  };
}

function rowOf(name: string, pairs: readonly Pair<Told>[]): object {
  const byCpu = ratiosOf(pairs, "process CPU");
  return {
    name,
    "cpu µs a request": rounded(median(pairs.map(({ own }) => own["process CPU"]))),
    "ratio by cpu": rounded(median(byCpu)),
    "middle half": `${rounded(quantile(byCpu, 0.25))} to ${rounded(quantile(byCpu, 0.75))}`,
    "requests a second": Math.round(1_000_000 / median(pairs.map(({ own }) => own.time))),
    "ratio by time": rounded(median(ratiosOf(pairs, "time"))),
  };
}

function serverOf(name: string, owner: Server["owner"], kind: string): Promise<Server> {
  return startServer(WORKER, { name, owner, args: [kind] });
}

function requestOf(port: number, i: number): string {
  const body = JSON.stringify({ entityId: `key-${i}`, resource: "gpt-4", consume: { rpm: 1, tpm: 500 }, holdMs: 0 });
  return (
    `POST /v1/namespaces/default/acquire HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Type: application/json\r\n` +
    `Content-Length: ${body.length}\r\n\r\n${body}`
  );
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}
