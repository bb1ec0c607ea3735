import { peer } from "../adapters/dynamodb/transport-peer.ts";
import { LimiterError } from "../domain/errors.ts";

/** Loads an optional package; where it is missing, says for what it is needed and how to get it. */
export async function optional<Module>(name: string, purpose: string, load: () => Promise<Module>): Promise<Module> {
  try {
    return await peer(name, load);
  } catch (error) {
    if (!(error instanceof LimiterError) || error.code !== "package_missing") throw error;
    const message = `The package ${name} is not installed, and ${purpose} needs it; run \`npm install ${name}\`.`;
    throw new LimiterError("package_missing", message, { cause: error.cause });
  }
}
