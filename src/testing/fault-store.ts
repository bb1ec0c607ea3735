import { RateLimiterUnavailable } from "../domain/names/errors.ts";
import type {
  Answer,
  BucketStore,
  BucketsMaybeInPlace,
  Claim,
  MaybePromise,
  TakeContext,
  TakeReply,
  WriteReply,
} from "../ports/bucket-store.ts";
import type { ConfigStore, NamespaceStore } from "../ports/config-store.ts";
import type { ChangeReply, LeaseReply, LeaseStore } from "../ports/lease-store.ts";
import type { BackgroundFault, ScopedStore, Store } from "../ports/store.ts";
import type { SeededRandom } from "./random.ts";

/**
 * Kinds of calls: `resolve` reads limits, `look` reads anything else, `change` writes configuration, `lease` and `key` write
 * stored leases and idempotency keys, `count` writes how many requests were refused.
 */
export type FaultedCall =
  | "take"
  | "debit"
  | "credit"
  | "renew"
  | "resolve"
  | "look"
  | "change"
  | "lease"
  | "key"
  | "count";

/**
 * What goes wrong with a call.
 * - `refused`: nothing was applied, and the answer says so.
 * - `lostBefore`: nothing was applied, but the caller cannot know.
 * - `lostAfter`: it was applied, and the answer was lost.
 */
export type Fault = "refused" | "lostBefore" | "lostAfter";

/** Which faults happen, and when. */
export interface FaultOptions {
  /** The source of chance for `rates`. Default: none. */
  readonly random?: SeededRandom;
  /** How likely a fault is for each kind of call, from 0 to 1. Default: only faults that `failNext` orders. */
  readonly rates?: Partial<Record<FaultedCall, number>>;
  /**
   * Whether the claims of a call are taken one by one, as by a store without transactions over buckets. Default:
   * `false`.
   */
  readonly split?: boolean;
  /** Whether the store hides the generation of its configuration. Default: as `split`. */
  readonly generationHidden?: boolean;
  /**
   * Awaited before a call reaches the store, and again before its answer comes back. Other calls can run meanwhile.
   * Default: no pause.
   */
  readonly pause?: (call: FaultedCall, before: "applying" | "answering") => Promise<void>;
  /** Called with every fault. Default: nothing is called. */
  readonly onFault?: (call: FaultedCall, fault: Fault) => void;
}

/**
 * A store behind a bad line. By seed, or when told with `failNext`, calls fail before or after they were applied; `crash`
 * stops the client that uses it between two calls.
 *
 * ```ts
 * const faulty = new FaultStore(openMemory(), {});
 * faulty.failNext("credit", "lostAfter");
 * const limiter = await RateLimiter.open({ store: faulty });
 * ```
 */
export class FaultStore implements Store {
  readonly name: string;
  readonly atomicBucketsMax: number;
  readonly tellsThresholds?: true;
  readonly namespaces: NamespaceStore;
  readonly #inner: Store;
  readonly #options: FaultOptions;
  readonly #ordered: Order[] = [];
  #crashed = false;

  constructor(inner: Store, options: FaultOptions) {
    this.name = `faulty ${inner.name}`;
    this.atomicBucketsMax = inner.atomicBucketsMax;
    if (inner.tellsThresholds === true) this.tellsThresholds = true;
    this.#inner = inner;
    this.#options = options;
    this.namespaces = this.#namespacesOf(inner.namespaces);
  }

  /** The next call of this kind fails in this way, after `passing` others of the kind. */
  failNext(call: FaultedCall, fault: Fault, passing = 0): void {
    this.#ordered.push({ call, fault, passing });
  }

  /** Stops the client: none of its further calls reaches the store, and none of its open calls is answered. */
  crash(): void {
    this.#crashed = true;
  }

  scope(namespaceId: string): ScopedStore {
    const inner = this.#inner.scope(namespaceId);
    const { entities, plans, usage, refusals, refusalLog, callers, audit, manifests } = inner;
    return {
      buckets: this.#bucketsOf(inner.buckets),
      config: this.#configOf(inner.config),
      entities: {
        ...this.#plainCalls("look", entities, ["get", "children", "list"]),
        ...this.#plainCalls("change", entities, ["create", "update", "delete"]),
      },
      plans: {
        ...this.#plainCalls("look", plans, ["get", "list", "listEntities"]),
        ...this.#plainCalls("change", plans, ["create", "update", "delete"]),
      },
      usage: this.#plainCalls("look", usage, ["query"]),
      refusals: {
        isKept: refusals.isKept,
        writeEveryMs: refusals.writeEveryMs,
        ...this.#plainCalls("count", refusals, ["write"]),
        ...this.#plainCalls("look", refusals, ["query"]),
      },
      refusalLog: {
        ...this.#plainCalls("count", refusalLog, ["write"]),
        ...this.#plainCalls("look", refusalLog, ["list"]),
      },
      ...(callers && {
        callers: {
          isKept: callers.isKept,
          writeEveryMs: callers.writeEveryMs,
          ...this.#plainCalls("count", callers, ["write"]),
          ...this.#plainCalls("look", callers, ["query"]),
        },
      }),
      audit: this.#plainCalls("look", audit, ["list"]),
      manifests: {
        ...this.#plainCalls("look", manifests, ["getRun", "list", "listConfigs"]),
        ...this.#plainCalls("change", manifests, ["setRun", "enter", "strike"]),
      },
      leases: this.#leasesOf(inner.leases),
    };
  }

