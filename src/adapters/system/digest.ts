import { createHash } from "node:crypto";
import type { Digest } from "../../ports/system.ts";

/** The first 128 bits of SHA-256, url-safe. */
export const systemDigest: Digest = {
  of: (text) => createHash("sha256").update(text).digest().subarray(0, 16).toString("base64url"),
};
