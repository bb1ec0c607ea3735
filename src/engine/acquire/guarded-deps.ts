import { ValidationError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { BucketStore, MaybePromise, Returned } from "../../ports/bucket-store.ts";
import type { ScopedStore, Store } from "../../ports/store.ts";
import type { Turns } from "../../ports/system.ts";
import { Books } from "../book/book.ts";
import type { Lifecycle } from "../limiter/lifecycle.ts";
import type { EngineDeps } from "../limiter/settings.ts";
import type { OutageShare } from "../outage/outage-share.ts";
import { RefusalBook } from "../refusal/refusal-book.ts";
import { CallerBook, UNKEPT } from "../usage/caller-book.ts";

/** A give-back, with its namespace: bucket names repeat across namespaces. */
interface ReturnedIn {
  readonly namespace: string;
  readonly returned: Returned;
}

/**
 * Tells limiters with waiting requests of give-backs to the buckets of a store, by any limiter of this process on the same store
 * object.
 */
export class Returns {
  readonly #listeners = new Set<(one: ReturnedIn) => void>();

  /** Returns a function that stops listening. A limiter listens only while requests wait, so that it can be garbage-collected. */
  listen(listener: (one: ReturnedIn) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  tell(one: ReturnedIn): void {
    if (this.#listeners.size === 0) return;
    for (const listener of [...this.#listeners]) listener(one);
  }
}

/** Everything that the limiters of this process share on one store object. */
interface SharedOnStore {
  readonly returns: Returns;
  readonly refusalBooks: Books<RefusalBook>;
  readonly callerBooks: Books<CallerBook>;
  /** The buckets that decide while the store does not answer, by namespace and share. */
  readonly outageShares: Map<string, OutageShare>;
}

const SHARED = new WeakMap<Store, SharedOnStore>();

function sharedOn(store: Store): SharedOnStore {
  const known = SHARED.get(store);
  if (known !== undefined) return known;
  const refusalBooks = new Books(store, (scope, random) => new RefusalBook(scope, random));
  const callerBooks = new Books(store, ({ callers = UNKEPT }, random) => new CallerBook(callers, random));
  const made = { returns: new Returns(), refusalBooks, callerBooks, outageShares: new Map() };
  SHARED.set(store, made);
  return made;
}

/** Rows read in one turn: about ten microseconds each, so a few milliseconds. */
const ROWS_PER_TURN = 128;

/**
 * Bounds the work per turn on a store that answers synchronously. Such a store never yields the thread: a walk over all its rows
 * would block timers, sockets and signals. So a long page is read in parts, and once enough was read, or something was written,
 * the next call waits for the next turn. Rows that are written between two parts may be shown or not, as between two pages.
 */
class TurnBudget {
  readonly #turns: Turns;
  #spent = 0;

  constructor(turns: Turns) {
    this.#turns = turns;
  }

  read<Reply>(call: () => MaybePromise<Reply>): MaybePromise<Reply> {
    return this.#call(1, call);
  }

  /** A write uses up the turn, so that a signal to stop is noticed after it. */
  write<Reply>(call: () => MaybePromise<Reply>): MaybePromise<Reply> {
    return this.#call(ROWS_PER_TURN, call);
  }

  page<Item>(request: PageRequest, read: (part: PageRequest) => MaybePromise<Page<Item>>): MaybePromise<Page<Item>> {
    if (this.#spent + request.limit > ROWS_PER_TURN) return this.#inParts(request, read, []);
    const page = read(request);
    if (page instanceof Promise) return page;
    this.#spent += costOf(page, request.limit);
    // A store may stop before the page is full, lest it looks at too much in one go.
    if (page.cursor === undefined || page.items.length >= request.limit) return page;
    return request.mayBeShort ? page : this.#inParts({ ...request, cursor: page.cursor }, read, page.items);
  }

  /** Reads a list of keys, in their order. */
  async all<Key, Found>(
    keys: readonly Key[],
    read: (part: readonly Key[]) => MaybePromise<readonly Found[]>,
  ): Promise<readonly Found[]> {
    const found: Found[] = [];
    while (found.length < keys.length) {
      const room = await this.#room();
      const part = keys.slice(found.length, found.length + room);
      this.#spent += part.length;
      for (const one of await read(part)) found.push(one);
    }
    return found;
  }

  #call<Reply>(cost: number, call: () => MaybePromise<Reply>): MaybePromise<Reply> {
    if (this.#spent >= ROWS_PER_TURN) return this.#later(cost, call);
    this.#spent += cost;
    return call();
  }

  async #later<Reply>(cost: number, call: () => MaybePromise<Reply>): Promise<Reply> {
    await this.#room();
    this.#spent += cost;
    return await call();
  }

  async #inParts<Item>(
    { limit, cursor, mayBeShort }: PageRequest,
    read: (part: PageRequest) => MaybePromise<Page<Item>>,
    first: readonly Item[],
  ): Promise<Page<Item>> {
    const items = [...first];
    for (let at = cursor; ; ) {
      const part = Math.min(limit - items.length, await this.#room());
      const page = await read({ limit: part, ...given({ cursor: at }) });
      this.#spent += costOf(page, part);
      for (const item of page.items) items.push(item);
      at = page.cursor;
      if (at === undefined) return { items };
      if (mayBeShort || items.length >= limit) return { items, cursor: at };
    }
  }

  /** The rows that may still be read in this turn; waits for the next turn if there are none. */
  async #room(): Promise<number> {
    if (this.#spent >= ROWS_PER_TURN) {
      await this.#turns.next();
      this.#spent = 0;
    }
    return ROWS_PER_TURN - this.#spent;
  }
}

/** A page that is not full although more rows follow has skipped many rows. */
function costOf({ items, cursor }: Page<unknown>, limit: number): number {
  return cursor !== undefined && items.length < limit ? ROWS_PER_TURN : 1 + items.length;
}

/** Reads of many buckets. */
type BucketLists = Pick<BucketStore, "listKeys" | "listByResource" | "read">;

/** The dependencies of the engine. Calls are refused once the limiter closes, and take turns with other work of the process. */
export interface GuardedDeps extends EngineDeps, SharedOnStore {
  readonly bucketLists: BucketLists;
}

/** Guards everything but the buckets: open leases go on using those while the limiter closes, and the acquirer checks. */
export function guardedDeps(from: EngineDeps, lifecycle: Lifecycle): GuardedDeps {
  // The types hide the constructor; plain JavaScript does not.
  if (typeof from?.store?.scope !== "function") {
    throw new ValidationError(
      "limiter_invalid",
      "RateLimiter cannot be created with new; use await RateLimiter.open({ store }).",
    );
  }
  const { store, scope, ...others } = from;
  // A store over a network yields by itself, and each part of a page would cost a round trip.
  const budget = scope.buckets.takeSync === undefined ? undefined : new TurnBudget(others.turns);
  const guard = <Port extends object>(port: Port): Port => guarded(port, lifecycle, budget);
  return {
    ...others,
    ...sharedOn(store),
    store: {
      name: store.name,
      atomicBucketsMax: store.atomicBucketsMax,
      ...given({ tellsThresholds: store.tellsThresholds }),
      namespaces: guard(store.namespaces),
      scope: (namespaceId) => store.scope(namespaceId),
      ping: () => {
        lifecycle.requireOpen();
        return store.ping();
      },
      close: () => store.close(),
      ...given({ onBackgroundFault: store.onBackgroundFault?.bind(store) }),
    },
    scope: {
      buckets: scope.buckets,
      config: guard(scope.config),
      entities: guard(scope.entities),
      plans: guard(scope.plans),
      usage: guard(scope.usage),
      refusals: guard(scope.refusals),
      refusalLog: guard(scope.refusalLog),
      ...given({ callers: scope.callers && guard(scope.callers) }),
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

/** The cost of a port's method in the turn budget. Methods that are not named are free: takes, and what they need. */
type Share = "page" | "read" | "write";

const SHARES: Readonly<Record<string, Share>> = {
  ...{ list: "page", listConfigs: "page", listEntities: "page", listEntityResources: "page", listForEntity: "page" },
  ...{ listOpen: "page", listOrphans: "page", listResources: "page", children: "page", query: "page" },
  ...{ get: "read", getRun: "read" },
  ...{ set: "write", setPolicy: "write", delete: "write", create: "write", update: "write" },
  ...{ setRun: "write", enter: "write", strike: "write", register: "write", recover: "write" },
};

/** Wraps a port: methods throw once the limiter closes, and closing waits for calls under way. */
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
        // The engine may still ask for the generation, and what changed since, while it waits for an answer.
        if (name !== "generation" && name !== "isUnchanged") lifecycle.requireOpen();
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
