import { zipSync } from "fflate";

/**
 * The files of a function as Lambda takes them, in this order. Made when this package is built, and shipped: what a later version of the
 * compressing library makes of the same code may be other bytes, and two machines would replace each other's zip for ever.
 */
export function zippedLambda(files: Readonly<Record<string, Uint8Array>>): Uint8Array {
  // Zips have local times without a zone, so these digits are the same everywhere.
  const mtime = new Date(1980, 0, 1);
  return zipSync(files, { mtime, level: 9, os: UNIX, attrs: READABLE_FILE << 16 });
}

const UNIX = 3;
/** A plain file that everybody may read; Lambda does not run as who made it. */
const READABLE_FILE = 0o100644;
