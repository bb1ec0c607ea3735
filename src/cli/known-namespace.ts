import { ConflictError, NotFoundError } from "../domain/errors.ts";
import type { Namespace } from "../entry/index.ts";
import type { CommandLimiter } from "./command-limiter.ts";
import { nearText } from "./on-store.ts";

/** The active namespace of a name. */
export async function requireNamespace(limiter: CommandLimiter, name: string): Promise<Namespace> {
  try {
    return await limiter.getNamespace(name);
  } catch (error) {
    if (!(error instanceof NotFoundError)) throw error;
    const known = (await limiter.listNamespaces({ limit: 1000 })).map((namespace) => namespace.name);
    throw new NotFoundError("namespace_not_found", `There is no namespace "${name}"${nearText(name, known)}`);
  }
}

/** The deleted namespace of an id. Undefined: it is none of them, which the store will say in its own words. */
export async function orphanOf(limiter: CommandLimiter, id: string): Promise<Namespace | undefined> {
  for await (const namespace of limiter.listOrphanNamespaces()) if (namespace.id === id) return namespace;
  return undefined;
}

/** A deleted namespace as it would be once it is recovered; throws where it could not be. */
export async function recoverable(limiter: CommandLimiter, id: string): Promise<Namespace> {
  const found = await orphanOf(limiter, id);
  let isNameTaken = false;
  for await (const { id: each, name, status } of limiter.listNamespaces()) {
    if (each === id) {
      throw new ConflictError(
        "namespace_not_deleted",
        `The namespace ${id} is ${status}; only deleted namespaces can be recovered.`,
      );
    }
    isNameTaken ||= name === found?.name;
  }
  if (found === undefined) throw orphanMissing(id);
  if (isNameTaken) {
    throw new ConflictError(
      "namespace_name_taken",
      `The name ${found.name} is in use again; delete that namespace before recovering ${id}.`,
    );
  }
  const { deletedAtMs: _, ...kept } = found;
  return { ...kept, status: "active" };
}

export function orphanMissing(id: string): NotFoundError {
  return new NotFoundError(
    "namespace_not_found",
    `There is no deleted namespace with the id ${id}; \`zae-limiter namespace orphans\` shows the ids.`,
  );
}
