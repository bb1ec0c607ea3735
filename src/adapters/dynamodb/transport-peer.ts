import { LimiterError } from "../../domain/names/errors.ts";

// Each import stands in a `try`: bundlers then take a package that is not installed for one that may be missing, where they would
// otherwise fail, and take one that is installed into the bundle.

export async function loadUndici(): Promise<typeof import("undici")> {
  try {
    return await import("undici");
  } catch (cause) {
    throw notInstalled("undici", cause);
  }
}

export async function loadSdk(): Promise<typeof import("@aws-sdk/client-dynamodb")> {
  try {
    return await import("@aws-sdk/client-dynamodb");
  } catch (cause) {
    throw notInstalled("@aws-sdk/client-dynamodb", cause);
  }
}

export async function loadCredentialProviders(): Promise<typeof import("@aws-sdk/credential-providers")> {
  try {
    return await import("@aws-sdk/credential-providers");
  } catch (cause) {
    throw notInstalled("@aws-sdk/credential-providers", cause);
  }
}

/** What to throw where an optional package could not be loaded: which one to install, if that is why. */
export function notInstalled(name: string, cause: unknown): unknown {
  if (!isMissing(cause, name)) return cause;
  return new LimiterError(
    "package_missing",
    `The package ${name} is not installed, and the DynamoDB store needs it here; run \`npm install ${name}\`.`,
    { cause },
  );
}

/** Not one of the package's own dependencies, which another sentence would have to name. */
function isMissing(cause: unknown, name: string): boolean {
  return (
    cause instanceof Error &&
    "code" in cause &&
    cause.code === "ERR_MODULE_NOT_FOUND" &&
    cause.message.includes(`'${name}'`)
  );
}
