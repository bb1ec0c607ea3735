import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  type BenchOptions,
  type BenchTable,
  type Cost,
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

/** What a server's process can tell, and its sender. */
type Told = "process CPU" | "time";

interface Server {
  readonly name: string;
  readonly owner: "ours" | "peer";
  readonly child: ChildProcess;
  readonly port: number;
}

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
    for (const server of servers) await load(server, 64, WARM_UP);
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
    const { "process CPU": microseconds } = await load(server, connections, CALIBRATION);
    calls.set(server, Math.ceil((ROUND_MS * 1000) / microseconds));
  }
  const [base, ...others] = servers as [Server, ...Server[]];
  const pairs = await pairedRounds({ base, others }, ROUNDS, (server) =>
    load(server, connections, calls.get(server) as number),
  );
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

async function serverOf(name: string, owner: Server["owner"], kind: string): Promise<Server> {
  const child = fork(WORKER, [kind]);
  const [{ port }] = (await once(child, "message")) as [{ port: number }];
  return { name, owner, child, port };
}

/** Microseconds a request: of the server's processor, and as they passed. */
async function load({ child, port }: Server, connections: number, calls: number): Promise<Cost<Told>> {
  const sockets = await Promise.all(Array.from({ length: connections }, () => connected(port)));
  const before = await cpuOf(child);
  const startedMs = performance.now();
  const each = Math.ceil(calls / connections);
  await Promise.all(sockets.map((socket, i) => sendAll(socket, requestOf(port, i), each)));
  const time = ((performance.now() - startedMs) * 1000) / (each * connections);
  const cpu = ((await cpuOf(child)) - before) / (each * connections);
  for (const socket of sockets) socket.destroy();
  return { "process CPU": cpu, time };
}

async function cpuOf(child: ChildProcess): Promise<number> {
  child.send("cpu");
  const [{ cpu }] = (await once(child, "message")) as [{ cpu: NodeJS.CpuUsage }];
  return cpu.user + cpu.system;
}

async function connected(port: number): Promise<Socket> {
  const socket = connect({ port, host: "127.0.0.1", noDelay: true });
  await once(socket, "connect");
  return socket;
}

function requestOf(port: number, i: number): string {
  const body = JSON.stringify({ entityId: `key-${i}`, resource: "gpt-4", consume: { rpm: 1, tpm: 500 }, holdMs: 0 });
  return (
    `POST /v1/namespaces/default/acquire HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Type: application/json\r\n` +
    `Content-Length: ${body.length}\r\n\r\n${body}`
  );
}

/** One after the other on one connection, each when the answer before is there. */
function sendAll(socket: Socket, request: string, times: number): Promise<void> {
  return new Promise((resolve, reject) => {
    let left = times;
    let text = "";
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1");
      const head = text.indexOf("\r\n\r\n");
      if (head < 0) return;
      const [, length] = /\r\ncontent-length: (\d+)/i.exec(text) ?? [];
      if (text.length < head + 4 + Number(length)) return;
      if (!text.startsWith("HTTP/1.1 200")) reject(new Error(text));
      text = "";
      left -= 1;
      if (left === 0) resolve();
      else socket.write(request);
    });
    socket.write(request);
  });
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}
