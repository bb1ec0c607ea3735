import { BILLED_WRITE_EVERY_MS } from "../../domain/charge/refusal-count.ts";
import type { Namespace } from "../../domain/config/namespace.ts";
import type { Crossed } from "../../domain/limits/thresholds.ts";
import type { ScopedStore, Store } from "../../ports/store.ts";
import { RememberedAnswer } from "../acquire/remembered-answer.ts";
import { UNKEPT } from "../usage/caller-book.ts";
import { namespaceMissing } from "./namespaces.ts";
import type { NamedScope } from "./settings.ts";

/** A namespace that cannot be reached: every use fails with the cause. */
export function unreachableScope(cause: unknown): NamedScope {
  const failed = () => Promise.reject(cause);
  return { scoped: deferred(failed), namespaceId: failed };
}

/**
 * The ports and the id of a namespace, by name. On a store over a network, each use waits for the answer, and throws if the name is
 * not registered. Only an id is remembered: after an outage or a registration, the next use asks again.
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
  // A later use reports the failure. A limiter that is never used must not crash the process by an unhandled rejection.
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
  let known: ScopedStore | undefined;
  // A limiter subscribes to thresholds once, before the namespace is known: the first use subscribes for it.
  const scope = async (): Promise<ScopedStore> => {
    const scoped = await found();
    known = scoped;
    if (isListening) return scoped;
    isListening = true;
    scoped.buckets.watchThresholds?.((crossed) => {
      for (const listener of listeners) listener(crossed);
    });
    return scoped;
  };
  /** Wraps methods of a port so that they wait for the namespace. */
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
      ...waiting(
        "buckets",
        "take",
        "debit",
        "credit",
        "refund",
        "renew",
        "topUp",
        "reset",
        "read",
        "listKeys",
        "listByResource",
      ),
      watchReturns: (listener) => {
        const stop = scope().then(
          ({ buckets }) => buckets.watchReturns?.(listener),
          // An unreachable namespace has no give-backs; the next request that waits subscribes again.
          () => undefined,
        );
        return () => void stop.then((end) => end?.());
      },
      watchThresholds: (listener) => {
        listeners.add(listener);
        return () => listeners.delete(listener);
      },
      // An unreachable namespace has no thresholds.
      thresholdsTold: async () => {
        if (isListening) await (await scope()).buckets.thresholdsTold?.();
      },
    },
    config: {
      // Unknown until the namespace is: what is read by then is read again.
      generation: () => known?.config.generation(),
      askGeneration: async () => (await scope()).config.askGeneration?.(),
      ...waiting("config", "resolve", "history", "get", "set", "setPolicy", "delete"),
      ...waiting("config", "listForEntity", "listEntities", "listEntityResources", "listResources"),
    },
    entities: waiting("entities", "create", "get", "update", "delete", "children", "list"),
    plans: waiting("plans", "create", "get", "update", "delete", "list", "listEntities"),
    usage: waiting("usage", "query"),
    refusals: {
      // A store over a network keeps them as its configuration says.
      isKept: true,
      writeEveryMs: BILLED_WRITE_EVERY_MS,
      ...waiting("refusals", "write", "query"),
    },
    refusalLog: waiting("refusalLog", "write", "list"),
    callers: {
      isKept: true,
      writeEveryMs: BILLED_WRITE_EVERY_MS,
      write: async (...args) => ((await scope()).callers ?? UNKEPT).write(...args),
      query: async (...args) => ((await scope()).callers ?? UNKEPT).query(...args),
    },
    manifests: waiting("manifests", "setRun", "getRun", "enter", "strike", "list", "listConfigs"),
    leases: {
      // A store over a network has no transaction of a take.
      isWrittenByTake: false,
      ...waiting("leases", "create", "get", "move", "listOpen", "findDue", "beginKey", "renewKey", "releaseKey"),
    },
    audit: waiting("audit", "list"),
  };
}
