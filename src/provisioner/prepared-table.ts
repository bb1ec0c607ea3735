import { ValidationError } from "../domain/names/errors.ts";
import { shown } from "../domain/names/names.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import type { Properties } from "./properties.ts";

/** The resource that sets up a table which CloudFormation made. */
export const TABLE_RESOURCE = "Custom::ZaeLimiterTable";

/** Namespaces that a resource of a table wants to be there, besides `default`. */
export function namespacesOf({ Namespaces: names = [] }: Properties): readonly string[] {
  if (Array.isArray(names) && names.every((name) => typeof name === "string")) return names;
  throw new ValidationError(
    "properties_invalid",
    `The resource has ${shown(names)} for Namespaces, which must be a list of names.`,
  );
}

/** Registers what is not there; how many. What is no longer asked for stays: a namespace holds limits and usage. */
export async function registerMissing(limiter: Limiter, names: readonly string[], principal: string): Promise<number> {
  const known = new Set<string>();
  for await (const { name } of limiter.listNamespaces({ limit: 100 })) known.add(name);
  const missing = names.filter((name) => !known.has(name));
  for (const name of missing) await limiter.registerNamespace(name, { principal });
  return missing.length;
}
