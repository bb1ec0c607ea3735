import { LimiterError } from "../../domain/errors.ts";

/**
 * Loads an optional package, or says which one to install.
 *
 * ```ts
 * const { Pool } = await peer("undici", () => import("undici"));
 * ```
 */
export async function peer<Module>(name: string, load: () => Promise<Module>): Promise<Module> {
  try {
    return await load();
  } catch (cause) {
    if (!isMissing(cause, name)) throw cause;
    throw new LimiterError(
      "package_missing",
      `The package ${name} is not installed, and the DynamoDB store needs it here; run \`npm install ${name}\`.`,
      { cause },
    );
  }
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
