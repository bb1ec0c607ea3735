import type { Namespace } from "../domain/config/namespace.ts";
import { LimiterError, RateLimiterUnavailable, ValidationError } from "../domain/names/errors.ts";
import { checkNamespace } from "../domain/names/names.ts";
import { unreachableScope } from "../engine/limiter/deferred-scope.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import { partsOf } from "../engine/limiter/limiter-parts.ts";
import { namespaceMissing } from "../engine/limiter/namespaces.ts";
import type { NamedScope } from "../engine/limiter/settings.ts";
import { StoredLeases, type StoredLeasesOptions } from "../leases/stored-leases.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";

/**
 * The state of a namespace, as a service knows it by its name.
 * - `unknown`: nobody has asked for it yet.
 * - `looking`: the store was asked, and has not answered.
 * - `ready`: it is registered under this id.
 * - `failed`: the store did not answer; it is asked again by the first request from `retryAtMs` on.
 * - `gone`: it is not registered, or was deleted. That is final: its name may be registered anew, as another tenant.
 */
export type TenantState =
  | { readonly kind: "unknown" }
  | { readonly kind: "looking"; readonly sinceMs: number }
  | { readonly kind: "ready"; readonly id: string }
  | { readonly kind: "failed"; readonly cause: unknown; readonly retryAtMs: number }
  | { readonly kind: "gone" };

type TenantEvent =
  | { readonly kind: "asked"; readonly nowMs: number }
  | { readonly kind: "found"; readonly id: string }
  | {
      readonly kind: "unanswered";
      readonly cause: unknown;
      readonly nowMs: number;
      /** An outage may be over with the next request; a missing right, for example, is not. */
      readonly isOutage: boolean;
    }
  | { readonly kind: "missing" };

/** How long the store is not asked again about a namespace after a failure that is no outage. */
export const RETRY_MS = 1_000;

/** The state after an event. */
export function nextState(state: TenantState, event: TenantEvent): TenantState {
  if (state.kind === "gone") return state;
  switch (event.kind) {
    case "asked":
      return isAsked(state, event.nowMs) ? { kind: "looking", sinceMs: event.nowMs } : state;
    case "found":
      return { kind: "ready", id: event.id };
    case "missing":
      return { kind: "gone" };
    case "unanswered":
      // An outage does not change the id of a namespace.
      if (state.kind === "ready") return state;
      // Work that an outage lets through is not counted: it must not be let through for longer than the outage.
      return { kind: "failed", cause: event.cause, retryAtMs: event.nowMs + (event.isOutage ? 0 : RETRY_MS) };
  }
}

/** Whether a request has to ask the store. */
function isAsked(state: TenantState, nowMs: number): boolean {
  return state.kind === "unknown" || (state.kind === "failed" && nowMs >= state.retryAtMs);
}

export interface TenantTools {
  readonly limiter: Limiter;
  readonly storedLeases: StoredLeases;
}

interface TenantDeps {
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
  /** Whether the service keeps an event feed for it. Such a tenant is not evicted. */
  hasFeed = false;
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

/** The most tenants in memory. Beyond, the least recently used one without an event feed is evicted. */
const TENANTS_MAX = 512;

/** The namespaces that this service serves, each with what is known of it. */
export class Tenants {
  readonly #known = new Map<string, Tenant>();
  /** The one that was asked for last. */
  #last: Tenant | undefined;
  readonly #deps: TenantDeps;
  readonly #onGone: (tenant: Tenant) => void;
  /** The tools of the namespace that the service was opened on. */
  readonly rootTools: TenantTools;

  /** `onGone` is called with a tenant that was deleted. */
  constructor(root: Limiter, storedLeasesOptions: StoredLeasesOptions, onGone: (tenant: Tenant) => void) {
    const { deps, settings, on } = partsOf(root);
    const toolsOf = (limiter: Limiter): TenantTools => ({
      limiter,
      storedLeases: new StoredLeases(limiter, storedLeasesOptions),
    });
    const limiterOn = (name: string, scope: NamedScope) => on(name, scope) as Limiter;
    // Programs that share the limiter with the service see its changes at once.
    const rootTools = toolsOf(root);
    this.rootTools = rootTools;
    this.#onGone = onGone;
    this.#deps = {
      now: () => deps.clock.now(),
      lookUp: (name) => {
        if (name !== settings.namespace) return deps.store.namespaces.get(checkNamespace(name));
        const id = settings.namespaceId();
        return id instanceof Promise ? id.then((known) => ({ id: known })) : { id };
      },
      toolsOn: (name, id) => {
        if (name === settings.namespace) return rootTools;
        return toolsOf(limiterOn(name, { scoped: deps.store.scope(id), namespaceId: () => id }));
      },
      toolsWithout: (name, cause) =>
        name === settings.namespace ? rootTools : toolsOf(limiterOn(name, unreachableScope(cause))),
    };
  }

  /** The tenant of a name; whether there is such a namespace is not known before it is asked for its tools. */
  get(name: string): Tenant {
    if (this.#last?.name === name && this.#last.state.kind === "ready") return this.#last;
    const known = this.#known.get(name);
    // The most recently used stand last.
    if (known !== undefined) this.#known.delete(name);
    const tenant = known === undefined || known.state.kind === "gone" ? new Tenant(name, this.#deps) : known;
    this.#known.set(name, tenant);
    this.#last = tenant;
    if (this.#known.size > TENANTS_MAX) this.#evictOne();
    return tenant;
  }

  /** The namespace was deleted. Answers whether it was not known to be: then its name may stand for another by now. */
  lost(tenant: Tenant): boolean {
    if (tenant.state.kind === "gone") return false;
    tenant.lost();
    if (this.#known.get(tenant.name) === tenant) this.#known.delete(tenant.name);
    this.#onGone(tenant);
    return true;
  }

  /** Tools on a namespace that is known to be there: those of the tenant, where it is at hand. It is not asked for by that. */
  toolsOf(name: string, id: string): TenantTools {
    const known = this.#known.get(name);
    return known?.state.kind === "ready" && known.state.id === id ? known.readyTools : this.#deps.toolsOn(name, id);
  }

  /** The tenants at hand that are known to be there. */
  ready(): readonly { readonly name: string; readonly id: string }[] {
    return [...this.#known.values()].flatMap(({ name, state }) =>
      state.kind === "ready" ? [{ name, id: state.id }] : [],
    );
  }

  readyTools(): readonly TenantTools[] {
    return [...this.#known.values()].flatMap((tenant) => (tenant.state.kind === "ready" ? [tenant.readyTools] : []));
  }

  counts(): Readonly<Record<TenantState["kind"], number>> {
    const counts = { unknown: 0, looking: 0, ready: 0, failed: 0, gone: 0 };
    for (const { state } of this.#known.values()) counts[state.kind] += 1;
    return counts;
  }

  #evictOne(): void {
    for (const [name, tenant] of this.#known) {
      if (tenant.hasFeed) continue;
      this.#known.delete(name);
      return;
    }
  }
}
