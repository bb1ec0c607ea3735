import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const WORKER = fileURLToPath(new URL("service-worker.ts", import.meta.url));
const ROUNDS = 5;
const CALLS = 2_000;
const WARM_UP = 15_000;

interface Server {
  readonly name: string;
  readonly child: ChildProcess;
  readonly port: number;
}

/**
 * Acquire with `holdMs: 0` over keep-alive against a route of the bare framework that answers a constant. Compared by the
 * processor time of the server's own process, so that whoever sends does not count; they take turns, and ratios are of one round.
 */
export async function benchService(): Promise<{ title: string; rows: readonly object[] }[]> {
  const folder = mkdtempSync(join(tmpdir(), "zae-limiter-bench-"));
  const servers = await Promise.all([
    serverOf("bare route, a constant", "bare"),
    serverOf("bare route, reads JSON", "json"),
    serverOf("service on memory", "memory"),
    serverOf("service on SQLite", `sqlite:${join(folder, "limiter.db")}`),
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

async function tableOf(servers: readonly Server[], connections: number) {
  for (const server of servers) await load(server, connections, CALLS);
  const measured = servers.map(() => ({ cpu: [] as number[], wall: [] as number[] }));
  for (let round = 0; round < ROUNDS; round++) {
    for (const [i, server] of servers.entries()) {
      const { cpu, wall } = await load(server, connections, CALLS);
      measured[i]?.cpu.push(cpu);
      measured[i]?.wall.push(wall);
    }
  }
  const base = measured[0] as (typeof measured)[number];
  const ratio = (own: readonly number[], of: readonly number[]) =>
    rounded(median(own.map((each, i) => (of[i] ?? 0) / each)));
  const rows = servers.map(({ name }, i) => {
    const { cpu, wall } = measured[i] as (typeof measured)[number];
    return {
      name,
      "cpu µs a request": rounded(median(cpu)),
      "ratio by cpu": ratio(cpu, base.cpu),
      "requests a second": Math.round(1_000_000 / median(wall)),
      "ratio by time": ratio(wall, base.wall),
    };
  });
  return { title: `acquire over HTTP, holdMs 0, ${connections} connection${connections === 1 ? "" : "s"}`, rows };
}

async function serverOf(name: string, kind: string): Promise<Server> {
  const child = fork(WORKER, [kind]);
  const [{ port }] = (await once(child, "message")) as [{ port: number }];
  return { name, child, port };
}

/** Microseconds a request: of the server's processor, and as they passed. */
async function load(
  { child, port }: Server,
  connections: number,
  calls: number,
): Promise<{ cpu: number; wall: number }> {
  const sockets = await Promise.all(Array.from({ length: connections }, () => connected(port)));
  const before = await cpuOf(child);
  const startedMs = performance.now();
  const each = Math.ceil(calls / connections);
  await Promise.all(sockets.map((socket, i) => sendAll(socket, requestOf(port, i), each)));
  const wall = ((performance.now() - startedMs) * 1000) / (each * connections);
  const cpu = ((await cpuOf(child)) - before) / (each * connections);
  for (const socket of sockets) socket.destroy();
  return { cpu, wall };
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

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}
