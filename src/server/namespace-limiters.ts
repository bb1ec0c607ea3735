import { BoundedMap } from "../domain/bounded-map.ts";
import { LimiterError } from "../domain/errors.ts";
import type { Limiter } from "../engine/limiter.ts";
import { type DeskOptions, LeaseDesk } from "../leases/desk.ts";

/** How many namespaces are kept at hand, at least; twice as many at most. */
const KEPT = 256;

/** A limiter and a desk for each namespace that is asked for, made once: they remember limits and refusals. */
export class NamespaceLimiters {
  readonly #root: Limiter;
  readonly #rootName: string;
  readonly #known = new BoundedMap<Limiter>(KEPT);
  readonly #desks = new WeakMap<Limiter, LeaseDesk>();
  readonly #deskOptions: DeskOptions;

  constructor(root: Limiter, rootName: string, deskOptions: DeskOptions) {
    this.#root = root;
    this.#rootName = rootName;
    this.#deskOptions = deskOptions;
  }

  get(name: string): Limiter {
    // Programs that share the limiter with the service see its changes at once.
    if (name === this.#rootName) return this.#root;
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const made = this.#root.namespace(name);
    this.#known.set(name, made);
    return made;
  }

  /** Stored leases of a namespace. */
  desk(name: string): LeaseDesk {
    const limiter = this.get(name);
    const known = this.#desks.get(limiter);
    if (known !== undefined) return known;
    const made = new LeaseDesk(limiter, this.#deskOptions);
    this.#desks.set(limiter, made);
    return made;
  }

  /**
   * The namespace was removed, or was never there. Answers whether asking again may help: its name may have been registered
   * anew since the limiter was made.
   */
  forget(name: string, limiter: Limiter): boolean {
    if (name === this.#rootName || this.#known.get(name) !== limiter) return false;
    this.#known.delete(name);
    return true;
  }
}

export function isNamespaceMissing(error: unknown): boolean {
  return error instanceof LimiterError && error.code === "namespace_not_found";
}
