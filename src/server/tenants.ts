import { checkNamespace } from "../domain/names/names.ts";
import { type NamedScope, unreachableScope } from "../engine/limiter/deferred-scope.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import { partsOf } from "../engine/limiter/limiter-parts.ts";
import { StoredLeases, type StoredLeasesOptions } from "../leases/stored-leases.ts";
import { Tenant, type TenantDeps, type TenantTools } from "./tenant.ts";
import type { TenantState } from "./tenant-state.ts";

/** How many namespaces are kept at hand; beyond, the one that was not asked for longest is let go, unless somebody listens to it. */
const KEPT = 512;

/** The namespaces that this service serves, each with what is known of it. */
export class Tenants {
  readonly #known = new Map<string, Tenant>();
  /** The one that was asked for last. */
  #last: Tenant | undefined;
  readonly #deps: TenantDeps;
  readonly #onGone: (tenant: Tenant) => void;
  /** Of the namespace that the service was opened on. */
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
    // Those asked for last stand last.
    if (known !== undefined) this.#known.delete(name);
    const tenant = known === undefined || known.state.kind === "gone" ? new Tenant(name, this.#deps) : known;
    this.#known.set(name, tenant);
    this.#last = tenant;
    if (this.#known.size > KEPT) this.#letGo();
    return tenant;
  }

  /** The tenant of a name, if it is at hand. */
  find(name: string): Tenant | undefined {
    return this.#known.get(name);
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

  /** How many there are in each state. */
  counts(): Readonly<Record<TenantState["kind"], number>> {
    const counts = { unknown: 0, looking: 0, ready: 0, failed: 0, gone: 0 };
    for (const { state } of this.#known.values()) counts[state.kind] += 1;
    return counts;
  }

  #letGo(): void {
    for (const [name, tenant] of this.#known) {
      if (tenant.feed !== undefined) continue;
      this.#known.delete(name);
      return;
    }
  }
}
