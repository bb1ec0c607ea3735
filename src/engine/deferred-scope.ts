import type { Namespace } from "../domain/namespace.ts";
import { NETWORK_WRITE_EVERY_MS } from "../domain/refusal-count.ts";
import type { Crossed } from "../domain/thresholds.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import type { ScopedStore, Store } from "../ports/store.ts";
import { namespaceMissing } from "./namespaces.ts";
import { RememberedAnswer } from "./remembered-answer.ts";

/** The ports of a namespace, and its id. */
export interface NamedScope {
  readonly scoped: ScopedStore;
  readonly namespaceId: () => MaybePromise<string>;
}

/** A namespace that cannot be reached at present: every use fails with the cause. */
export function unreachableScope(cause: unknown): NamedScope {
  const failed = () => Promise.reject(cause);
  return { scoped: deferred(failed), namespaceId: failed };
}

/**
 * The ports of a namespace by its name, and its id. Where the store has to be asked over a network, both wait for its answer
 * when they are used; a name that is not registered is the error of that use. Only an id is remembered: after an outage, and
 * after the name was registered, the next use asks again.
 */
export function scopeOfNamed(store: Store, name: string): NamedScope {
  const found = store.namespaces.get(name);
  if (!(found instanceof Promise)) {
    const { id } = registered(found, name);
    return { scoped: store.scope(id), namespaceId: () => id };
  }
  let first: typeof found | undefined = found;
  const namespace = new RememberedAnswer(async () => {
    const asked = first ?? store.namespaces.get(name);
    first = undefined;
    const { id } = registered(await asked, name);
    return { id, scope: store.scope(id) };
  });
  // A use reports a failure. A limiter that is never used must not crash the process by an unhandled rejection.
  void Promise.resolve(namespace.get()).catch(() => {});
  return {
    scoped: deferred(async () => (await namespace.get()).scope),
    namespaceId: async () => (await namespace.get()).id,
  };
}

function registered(found: Namespace | undefined, name: string): Namespace {
  if (found === undefined) throw namespaceMissing(name);
  return found;
}

function deferred(found: () => Promise<ScopedStore>): ScopedStore {
  const listeners = new Set<(crossed: Crossed) => void>();
  let isListening = false;
  // A limiter begins to listen for thresholds before the namespace is known, and listens once: the first use listens for it.
  const scope = async (): Promise<ScopedStore> => {
    const scoped = await found();
    if (isListening) return scoped;
    isListening = true;
    scoped.buckets.watchThresholds?.((crossed) => {
      for (const listener of listeners) listener(crossed);
    });
    return scoped;
  };
  return {
    buckets: {
      take: async (...args) => (await scope()).buckets.take(...args),
      debit: async (...args) => (await scope()).buckets.debit(...args),
      credit: async (...args) => (await scope()).buckets.credit(...args),
      renew: async (...args) => (await scope()).buckets.renew(...args),
      topUp: async (...args) => (await scope()).buckets.topUp(...args),
      reset: async (...args) => (await scope()).buckets.reset(...args),
      watchReturns: (listener) => {
        const stop = scope().then(
          ({ buckets }) => buckets.watchReturns?.(listener),
          // A namespace that cannot be reached has no returns either; the next request that waits listens anew.
          () => undefined,
        );
        return () => void stop.then((end) => end?.());
      },
      watchThresholds: (listener) => {
        listeners.add(listener);
        return () => listeners.delete(listener);
      },
      // A namespace that cannot be reached has nothing to tell.
      thresholdsTold: async () => {
        if (isListening) await (await scope()).buckets.thresholdsTold?.();
      },
      read: async (...args) => (await scope()).buckets.read(...args),
      listKeys: async (...args) => (await scope()).buckets.listKeys(...args),
      listByResource: async (...args) => (await scope()).buckets.listByResource(...args),
    },
    config: {
      generation: () => undefined,
      resolve: async (...args) => (await scope()).config.resolve(...args),
      get: async (...args) => (await scope()).config.get(...args),
      set: async (...args) => (await scope()).config.set(...args),
      setPolicy: async (...args) => (await scope()).config.setPolicy(...args),
      delete: async (...args) => (await scope()).config.delete(...args),
      listForEntity: async (...args) => (await scope()).config.listForEntity(...args),
      listEntities: async (...args) => (await scope()).config.listEntities(...args),
      listEntityResources: async (...args) => (await scope()).config.listEntityResources(...args),
      listResources: async (...args) => (await scope()).config.listResources(...args),
    },
    entities: {
      create: async (...args) => (await scope()).entities.create(...args),
      get: async (...args) => (await scope()).entities.get(...args),
      update: async (...args) => (await scope()).entities.update(...args),
      delete: async (...args) => (await scope()).entities.delete(...args),
      children: async (...args) => (await scope()).entities.children(...args),
      list: async (...args) => (await scope()).entities.list(...args),
    },
    plans: {
      create: async (...args) => (await scope()).plans.create(...args),
      get: async (...args) => (await scope()).plans.get(...args),
      update: async (...args) => (await scope()).plans.update(...args),
      delete: async (...args) => (await scope()).plans.delete(...args),
      list: async (...args) => (await scope()).plans.list(...args),
      listEntities: async (...args) => (await scope()).plans.listEntities(...args),
    },
    usage: { query: async (...args) => (await scope()).usage.query(...args) },
    refusals: {
      // A store that is asked over a network keeps them for as long as its configuration says.
      isKept: true,
      writeEveryMs: NETWORK_WRITE_EVERY_MS,
      write: async (...args) => (await scope()).refusals.write(...args),
      query: async (...args) => (await scope()).refusals.query(...args),
    },
    manifests: {
      setRun: async (...args) => (await scope()).manifests.setRun(...args),
      getRun: async (...args) => (await scope()).manifests.getRun(...args),
      enter: async (...args) => (await scope()).manifests.enter(...args),
      strike: async (...args) => (await scope()).manifests.strike(...args),
      list: async (...args) => (await scope()).manifests.list(...args),
      listConfigs: async (...args) => (await scope()).manifests.listConfigs(...args),
    },
    leases: {
      // A store that is asked over a network has no transaction of a take.
      isWrittenByTake: false,
      create: async (...args) => (await scope()).leases.create(...args),
      get: async (...args) => (await scope()).leases.get(...args),
      move: async (...args) => (await scope()).leases.move(...args),
      listOpen: async (...args) => (await scope()).leases.listOpen(...args),
      findDue: async (...args) => (await scope()).leases.findDue(...args),
      beginKey: async (...args) => (await scope()).leases.beginKey(...args),
      renewKey: async (...args) => (await scope()).leases.renewKey(...args),
      releaseKey: async (...args) => (await scope()).leases.releaseKey(...args),
    },
    audit: { list: async (...args) => (await scope()).audit.list(...args) },
  };
}
