import { execFileSync } from "node:child_process";
import { chownSync, closeSync, mkdtempSync, openSync, rmSync, statfsSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { unprivileged } from "./postgres-process.ts";

/** A file system of its own, small enough to become full. */
export interface SmallDisk {
  /** A folder on it, which belongs to whom the server runs as. */
  readonly folder: string;
  /** Writes a file until there is no room left. */
  fill(): void;
  /** Removes that file. */
  makeRoom(): void;
}

/** One in memory, gone with this process; or why there is none: to mount one takes root, and a container may refuse it. */
export function smallDisk(megabytes: number): SmallDisk | string {
  const folder = mkdtempSync(join(tmpdir(), "zael-small-disk-"));
  const account = unprivileged();
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${megabytes}m`, "tmpfs", folder], { stdio: "pipe" });
  } catch (error) {
    rmSync(folder, { recursive: true });
    return `No small disk can be mounted: ${error instanceof Error ? error.message.trim() : String(error)}`;
  }
  process.once("exit", () => {
    // Servers that were killed may still have files on it.
    execFileSync("umount", ["--lazy", folder]);
    rmSync(folder, { recursive: true, force: true });
  });
  if (account !== undefined) chownSync(folder, account.uid, account.gid);
  const ballast = join(folder, "ballast");
  return {
    folder,
    fill: () => {
      const file = openSync(ballast, "a");
      try {
        for (const block = Buffer.alloc(1 << 12); statfsSync(folder).bfree > 0; ) writeSync(file, block);
      } catch (error) {
        if ((error as { code?: string }).code !== "ENOSPC") throw error;
      } finally {
        closeSync(file);
      }
    },
    makeRoom: () => rmSync(ballast, { force: true }),
  };
}