  onBackgroundFault(namespaceId: string, listener: (fault: BackgroundFault) => void): () => void {
    return this.#inner.onBackgroundFault?.(namespaceId, listener) ?? (() => {});
  }

  ping(): MaybePromise<void> {
    return this.#plain("look", () => this.#inner.ping());
  }

  close(): MaybePromise<void> {
    return this.#inner.close();
  }

  #bucketsOf(inner: BucketsMaybeInPlace): BucketsMaybeInPlace {
    const { split = false, pause } = this.#options;
    const takeSync = inner.takeSync?.bind(inner);
    const takeOne = inner.takeOne?.bind(inner);
    return {
      take: (claims, context) => (split ? this.#takeEach(inner, claims, context) : this.#take(inner, claims, context)),
      ...(takeSync === undefined || split || pause !== undefined
        ? {}
        : {
            takeSync: (claims, context) =>
              this.#call("take", () => takeSync(claims, context), unavailableFor(claims)) as TakeReply,
          }),
      ...(takeOne === undefined || split || pause !== undefined
        ? {}
        : {
            // A fault that may be due is met by the slower path.
            takeOne: (...args) => (this.#crashed || this.#mayFail("take") ? undefined : takeOne(...args)),
          }),
      debit: (...args) => this.#call("debit", () => inner.debit(...args), notWritten),
      credit: (...args) => this.#call("credit", () => inner.credit(...args), notWritten),
      refund: (...args) => this.#call("credit", () => inner.refund(...args), notWritten),
      renew: (...args) =>
        this.#call(
          "renew",
          () => inner.renew(...args),
          (_, cause) => ({ kind: "unavailable", cause }),
        ),
      ...this.#plainCalls("change", inner, ["topUp", "reset"]),
      ...this.#plainCalls("look", inner, ["read", "listKeys", "listByResource"]),
      ...this.#telling(inner),
    };
  }

  /** A client that was stopped gets no more events. */
  #telling(inner: BucketStore): Pick<BucketStore, "watchThresholds" | "thresholdsTold"> {
    const watch = inner.watchThresholds?.bind(inner);
    if (watch === undefined) return {};
    return {
      watchThresholds: (listener) => watch((crossed) => (this.#crashed ? undefined : listener(crossed))),
      thresholdsTold: async () => inner.thresholdsTold?.(),
    };
  }

  #take(inner: BucketStore, claims: readonly Claim[], context: TakeContext): MaybePromise<TakeReply> {
    return this.#call("take", () => inner.take(claims, context), unavailableFor(claims));
  }

  async #takeEach(inner: BucketStore, claims: readonly Claim[], context: TakeContext): Promise<TakeReply> {
    // Claims that are sent one by one cannot be aborted together: every claim is answered, also if the request is aborted.
    const { signal: _, ...sent } = context;
    const each = { ...sent, generation: undefined, lease: undefined };
    const replies = await Promise.all(claims.map((claim) => this.#take(inner, [claim], each)));
    return replies.flatMap((reply) => reply as readonly Answer[]);
  }

  #configOf(inner: ConfigStore): ConfigStore {
    const { split = false, generationHidden = split, pause } = this.#options;
    const resolveSync = inner.resolveSync?.bind(inner);
    const askGeneration = inner.askGeneration?.bind(inner);
    const isUnchanged = generationHidden ? undefined : inner.isUnchanged?.bind(inner);
    return {
      generation: () => (generationHidden ? undefined : inner.generation()),
      ...(isUnchanged === undefined ? {} : { isUnchanged }),
      ...(askGeneration === undefined ? {} : { askGeneration: () => this.#plain("look", askGeneration) }),
      ...this.#plainCalls("resolve", inner, ["resolve"]),
      ...(resolveSync === undefined || pause !== undefined
        ? {}
        : {
            resolveSync: (entityId, resource) =>
              this.#plain("resolve", () => resolveSync(entityId, resource)) as ReturnType<typeof resolveSync>,
          }),
      ...this.#plainCalls("change", inner, ["set", "setPolicy", "delete"]),
      ...this.#plainCalls("look", inner, [
        "get",
        "history",
        "listForEntity",
        "listEntities",
        "listEntityResources",
        "listResources",
      ]),
    };
  }

