import { BILLED_WRITE_EVERY_MS } from "../../domain/charge/refusal-count.ts";
import type { Namespace } from "../../domain/config/namespace.ts";
import type { Crossed } from "../../domain/limits/thresholds.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import type { ScopedStore, Store } from "../../ports/store.ts";
import { RememberedAnswer } from "../acquire/remembered-answer.ts";
import { namespaceMissing } from "./namespaces.ts";

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
  /** Methods of a port that wait for the namespace. */
  const waiting = <P extends keyof ScopedStore, M extends keyof ScopedStore[P]>(port: P, ...methods: M[]) => {
    const call =
      (method: M) =>
      async (...args: unknown[]) => {
        const ports = (await scope())[port] as Record<M, (...args: unknown[]) => unknown>;
        return ports[method](...args);
      };
    return Object.fromEntries(methods.map((method) => [method, call(method)])) as Pick<ScopedStore[P], M>;
  };
  return {
    buckets: {
      ...waiting("buckets", "take", "debit", "credit", "renew", "topUp", "reset", "read", "listKeys", "listByResource"),
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
    },
    config: {
      generation: () => undefined,
      ...waiting("config", "resolve", "get", "set", "setPolicy", "delete"),
      ...waiting("config", "listForEntity", "listEntities", "listEntityResources", "listResources"),
    },
    entities: waiting("entities", "create", "get", "update", "delete", "children", "list"),
    plans: waiting("plans", "create", "get", "update", "delete", "list", "listEntities"),
    usage: waiting("usage", "query"),
    refusals: {
      // A store that is asked over a network keeps them for as long as its configuration says.
      isKept: true,
      writeEveryMs: BILLED_WRITE_EVERY_MS,
      ...waiting("refusals", "write", "query"),
    },
    manifests: waiting("manifests", "setRun", "getRun", "enter", "strike", "list", "listConfigs"),
    leases: {
      // A store that is asked over a network has no transaction of a take.
      isWrittenByTake: false,
      ...waiting("leases", "create", "get", "move", "listOpen", "findDue", "beginKey", "renewKey", "releaseKey"),
    },
    audit: waiting("audit", "list"),
  };
}
