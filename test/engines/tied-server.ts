import { spawn } from "node:child_process";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

interface TiedServer {
  /** For messages. */
  readonly name: string;
  /** The command with its arguments that listens at a port of 127.0.0.1. */
  readonly command: (port: number) => readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Undefined: any that is free. */
  readonly port: number | undefined;
}

/** Starts a server of another program; its address. It ends with this process, by whatever cause this one ends. */
export async function startTied(server: TiedServer): Promise<string> {
  let reason = "";
  for (let attempt = 0; attempt < (server.port === undefined ? ATTEMPTS_MAX : 1); attempt++) {
    const port = await freePort(server.port ?? 0);
    const failed = await startAt(server, port);
    if (failed === undefined) return `http://127.0.0.1:${port}/`;
    reason = failed;
  }
  throw new Error(`${server.name} does not start: ${reason}`);
}

/** Another may take the port between looking and starting. */
const ATTEMPTS_MAX = 3;
const START_TIMEOUT_MS = 60_000;
const POLL_MS = 50;

// The program becomes the shell's own process. Beside it waits a `cat` on the pipe from the test process: it ends when that
// does, by whatever cause, and takes the program with it.
const TIED = 'exec 3<&0; (cat <&3 >/dev/null; kill -9 $$ 2>/dev/null) & exec 3<&-; exec "$@" </dev/null';

/** Undefined when it runs, otherwise why it does not. */
async function startAt({ command, env }: TiedServer, port: number): Promise<string | undefined> {
  const child = spawn("sh", ["-c", TIED, "sh", ...command(port)], {
    // Some leave a file about themselves where they were started.
    cwd: tmpdir(),
    env: { ...process.env, ...env },
    stdio: ["pipe", "ignore", "pipe"],
  });
  let said = "";
  let ended: string | undefined;
  child.stderr.on("data", (chunk: Buffer) => {
    said = `${said}${chunk}`.slice(-1_000);
  });
  child.once("error", (cause) => {
    ended = cause.message;
  });
  child.once("exit", (code) => {
    ended ??= `it ended with ${code}: ${said.trim()}`;
    // Its guard goes too, before the number of the process is another's.
    child.stdin.destroy();
  });
  child.stdin.on("error", () => {});
  // Tests that are done need not wait for it.
  child.unref();
  for (const stream of [child.stdin, child.stderr]) (stream as unknown as { unref(): void }).unref();
  process.once("exit", () => child.kill("SIGKILL"));
  const untilMs = Date.now() + START_TIMEOUT_MS;
  while (ended === undefined && Date.now() < untilMs) {
    if (await answers(port)) return ended;
    await sleep(POLL_MS);
  }
  child.kill("SIGKILL");
  return ended ?? `nothing answered within ${START_TIMEOUT_MS} ms: ${said.trim()}`;
}

/** Any answer will do: without a signature it is a refusal. */
async function answers(port: number): Promise<boolean> {
  try {
    await (await fetch(`http://127.0.0.1:${port}/`)).arrayBuffer();
    return true;
  } catch {
    return false;
  }
}

/** 0: any. Rejects where the one that is wanted is taken. */
function freePort(wanted: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(wanted, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0));
    });
  });
}
