import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const LOCK_POLL_MS = 50;
/** A lock whose owner has not yet written its name is younger than this. */
const LOCK_BIRTH_MS = 5_000;

/** One process at a time; answers with what ends it. A lock whose owner is gone counts for nothing. */
export async function locked(path: string): Promise<() => void> {
  for (;;) {
    try {
      mkdirSync(path);
      writeFileSync(join(path, "pid"), String(process.pid));
      const release = () => rmSync(path, { recursive: true, force: true });
      process.once("exit", release);
      return () => {
        process.off("exit", release);
        release();
      };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
    if (isDead(path)) {
      removeDead(path);
    } else await sleep(LOCK_POLL_MS);
  }
}

/** Only one of those who see it dead gets to move it away. */
function removeDead(path: string): void {
  const staleLock = `${path}-${process.pid}`;
  try {
    renameSync(path, staleLock);
    // Another may have removed the dead one and locked anew before this one got here: then it is put back.
    if (isDead(staleLock)) rmSync(staleLock, { recursive: true, force: true });
    else renameSync(staleLock, path);
  } catch {
    // Another was faster.
  }
}

function isDead(path: string): boolean {
  try {
    const file = join(path, "pid");
    if (!existsSync(file)) return existsSync(path) && statSync(path).mtimeMs < Date.now() - LOCK_BIRTH_MS;
    process.kill(Number(readFileSync(file, "utf8")), 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH";
  }
}

/**
 * A folder that is made the first time it is needed and kept in the user's cache. `make` fills an empty folder, which appears
 * under its name only when it is whole.
 */
export async function keptFolder(name: string, make: (empty: string) => Promise<void>): Promise<string> {
  const folder = keptPath(name);
  if (existsSync(folder)) return folder;
  mkdirSync(cacheFolder(), { recursive: true });
  const unlock = await locked(`${folder}.lock`);
  const part = `${folder}.part-${process.pid}`;
  try {
    // Another process may have made it meanwhile.
    if (existsSync(folder)) return folder;
    rmSync(part, { recursive: true, force: true });
    mkdirSync(part);
    await make(part);
    renameSync(part, folder);
    return folder;
  } finally {
    rmSync(part, { recursive: true, force: true });
    unlock();
  }
}

/** Where it is, or will be. */
export function keptPath(name: string): string {
  return join(cacheFolder(), name);
}

function cacheFolder(): string {
  return join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "zae-limiter");
}
