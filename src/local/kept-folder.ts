import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { locked } from "./file-lock.ts";

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
