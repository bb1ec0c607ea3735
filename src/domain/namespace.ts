import { NotFoundError } from "./errors.ts";

export const DEFAULT_NAMESPACE = "default";

export type NamespaceStatus = "active" | "deleted" | "purging";

/** A tenant. Its data hangs on the id, so that a name can be deleted, used again, and the old data still be recovered. */
export interface Namespace {
  /** Never used again, also when its name is. */
  readonly id: string;
  /** As it is opened by. */
  readonly name: string;
  /** Whether it can be used; only one that is deleted can be recovered or purged. */
  readonly status: NamespaceStatus;
  /** In ms since 1970. */
  readonly createdAtMs: number;
  /** In ms since 1970; absent where it is not deleted. */
  readonly deletedAtMs?: number;
}

/** For calls in a namespace that was deleted, or never was. */
export function namespaceNotActive(namespaceId: string): NotFoundError {
  return new NotFoundError(
    "namespace_not_found",
    (ways) =>
      `The namespace with id ${namespaceId} is not active; recover it with ${ways.recoverNamespace}, or open another.`,
  );
}
