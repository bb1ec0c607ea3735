import { NotFoundError } from "../names/errors.ts";
import type { Frozen } from "./config.ts";

export const DEFAULT_NAMESPACE = "default";

export type NamespaceStatus = "active" | "deleted" | "purging" | "copying";

/**
 * A tenant. Its data belongs to its id, so that a name can be deleted and used again while the old data can still be
 * recovered.
 */
export interface Namespace {
  /** Its id, which is never used again. */
  readonly id: string;
  /** The name that `RateLimiter.open({ namespace })` takes. */
  readonly name: string;
  /**
   * `active`: it can be used. `deleted`: it can be recovered or purged. `purging`: its data is being removed. `copying`: it is
   * being filled from another store, and can be purged.
   */
  readonly status: NamespaceStatus;
  /** In ms since 1970. */
  readonly createdAtMs: number;
  /** In ms since 1970. Absent: it is not deleted. */
  readonly deletedAtMs?: number;
}

/** A namespace, and whether it is frozen. */
export interface NamespaceShown extends Namespace {
  /** Nothing is taken, topped up or reset in it. Absent: it is not frozen. */
  readonly frozen?: Frozen;
}

/** The error of calls in a namespace that was deleted, or never was. */
export function namespaceNotActive(namespaceId: string): NotFoundError {
  return new NotFoundError(
    "namespace_not_found",
    (ways) =>
      `The namespace with id ${namespaceId} is not active; recover it with ${ways.recoverNamespace}, or open another.`,
  );
}
