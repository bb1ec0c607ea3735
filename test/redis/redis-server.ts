import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describeOn } from "../engines/describe-on.ts";
import { freePort } from "../postgres/postgres-process.ts";

// The servers that suites run against: Debian's `redis-server`, or the one that ZAEL_TEST_REDIS_BINARY names (such as `valkey-server`), started by
// each file for itself on a free port of loopback, in a folder of its own, and gone with it. Where there is none, suites are skipped and say so; with
// ZAEL_REQUIRE_REDIS=1 that is a failure.

/** A server that this process has started. */
export interface RedisServer {
  readonly url: string;
  readonly port: number;
  /** Ends at once, as in a crash. */
  kill(): Promise<void>;
  /** Starts it again on the same data and the same port, with more settings. */
  restart(settings?: readonly string[]): Promise<void>;
  /** One command, by the command line of no client: its reply as text. */
  ask(...parts: readonly string[]): Promise<string>;
}

const BINARY = process.env.ZAEL_TEST_REDIS_BINARY || "redis-server";

/** Beside `valkey-server` stands `valkey-cli`: a machine may have no other. */
const CLI = /server$/.test(BINARY) ? BINARY.replace(/server$/, "cli") : "redis-cli";

/** No persistence; a test that is about it asks for it. */
const PLAIN = ["--save", "", "--appendonly", "no"];

/** The settings of a cluster of one node. */
export const CLUSTER = ["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"] as const;

/** A suite on a server of its own. To be awaited, at the top of a file. */
export async function describeRedis(
  name: string,
  define: (server: RedisServer) => void,
  settings: readonly string[] = [],
): Promise<void> {
  describeOn("redis", name, await serverOrReason(settings), define);
}

/** A suite on servers that it starts itself, with settings of its own. */
export function describeRedisServers(name: string, define: (start: typeof startRedis) => void): void {
  const found = hasBinary() ? { start: startRedis } : `${BINARY} is not installed.`;
  describeOn("redis", name, found, ({ start }) => define(start));
}

async function serverOrReason(settings: readonly string[]): Promise<RedisServer | string> {
  if (!hasBinary()) return `${BINARY} is not installed.`;
  return startRedis(settings);
}

function hasBinary(): boolean {
  try {
    execFileSync(BINARY, ["--version"], { stdio: "pipe" });
    return true;
  } catch {
    return false;
  }
}

/** Starts a server; it ends with this process. `files`: what its folder has, by name. */
export async function startRedis(
  settings: readonly string[] = [],
  files: Readonly<Record<string, string>> = {},
): Promise<RedisServer> {
  const folder = mkdtempSync(join(tmpdir(), "zael-redis-"));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  const port = await freePort();
  let server: ChildProcess | undefined;
  const start = async (more: readonly string[]): Promise<void> => {
    const own = ["--port", String(port), "--bind", "127.0.0.1", "--dir", folder, "--daemonize", "no"];
    server = spawn(BINARY, [...own, ...PLAIN, ...settings, ...more], { stdio: ["ignore", "pipe", "ignore"] });
    await ready(server);
    server.unref();
  };
  process.once("exit", () => {
    server?.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });
  const ask = async (...parts: readonly string[]) =>
    execFileSync(CLI, ["-p", String(port), ...parts], { encoding: "utf8" }).trim();
  await start([]);
  if (settings.includes(CLUSTER[0])) {
    await ask("CLUSTER", "ADDSLOTSRANGE", "0", "16383");
    while (!/cluster_state:ok/.test(await ask("CLUSTER", "INFO")));
  }
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    kill: async () => {
      if (server === undefined || server.exitCode !== null || server.signalCode !== null) return;
      const ended = new Promise((resolve) => server?.once("exit", resolve));
      server.kill("SIGKILL");
      await ended;
    },
    restart: (more = []) => start(more),
    ask,
  };
}

function ready(server: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let said = "";
    server.stdout?.setEncoding("utf8").on("data", (text: string) => {
      said = (said + text).slice(-4_000);
      if (/Ready to accept connections/.test(said)) resolve();
    });
    (server.stdout as unknown as { unref?: () => void })?.unref?.();
    server.once("error", reject);
    server.once("exit", (code) => reject(new Error(`The server ended with ${code}: ${said}`)));
  });
}
