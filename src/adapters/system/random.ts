import { createHash, randomBytes } from "node:crypto";
import type { Digest, Random } from "../../ports/system.ts";

const ID_BYTES = 8;
/** Bytes are drawn in bulk, because a draw costs far more than its bytes. */
const POOL_BYTES = 512 * ID_BYTES;

let pool = Buffer.alloc(0);
let used = 0;

export const systemRandom: Random = {
  id: () => {
    for (;;) {
      if (used === pool.length) {
        pool = randomBytes(POOL_BYTES);
        used = 0;
      }
      const id = pool.toString("base64url", used, used + ID_BYTES);
      used += ID_BYTES;
      // A leading dash would read as an option on a command line.
      if (!id.startsWith("-")) return id;
    }
  },
};

/** A number in [0, 1), for jitter. */
export const jitter = (): number => Math.random();

/** The first 128 bits of SHA-256, url-safe. */
export const systemDigest: Digest = {
  of: (text) => createHash("sha256").update(text).digest().subarray(0, 16).toString("base64url"),
};
