import { LimiterError } from "../domain/names/errors.ts";

// Packages that only the aggregator needs. Each import stands in a `try`, so that bundlers take one that is not installed for one
// that may be missing.

export async function loadS3(): Promise<typeof import("@aws-sdk/client-s3")> {
  try {
    return await import("@aws-sdk/client-s3");
  } catch (cause) {
    throw notInstalled("@aws-sdk/client-s3", "the audit archive", cause);
  }
}

export async function loadStreams(): Promise<typeof import("@aws-sdk/client-dynamodb-streams")> {
  try {
    return await import("@aws-sdk/client-dynamodb-streams");
  } catch (cause) {
    throw notInstalled("@aws-sdk/client-dynamodb-streams", "following a table's stream", cause);
  }
}

function notInstalled(name: string, purpose: string, cause: unknown): unknown {
  const isMissing =
    cause instanceof Error &&
    "code" in cause &&
    cause.code === "ERR_MODULE_NOT_FOUND" &&
    cause.message.includes(`'${name}'`);
  if (!isMissing) return cause;
  const message = `The package ${name} is not installed, and ${purpose} needs it; run \`npm install ${name}\`.`;
  return new LimiterError("package_missing", message, { cause });
}
