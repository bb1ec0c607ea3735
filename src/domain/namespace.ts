import { NotFoundError } from "./errors.ts";

export const DEFAULT_NAMESPACE = "default";

export type NamespaceStatus = "active" | "deleted" | "purging";

/** A tenant. Its data hangs on the id, so that a name can be deleted, used again, and the old data still be recovered. */
export interface Namespace {
  readonly id: string;
  readonly name: string;
  readonly status: NamespaceStatus;
  readonly createdAtMs: number;
  readonly deletedAtMs?: number;
}

/** For calls in a namespace that was deleted, or never was. */
export function namespaceNotActive(namespaceId: string): NotFoundError {
  return new NotFoundError(
    "namespace_not_found",
    `The namespace with id ${namespaceId} is not active; recover it with recoverNamespace, or open another.`,
  );
}
