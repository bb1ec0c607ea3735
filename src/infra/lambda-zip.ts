import { createHash } from "node:crypto";

/** A function's code as Lambda takes it. */
export interface LambdaZip {
  /** The whole zip. */
  readonly bytes: Uint8Array;
  /** In base64, as Lambda tells it. */
  readonly sha256: string;
}

export function lambdaZip(bytes: Uint8Array): LambdaZip {
  return { bytes, sha256: createHash("sha256").update(bytes).digest("base64") };
}
