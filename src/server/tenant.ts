import type { Namespace } from "../domain/config/namespace.ts";
import { LimiterError, RateLimiterUnavailable, ValidationError } from "../domain/names/errors.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import { namespaceMissing } from "../engine/limiter/namespaces.ts";
import type { StoredLeases } from "../leases/stored-leases.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import { nextState, type TenantEvent, type TenantState } from "./tenant-state.ts";

/** What a tenant's limiter works on, its stored leases with it. */
export interface TenantTools {
  readonly limiter: Limiter;
  readonly storedLeases: StoredLeases;
}

/** How tenants are looked up and given their tools. */
export interface TenantDeps {
  now(): number;
  /** The active namespace of a name; rejects where the store does not answer. */
  lookUp(name: string): MaybePromise<Pick<Namespace, "id"> | undefined>;
  /** On a namespace that is there. */
  toolsOn(name: string, id: string): TenantTools;
  /** On a namespace that cannot be reached: every call fails with the cause, and the limiter's own policy decides what then. */
  toolsWithout(name: string, cause: unknown): TenantTools;
}

/** A namespace as the service serves it. */
export class Tenant {
  readonly name: string;
  /** What is kept because of those who listen to it; the service's feeds put it there. */
  feed: object | undefined;
  readonly #deps: TenantDeps;
  #state: TenantState = { kind: "unknown" };
  #tools: TenantTools | undefined;
  #looking: Promise<TenantTools> | undefined;

  constructor(name: string, deps: TenantDeps) {
    this.name = name;
    this.#deps = deps;
  }

  get state(): TenantState {
    return this.#state;
  }

  /** Its tools, once the store has said whether it is there. Throws `namespace_not_found` where it is not. */
  tools(): MaybePromise<TenantTools> {
    if (this.#state.kind === "ready") return this.#tools as TenantTools;
    this.#heard({ kind: "asked", nowMs: this.#deps.now() });
    if (this.#state.kind === "gone") throw namespaceMissing(this.name);
    if (this.#state.kind === "looking") return this.#looking ?? this.#look();
    return this.#tools as TenantTools;
  }

  /** Its tools; throws where it is not known to be there. */
  get readyTools(): TenantTools {
    if (this.#state.kind === "ready" && this.#tools !== undefined) return this.#tools;
    throw namespaceMissing(this.name);
  }

  /** It was deleted. */
  lost(): void {
    this.#heard({ kind: "missing" });
  }

  #look(): MaybePromise<TenantTools> {
    let found: MaybePromise<Pick<Namespace, "id"> | undefined>;
    try {
      found = this.#deps.lookUp(this.name);
    } catch (error) {
      return this.#unanswered(error);
    }
    if (!(found instanceof Promise)) return this.#answered(found);
    this.#looking = found
      .then(
        (namespace) => this.#answered(namespace),
        (error) => this.#unanswered(error),
      )
      .finally(() => {
        this.#looking = undefined;
      });
    return this.#looking;
  }

  #answered(namespace: Pick<Namespace, "id"> | undefined): TenantTools {
    if (namespace === undefined) {
      this.#heard({ kind: "missing" });
      throw namespaceMissing(this.name);
    }
    this.#heard({ kind: "found", id: namespace.id });
    this.#tools = this.#deps.toolsOn(this.name, namespace.id);
    return this.#tools;
  }

  #unanswered(cause: unknown): TenantTools {
    // A name that cannot be one is no failure of the store.
    if (cause instanceof ValidationError) {
      this.#heard({ kind: "missing" });
      throw cause;
    }
    const isOutage = cause instanceof RateLimiterUnavailable;
    this.#heard({ kind: "unanswered", cause, nowMs: this.#deps.now(), isOutage });
    // The limiter's own policy says what becomes of work in an outage.
    this.#tools = this.#deps.toolsWithout(this.name, cause);
    return this.#tools;
  }

  #heard(event: TenantEvent): void {
    this.#state = nextState(this.#state, event);
  }
}

export function isNamespaceMissing(error: unknown): boolean {
  return error instanceof LimiterError && error.code === "namespace_not_found";
}
