import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import type { Cost } from "./measure.ts";

/** What a server's process can tell, and its sender. */
export type Told = "process CPU" | "time";

/** A server in a process of its own. It answers any message with `{ cpu }`, what it has used of processors. */
export interface Server {
  readonly name: string;
  readonly owner: "ours" | "peer";
  readonly child: ChildProcess;
  readonly port: number;
}

/** Microseconds a request: of the server's processor, as they passed, and from each request to its answer. */
export interface Load {
  readonly cost: Cost<Told>;
  readonly latencies: readonly number[];
}

/** How a server is asked: so many connections, and the text of the request that each sends again and again. */
export interface Asking {
  readonly connections: number;
  readonly requestOf: (port: number, connection: number) => string;
}

/** Starts a program that sends `{ port }` once it listens. */
export async function startServer(
  program: string,
  { name, owner, args }: Pick<Server, "name" | "owner"> & { readonly args: readonly string[] },
): Promise<Server> {
  const child = fork(program, args);
  const died = once(child, "exit").then(([code]) => {
    throw new Error(`The server "${name}" ended with ${code} before it listened.`);
  });
  const [{ port }] = (await Promise.race([once(child, "message"), died])) as [{ port: number }];
  died.catch(() => {});
  return { name, owner, child, port };
}

/** Sends so many requests, over all connections together; each connection waits for its answers. */
export async function load({ child, port }: Server, asking: Asking, calls: number): Promise<Load> {
  const { connections, requestOf } = asking;
  const sockets = await Promise.all(Array.from({ length: connections }, () => connected(port)));
  const before = await cpuOf(child);
  const startedMs = performance.now();
  const each = Math.ceil(calls / connections);
  const latencies = await Promise.all(sockets.map((socket, i) => sendAll(socket, requestOf(port, i), each)));
  const time = ((performance.now() - startedMs) * 1000) / (each * connections);
  const cpu = ((await cpuOf(child)) - before) / (each * connections);
  for (const socket of sockets) socket.destroy();
  return { cost: { "process CPU": cpu, time }, latencies: latencies.flat() };
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

/** One after the other on one connection, each when the answer before is there. */
function sendAll(socket: Socket, request: string, times: number): Promise<number[]> {
  return new Promise((resolve, reject) => {
    const latencies: number[] = [];
    let sentMs = performance.now();
    let text = "";
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1");
      const head = text.indexOf("\r\n\r\n");
      if (head < 0) return;
      const [, length] = /\r\ncontent-length: (\d+)/i.exec(text) ?? [];
      if (text.length < head + 4 + Number(length)) return;
      if (!text.startsWith("HTTP/1.1 200")) reject(new Error(text));
      text = "";
      const nowMs = performance.now();
      latencies.push((nowMs - sentMs) * 1000);
      sentMs = nowMs;
      if (latencies.length === times) resolve(latencies);
      else socket.write(request);
    });
    socket.write(request);
  });
}
