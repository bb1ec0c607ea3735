import { createHash } from "node:crypto";
import { zipSync } from "fflate";

/** A function's code as Lambda takes it. */
export interface LambdaZip {
  /** The whole zip. */
  readonly bytes: Uint8Array;
  /** In base64, as Lambda tells it. */
  readonly sha256: string;
}

/** The same code is the same zip wherever and whenever it is made, so that its hash says whether it is deployed. */
export function lambdaZip(code: Uint8Array): LambdaZip {
  // Zips have local times without a zone, so these digits are the same everywhere.
  const mtime = new Date(1980, 0, 1);
  const bytes = zipSync({ "index.mjs": [code, { mtime, level: 9, os: UNIX, attrs: READABLE_FILE << 16 }] });
  return { bytes, sha256: createHash("sha256").update(bytes).digest("base64") };
}

const UNIX = 3;
/** A plain file that everybody may read; Lambda does not run as who made it. */
const READABLE_FILE = 0o100644;
