import { existsSync, mkdirSync, realpathSync } from "node:fs";
import { dirname } from "node:path";

/**
 * Reads and changes a file while no other process of this command does. `work` gets the file itself where a link was named, so that
 * the link stays.
 */
export async function whileLocked<Value>(file: string, work: (file: string) => Value): Promise<Value> {
  const { locked } = await import("../local/file-lock.ts");
  const real = existsSync(file) ? realpathSync(file) : file;
  mkdirSync(dirname(real), { recursive: true });
  const unlock = await locked(`${real}.lock`);
  try {
    return work(real);
  } finally {
    unlock();
  }
}
