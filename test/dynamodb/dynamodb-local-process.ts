import { spawn } from "node:child_process";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** Starts DynamoDB Local, all in memory, at a port or at any that is free; its address. It ends with this process. */
export async function startDynamodbLocal(folder: string, wanted?: number): Promise<string> {
  let reason = "";
  for (let attempt = 0; attempt < (wanted === undefined ? ATTEMPTS_MAX : 1); attempt++) {
    const port = await freePort(wanted ?? 0);
    const started = await startAt(folder, port);
    if (started === undefined) return `http://127.0.0.1:${port}/`;
    reason = started;
  }
  throw new Error(`DynamoDB Local does not start: ${reason}`);
}

/** Another may take the port between looking and starting. */
const ATTEMPTS_MAX = 3;
const START_TIMEOUT_MS = 60_000;
const POLL_MS = 50;

// Java becomes the shell's own process. Beside it waits a `cat` on the pipe from the test process: it ends when that does, by
// whatever cause, and takes Java with it.
const TIED = 'exec 3<&0; (cat <&3 >/dev/null; kill -9 $$ 2>/dev/null) & exec 3<&-; exec java "$@" </dev/null';

/** Undefined when it runs, otherwise why it does not. */
async function startAt(folder: string, port: number): Promise<string | undefined> {
  const args = [
    ...["-Xmx512m", "-XX:+UseSerialGC", `-Djava.library.path=${folder}`, "-cp", join(folder, "*")],
    ...["software.amazon.dynamodb.services.local.main.ServerRunner", "-inMemory", "-sharedDb", "-port", String(port)],
  ];
  const child = spawn("sh", ["-c", TIED, "sh", ...args], {
    // It leaves a file about itself where it was started.
    cwd: tmpdir(),
    env: { ...process.env, DDB_LOCAL_TELEMETRY: "0" },
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
    ended ??= `java ended with ${code}: ${said.trim()}`;
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
