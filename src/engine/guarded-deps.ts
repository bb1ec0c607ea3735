import type { Lifecycle } from "./lifecycle.ts";
import { type Returns, returnsOf } from "./returns.ts";
import type { EngineDeps } from "./settings.ts";

/** What the parts of one limiter work with. */
export interface GuardedDeps extends EngineDeps {
  /** Of the store itself, which other limiters may share. */
  readonly returns: Returns;
}

/** Everything but the buckets, which leases go on using while bodies end: the acquirer decides about those. */
export function guardedDeps({ store, scope, ...others }: EngineDeps, lifecycle: Lifecycle): GuardedDeps {
  return {
    ...others,
    returns: returnsOf(store),
    store: {
      name: store.name,
      atomicBucketsMax: store.atomicBucketsMax,
      namespaces: guarded(store.namespaces, lifecycle),
      scope: (namespaceId) => store.scope(namespaceId),
      ping: () => {
        lifecycle.requireOpen();
        return store.ping();
      },
      close: () => store.close(),
      ...(store.onBackgroundFault === undefined
        ? {}
        : { onBackgroundFault: (...args) => store.onBackgroundFault?.(...args) ?? (() => {}) }),
    },
    scope: {
      buckets: scope.buckets,
      config: guarded(scope.config, lifecycle),
      entities: guarded(scope.entities, lifecycle),
      usage: guarded(scope.usage, lifecycle),
      audit: guarded(scope.audit, lifecycle),
      manifests: guarded(scope.manifests, lifecycle),
      leases: guarded(scope.leases, lifecycle),
    },
  };
}

/** The port, whose methods are refused once the limiter closes, and waited for until then. */
function guarded<Port extends object>(port: Port, lifecycle: Lifecycle): Port {
  const known = new Map<string | symbol, unknown>();
  return new Proxy(port, {
    get: (target, name) => {
      const guard = known.get(name);
      if (guard !== undefined) return guard;
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      const made = (...args: unknown[]) => {
        // What the engine asks in between, while an answer is on its way, it may go on asking.
        if (name !== "generation") lifecycle.requireOpen();
        return lifecycle.track(value.apply(target, args));
      };
      known.set(name, made);
      return made;
    },
  });
}
