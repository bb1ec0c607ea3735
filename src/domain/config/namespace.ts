import { NotFoundError } from "../names/errors.ts";

export const DEFAULT_NAMESPACE = "default";

export type NamespaceStatus = "active" | "deleted" | "purging";

/**
 * A tenant. Its data belongs to its id, so that a name can be deleted and used again while the old data can still be
 * recovered.
 */
export interface Namespace {
  /** Its id, which is never used again. */
  readonly id: string;
  /** The name that `RateLimiter.open({ namespace })` takes. */
  readonly name: string;
  /** `active`: it can be used. `deleted`: it can be recovered or purged. `purging`: its data is being removed. */
  readonly status: NamespaceStatus;
  /** In ms since 1970. */
  readonly createdAtMs: number;
  /** In ms since 1970. Absent: it is not deleted. */
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
