import type { Namespace, NamespaceShown } from "../../domain/config/namespace.ts";
import type { ChangeOptions } from "./level-options.ts";
import type { LimiterParts } from "./limiter-parts.ts";
import { type Listing, type ListOptions, listing } from "./listing.ts";
import { LookingBack } from "./looking-back.ts";
import {
  deleteNamespace,
  type FreezeOptions,
  freezeNamespace,
  getNamespace,
  type PurgeOptions,
  purgeNamespace,
  recoverNamespace,
  registerNamespace,
  unfreezeNamespace,
} from "./namespaces.ts";

/** What a limiter does with the namespaces of its store. */
export class StoredNamespaces extends LookingBack {
  readonly #parts: LimiterParts;

  constructor(parts: LimiterParts) {
    super(parts);
    this.#parts = parts;
  }

  /** Creates a namespace, or answers the one of that name. */
  registerNamespace(name: string, options: ChangeOptions = {}): Promise<Namespace> {
    return registerNamespace(this.#parts, name, options);
  }

  /** The namespaces that are in use. */
  listNamespaces(options: ListOptions = {}): Listing<Namespace> {
    return listing((page) => this.#parts.deps.store.namespaces.list(page), options);
  }

  /** The namespace of that name, and whether it is frozen. Throws `namespace_not_found` if there is none. */
  getNamespace(name: string): Promise<NamespaceShown> {
    return getNamespace(this.#parts, name);
  }

  /** Hides a namespace. Its data stays until `purgeNamespace`; `recoverNamespace` brings it back. */
  deleteNamespace(name: string, options: ChangeOptions = {}): Promise<Namespace> {
    return deleteNamespace(this.#parts, name, options);
  }

  /** Brings a deleted namespace back, by its id. Throws `namespace_name_taken` if its name is in use again. */
  recoverNamespace(id: string, options: ChangeOptions = {}): Promise<Namespace> {
    return recoverNamespace(this.#parts, id, options);
  }

  /** Deleted namespaces whose data is still stored. */
  listOrphanNamespaces(options: ListOptions = {}): Listing<Namespace> {
    return listing((page) => this.#parts.deps.store.namespaces.listOrphans(page), options);
  }

  /** Removes the data of a deleted namespace for good. It can be run again if it was interrupted. */
  purgeNamespace(id: string, options: PurgeOptions = {}): Promise<{ readonly records: number }> {
    return purgeNamespace(this.#parts, id, options);
  }

  /**
   * Freezes a namespace: `acquire`, `lease.consume`, top-ups and resets throw `ResourceDisabled` with the code `namespace_frozen`, whatever
   * access is set. Leases are settled and rolled back as ever, questions answered, limits set. Every process knows it from its next
   * request on; on DynamoDB within its `configTtlMs`. Answers whether anything changed.
   */
  freezeNamespace(name: string, options: FreezeOptions = {}): Promise<boolean> {
    return freezeNamespace(this.#parts, name, options);
  }

  /** Ends what `freezeNamespace` began. Answers whether anything changed. */
  unfreezeNamespace(name: string, options: ChangeOptions = {}): Promise<boolean> {
    return unfreezeNamespace(this.#parts, name, options);
  }
}
