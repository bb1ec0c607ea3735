import { ValidationError } from "../../domain/names/errors.ts";
import type { PageRequest } from "../../domain/names/paging.ts";
import type { BucketStore, MaybePromise } from "../../ports/bucket-store.ts";
import type { ScopedStore } from "../../ports/store.ts";
import { type Returns, returnsOf } from "../lease/returns.ts";
import type { Lifecycle } from "../limiter/lifecycle.ts";
import type { EngineDeps } from "../limiter/settings.ts";
import { type OutageShare, outageShareOf, type ShareOptions } from "../outage/outage-share.ts";
import { type RefusalBooks, refusalBooksOf } from "../refusal/refusal-books.ts";
import { TurnBudget } from "./turn-budget.ts";

/** What is read of many buckets. */
type BucketLists = Pick<BucketStore, "listKeys" | "listByResource" | "read">;

/** What the engine works with: refused once the limiter closes, and by turns with other work of the process. */
export interface GuardedDeps extends EngineDeps {
  readonly bucketLists: BucketLists;
  /** Of the store itself, which other limiters may share. */
  readonly returns: Returns;
  /** Likewise. */
  readonly refusalBooks: RefusalBooks;
  /** Likewise: the buckets of a namespace that decide while the store does not answer. */
  readonly outageShare: (of: ShareOptions) => OutageShare;
}

/** Everything but the buckets, which leases go on using while bodies end: the acquirer decides about those. */
export function guardedDeps(given: EngineDeps, lifecycle: Lifecycle): GuardedDeps {
  // The types hide the constructor; plain JavaScript does not.
  if (typeof given?.store?.scope !== "function") {
    throw new ValidationError(
      "limiter_invalid",
      "RateLimiter cannot be created with new; use await RateLimiter.open({ store }).",
    );
  }
  const { store, scope, ...others } = given;
  // A store that is asked over a network lets others run by itself, and each part of a page would cost a round trip.
  const budget = scope.buckets.takeSync === undefined ? undefined : new TurnBudget(others.turns);
  const guard = <Port extends object>(port: Port): Port => guarded(port, lifecycle, budget);
  return {
    ...others,
    returns: returnsOf(store),
    refusalBooks: refusalBooksOf(store),
    outageShare: (of) => outageShareOf(store, of, others.calendar),
    store: {
      name: store.name,
      atomicBucketsMax: store.atomicBucketsMax,
      ...(store.tellsThresholds === undefined ? {} : { tellsThresholds: store.tellsThresholds }),
      namespaces: guard(store.namespaces),
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
      config: guard(scope.config),
      entities: guard(scope.entities),
      plans: guard(scope.plans),
      usage: guard(scope.usage),
      refusals: guard(scope.refusals),
      audit: guard(scope.audit),
      manifests: guard(scope.manifests),
      leases: guard(scope.leases),
    },
    bucketLists: bucketLists(scope, budget),
  };
}

function bucketLists({ buckets }: ScopedStore, budget: TurnBudget | undefined): BucketLists {
  if (budget === undefined) return buckets;
  return {
    listKeys: (owner, page) => budget.page(page, (part) => buckets.listKeys(owner, part)),
    listByResource: (resource, page) => budget.page(page, (part) => buckets.listByResource(resource, part)),
    read: (keys) => budget.all(keys, (part) => buckets.read(part)),
  };
}

/** How a method of a port takes its turn. Those that are not named do not wait for one: takes, and what they need to know. */
type Share = "page" | "read" | "write";

const SHARES: Readonly<Record<string, Share>> = {
  ...{ list: "page", listConfigs: "page", listEntities: "page", listEntityResources: "page", listForEntity: "page" },
  ...{ listOpen: "page", listOrphans: "page", listResources: "page", children: "page", query: "page" },
  ...{ get: "read", getRun: "read" },
  ...{ set: "write", setPolicy: "write", delete: "write", create: "write", update: "write" },
  ...{ setRun: "write", enter: "write", strike: "write", register: "write", recover: "write" },
};

/** The port, whose methods are refused once the limiter closes, and waited for until then. */
function guarded<Port extends object>(port: Port, lifecycle: Lifecycle, budget: TurnBudget | undefined): Port {
  const known = new Map<string | symbol, unknown>();
  return new Proxy(port, {
    get: (target, name) => {
      const guard = known.get(name);
      if (guard !== undefined) return guard;
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      const call = (args: unknown[]): MaybePromise<unknown> => value.apply(target, args);
      const share = budget === undefined || typeof name !== "string" ? undefined : SHARES[name];
      const shared = budget === undefined || share === undefined ? call : sharing(budget, share, call);
      const made = (...args: unknown[]) => {
        // What the engine asks in between, while an answer is on its way, it may go on asking.
        if (name !== "generation") lifecycle.requireOpen();
        return lifecycle.track(shared(args));
      };
      known.set(name, made);
      return made;
    },
  });
}

function sharing(
  budget: TurnBudget,
  share: Share,
  call: (args: unknown[]) => MaybePromise<unknown>,
): (args: unknown[]) => MaybePromise<unknown> {
  switch (share) {
    case "read":
      return (args) => budget.read(() => call(args));
    case "write":
      return (args) => budget.write(() => call(args));
    case "page":
      // The page is the last argument of every list.
      return (args) => {
        const page = args.at(-1) as PageRequest;
        return budget.page(page, (part) => call([...args.slice(0, -1), part]) as never);
      };
  }
}
