import { LimiterError } from "../../domain/names/errors.ts";

// Each import is in a `try`: bundlers then treat a missing package as optional instead of failing, and bundle one that
// is installed.

export async function loadUndici(): Promise<typeof import("undici")> {
  try {
    return await import("undici");
  } catch (cause) {
    throw notInstalled("undici", STORE_NEEDS, cause);
  }
}

export async function loadSdk(): Promise<typeof import("@aws-sdk/client-dynamodb")> {
  try {
    return await import("@aws-sdk/client-dynamodb");
  } catch (cause) {
    throw notInstalled("@aws-sdk/client-dynamodb", STORE_NEEDS, cause);
  }
}

export async function loadCredentialProviders(): Promise<typeof import("@aws-sdk/credential-providers")> {
  try {
    return await import("@aws-sdk/credential-providers");
  } catch (cause) {
    throw notInstalled("@aws-sdk/credential-providers", STORE_NEEDS, cause);
  }
}

const STORE_NEEDS = "the DynamoDB store needs it here";

/** The error for an optional package that could not be loaded. It names the package if that, and not a dependency of it, is missing. */
export function notInstalled(name: string, need: string, cause: unknown): unknown {
  const isMissing =
    cause instanceof Error &&
    "code" in cause &&
    cause.code === "ERR_MODULE_NOT_FOUND" &&
    cause.message.includes(`'${name}'`);
  if (!isMissing) return cause;
  const message = `The package ${name} is not installed, and ${need}; run \`npm install ${name}\`.`;
  return new LimiterError("package_missing", message, { cause });
}