  #leasesOf(inner: LeaseStore): LeaseStore {
    const write = (apply: () => MaybePromise<LeaseReply>) => this.#call<LeaseReply>("lease", apply, notWritten);
    const { split = false } = this.#options;
    const change = inner.change?.bind(inner);
    return {
      isWrittenByTake: inner.isWrittenByTake && !split,
      ...(change === undefined || split
        ? {}
        : { change: (...args) => this.#call<ChangeReply>("lease", () => change(...args), notWritten) }),
      create: (...args) => write(() => inner.create(...args)),
      move: (...args) => write(() => inner.move(...args)),
      ...this.#plainCalls("look", inner, ["get", "listOpen", "findDue"]),
      ...this.#plainCalls("key", inner, ["beginKey", "renewKey", "releaseKey"]),
    };
  }

  #namespacesOf(inner: NamespaceStore): NamespaceStore {
    return {
      ...this.#plainCalls("look", inner, ["get", "list", "listOrphans", "withDueLeases", "nothingDue"]),
      ...this.#plainCalls("change", inner, ["register", "delete", "recover", "beginCopy", "endCopy", "purge"]),
    };
  }

  /** Methods of a port that are calls of one kind. */
  #plainCalls<Port, const Name extends keyof Port>(
    call: FaultedCall,
    inner: Port,
    names: readonly Name[],
  ): Pick<Port, Name> {
    type Method = (...args: unknown[]) => MaybePromise<unknown>;
    const methods = names.map((name) => {
      const method = (inner[name] as Method).bind(inner);
      return [name, (...args: unknown[]) => this.#plain(call, () => method(...args))] as const;
    });
    return Object.fromEntries(methods) as Pick<Port, Name>;
  }

  /** A call that has no answer for an outage: it throws. */
  #plain<Reply>(call: FaultedCall, apply: () => MaybePromise<Reply>): MaybePromise<Reply> {
    return this.#call(call, apply, (_applied, cause) => {
      throw new RateLimiterUnavailable(`The store did not answer (${call}).`, { cause });
    });
  }

  #call<Reply>(call: FaultedCall, apply: () => MaybePromise<Reply>, failed: Failed<Reply>): MaybePromise<Reply> {
    if (this.#crashed) return never();
    const { pause } = this.#options;
    if (pause === undefined) return this.#applied(call, apply, failed);
    return this.#paused(call, apply, failed, pause);
  }

  async #paused<Reply>(
    call: FaultedCall,
    apply: () => MaybePromise<Reply>,
    failed: Failed<Reply>,
    pause: NonNullable<FaultOptions["pause"]>,
  ): Promise<Reply> {
    await pause(call, "applying");
    if (this.#crashed) return never();
    const applied = await settled(() => this.#applied(call, apply, failed));
    await pause(call, "answering");
    if (this.#crashed) return never();
    return applied();
  }

  #applied<Reply>(call: FaultedCall, apply: () => MaybePromise<Reply>, failed: Failed<Reply>): MaybePromise<Reply> {
    const fault = this.#drawn(call);
    if (fault === undefined) return apply();
    this.#options.onFault?.(call, fault);
    const cause = new Error(`simulated fault: ${call} ${fault}`);
    if (fault === "refused") return failed("no", cause);
    if (fault === "lostBefore") return failed("unknown", cause);
    const reply = apply();
    return reply instanceof Promise ? reply.then(() => failed("unknown", cause)) : failed("unknown", cause);
  }

  #mayFail(call: FaultedCall): boolean {
    return (this.#options.rates?.[call] ?? 0) > 0 || this.#ordered.some((order) => order.call === call);
  }

  #drawn(call: FaultedCall): Fault | undefined {
    const index = this.#ordered.findIndex((order) => order.call === call);
    const order = this.#ordered[index];
    if (order !== undefined && order.passing-- <= 0) {
      this.#ordered.splice(index, 1);
      return order.fault;
    }
    const { random, rates } = this.#options;
    const rate = rates?.[call] ?? 0;
    if (random === undefined || rate === 0 || !random.chance(rate)) return undefined;
    return random.pick(["refused", "lostBefore", "lostAfter"]);
  }
}

interface Order {
  readonly call: FaultedCall;
  readonly fault: Fault;
  passing: number;
}

type Failed<Reply> = (applied: "no" | "unknown", cause: unknown) => Reply;

/** The answer to a client that is gone. It is a new promise each time, so that what waits for it can be collected with it. */
function never(): Promise<never> {
  return new Promise(() => {});
}

function unavailableFor(claims: readonly Claim[]): Failed<TakeReply> {
  return (_applied, cause) => claims.map(() => ({ kind: "unavailable", cause }));
}

function notWritten(applied: "no" | "unknown", cause: unknown): Extract<WriteReply, { kind: "unavailable" }> {
  return { kind: "unavailable", applied, cause };
}

/** The outcome of a call, kept until its answer is due. */
async function settled<Reply>(work: () => MaybePromise<Reply>): Promise<() => Reply> {
  try {
    const reply = await work();
    return () => reply;
  } catch (error) {
    return () => {
      throw error;
    };
  }
}

/** The port with some of its methods replaced; the others are called as they are. */
export function overriding<Port extends object>(port: Port, overrides: Partial<Port>): Port {
  return new Proxy(port, {
    get: (target, name) => {
      if (Object.hasOwn(overrides, name)) return Reflect.get(overrides, name);
      const value: unknown = Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
