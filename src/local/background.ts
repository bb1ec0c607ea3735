import { execFileSync, spawn } from "node:child_process";
import { openSync, readFileSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

/** A process that outlives the one that started it. */
export interface Background {
  readonly pid: number;
  /** When it was started, as the system says it: its number may come to be another's. Undefined where the system does not tell. */
  readonly startMark: string | undefined;
}

interface BackgroundCommand {
  readonly command: readonly [string, ...string[]];
  readonly env: Readonly<Record<string, string>>;
  /** The file that takes what it says, after what is there. */
  readonly log: string;
}

/** Starts it, in a session of its own; rejects where there is no such program. */
export async function startBackground({ command, env, log }: BackgroundCommand): Promise<Background> {
  const [program, ...args] = command;
  const said = openSync(log, "a");
  writeSync(said, `--- ${program}\n`);
  const child = spawn(program, args, {
    detached: true,
    // Some leave a file about themselves where they were started.
    cwd: tmpdir(),
    env: { ...process.env, ...env },
    stdio: ["ignore", said, said],
  });
  await new Promise<void>((resolve, reject) => {
    child.once("spawn", resolve);
    child.once("error", reject);
  });
  child.unref();
  const pid = child.pid as number;
  return { pid, startMark: startMarkOf(pid) };
}

/** True while the number still means the same process. */
export function isRunning({ pid, startMark }: Background): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EPERM") return false;
  }
  return !isZombie(pid) && startMarkOf(pid) === startMark;
}

const END_TIMEOUT_MS = 10_000;
const POLL_MS = 50;

/** Asks it to end, then ends it; resolves when it is gone. */
export async function endBackground(background: Background): Promise<void> {
  for (const signal of ["SIGTERM", "SIGKILL"] as const) {
    for (let waitedMs = 0; waitedMs < END_TIMEOUT_MS; waitedMs += POLL_MS) {
      if (!isRunning(background)) return;
      if (waitedMs === 0) process.kill(background.pid, signal);
      await sleep(POLL_MS);
    }
  }
}

/** The fields after the name in the system's record of a process; undefined where there is no such file. */
function procFields(pid: number): readonly string[] | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    return text.slice(text.lastIndexOf(")") + 2).split(" ");
  } catch {
    return undefined;
  }
}

/** When a process was started, as the system says it. */
export function startMarkOf(pid: number): string | undefined {
  const fields = procFields(pid);
  if (fields !== undefined) return fields[19];
  try {
    const told = execFileSync("ps", ["-o", "lstart=", "-p", String(pid)], { stdio: ["ignore", "pipe", "ignore"] });
    return told.toString().trim() || undefined;
  } catch {
    return undefined;
  }
}

/** One that has ended and that nobody has asked about; its number is still taken. */
function isZombie(pid: number): boolean {
  return procFields(pid)?.[0] === "Z";
}

/** The path of a module beside the one at `url`, to be run as a process: as source in this repository, as JavaScript once built. */
export function siblingModule(name: string, url: string): string {
  return fileURLToPath(new URL(`./${name}${url.endsWith(".ts") ? ".ts" : ".js"}`, url));
}
