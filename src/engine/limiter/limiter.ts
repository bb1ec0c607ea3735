import type { RefusalCount, RefusalTotal } from "../../domain/charge/refusal-count.ts";
import type { UsageSnapshot, UsageSummary, UsageTotal } from "../../domain/charge/usage.ts";
import type { UsageFormat } from "../../domain/charge/usage-export.ts";
import type { Access } from "../../domain/config/config.ts";
import type { Entity, EntityPatch, NewEntity } from "../../domain/config/entity.ts";
import type { Namespace } from "../../domain/config/namespace.ts";
import { checkEntityId, checkNamespace } from "../../domain/names/names.ts";
import { Acquirer } from "../acquire/acquirer.ts";
import type { CacheStats } from "../acquire/config-cache.ts";
import { ensureEntity } from "../acquire/ensure.ts";
import { type GuardedDeps, guardedDeps } from "../acquire/guarded-deps.ts";
import type { Outcome } from "../acquire/outcome.ts";
import {
  type OperationResult,
  Policies,
  type Policy,
  type PolicyScope,
  type ResetRequest,
  type TopUpRequest,
} from "../acquire/policies.ts";
import type { AcquireRequest } from "../acquire/request.ts";
import type { Lease } from "../lease/lease.ts";
import { checkBody, runBody } from "../lease/run-body.ts";
import { acquireWaiting } from "../outage/waiting.ts";
import type { RefusalRequest, RefusalTotalsRequest } from "../refusal/refusal-counts.ts";
import { exceededBy } from "../refusal/refused.ts";
import { Administration } from "./administration.ts";
import type { Availability } from "./availability.ts";
import { type BucketListing, type BucketQuery, bucketsListed } from "./bucket-listing.ts";
import { type CloseOptions, drainOf } from "./close-options.ts";
import { type NamedScope, scopeOfNamed } from "./deferred-scope.ts";
import { type Explanation, explain } from "./explanation.ts";
import { Inspection, type ResourceCapacity, type UsageRequest } from "./inspection.ts";
import type { ChangeOptions } from "./level-options.ts";
import { Lifecycle } from "./lifecycle.ts";
import { exposeParts } from "./limiter-parts.ts";
import { type Listing, type ListOptions, listing } from "./listing.ts";
import { Namespaces, type PurgeOptions } from "./namespaces.ts";
import type { Question, RequestQuestion } from "./question.ts";
import type { EngineDeps, Settings } from "./settings.ts";
import { StoredLimits } from "./stored-limits.ts";
import { type AuditListing, auditListed, entitiesListed } from "./stored-lists.ts";

/** A limiter on one namespace of a store. Open one with `RateLimiter.open()`. */
export class Limiter extends StoredLimits {
  readonly #given: EngineDeps;
  /** The same, closed with this limiter. */
  readonly #deps: GuardedDeps;
  readonly #settings: Settings;
  readonly #acquirer: Acquirer;
  readonly #admin: Administration;
  readonly #namespaces: Namespaces;
  readonly #inspect: Inspection;
  readonly #policies: Policies;
  readonly #lifecycle: Lifecycle;
  /** Limiters on other namespaces share the store of the one they came from, and leave it open. */
  readonly #ownsStore: boolean;

  /** @internal */
  constructor(given: EngineDeps, settings: Settings, ownsStore: boolean, parent?: Lifecycle) {
    const lifecycle = new Lifecycle(parent);
    const deps = guardedDeps(given, lifecycle);
    const acquirer = new Acquirer(deps, settings, lifecycle);
    const admin = new Administration(deps, settings, acquirer);
    super(deps, admin);
    this.#given = given;
    this.#deps = deps;
    this.#settings = settings;
    this.#lifecycle = lifecycle;
    this.#ownsStore = ownsStore;
    this.#acquirer = acquirer;
    this.#admin = admin;
    this.#namespaces = new Namespaces(deps, settings, this.#admin);
    this.#inspect = new Inspection(deps, this.#acquirer);
    this.#policies = new Policies(deps, this.#acquirer, this.#admin);
    exposeParts(this, { deps, settings, admin, acquirer, on: (name, scope) => this.#on(name, scope) });
  }

  /**
   * A limiter on another namespace of the same store. The namespace must be registered. Closing this limiter leaves
   * the store open.
   */
  namespace(name: string): this {
    checkNamespace(name);
    this.#lifecycle.requireOpen();
    return this.#on(name, scopeOfNamed(this.#given.store, name));
  }

  #on(name: string, { scoped, namespaceId }: NamedScope): this {
    const settings = { ...this.#settings, namespace: name, namespaceId };
    const make = this.constructor as new (...args: ConstructorParameters<typeof Limiter>) => this;
    return new make({ ...this.#given, scope: scoped }, settings, false, this.#lifecycle);
  }

  // Taking

  /** Takes the tokens and answers a lease, or throws `RateLimitExceeded`. Prefer `withLease`, which settles by itself. */
  async acquire<const Name extends string = string>(request: AcquireRequest<Name>): Promise<Lease<Name>> {
    const outcome = await this.#acquire(request);
    if (!outcome.ok) throw exceededBy(outcome);
    return outcome.lease as Lease<Name>;
  }

  /**
   * Takes the tokens, or answers why it cannot. A refusal is a value; all other errors are thrown, as `acquire` throws
   * them.
   */
  tryAcquire<const Name extends string = string>(request: AcquireRequest<Name>): Promise<Outcome<Name>> {
    return this.#acquire(request) as Promise<Outcome<Name>>;
  }

  /** `tryAcquire` without a promise, on memory and SQLite. It cannot wait; DynamoDB throws `sync_unsupported`. */
  tryAcquireSync<const Name extends string = string>(request: Omit<AcquireRequest<Name>, "wait">): Outcome<Name> {
    const acquirer = this.#acquirer;
    if (!acquirer.watch.isActive) return acquirer.attemptSync(request as AcquireRequest) as Outcome<Name>;
    return acquirer.watch.acquireSync(request, () => acquirer.attemptSync(request)) as Outcome<Name>;
  }

  /**
   * Takes the tokens and runs the function. When the function returns, its tokens stay taken; when it throws, they are
   * given back. The function corrects its estimate with `lease.adjust`. An abort reaches it as `lease.signal`; if it
   * returns all the same, its tokens stay taken. Slots are renewed while it runs, and given back when it ends.
   */
  async withLease<Value, const Name extends string = string>(
    request: AcquireRequest<Name>,
    body: (lease: Lease<Name>) => Value | Promise<Value>,
  ): Promise<Value> {
    checkBody(body);
    this.#lifecycle.bodyBegins();
    try {
      const lease = await this.acquire(request);
      lease.keep();
      const notStored = (error: unknown) => this.#acquirer.notStored(request, error);
      return await runBody(lease, { body, signal: request.signal, notStored });
    } finally {
      this.#lifecycle.bodyEnds();
    }
  }

  /** What each limit of the entity, and of the parents that are charged with it, holds now. */
  available(question: Question): Promise<Availability[]> {
    return this.#near(this.#inspect.available(question), question);
  }

  /** Milliseconds until the amounts fit at every level: 0 if they fit now, `Infinity` if they never will or it is disabled. */
  timeUntilAvailable(question: RequestQuestion): Promise<number> {
    return this.#near(this.#inspect.timeUntilAvailable(question), question);
  }

  /** Which limits apply to an entity on a resource, where they come from, what they hold, and what a request would get. */
  explain(question: RequestQuestion): Promise<Explanation> {
    return this.#near(explain(this.#acquirer, this.#deps, question), question);
  }

  // Policies

  /**
   * Switches an entity or a resource off or on. `disabled`: requests are refused with `ResourceDisabled`. `bypass`:
   * requests pass and are counted, and nothing is debited. `enforce`: the limits apply, also where a wider scope says
   * otherwise. `inherit`: the next scope decides (entity on resource, then entity, then resource). Answers whether
   * anything changed.
   */
  setAccess(where: PolicyScope, mode: Access | "inherit", options: ChangeOptions = {}): Promise<boolean> {
    return this.#policies.setAccess(where, mode, options);
  }

  /**
   * Sets whether parents are charged, in place of the entity's own `cascade`; the scopes are those of `setAccess`.
   * Answers whether anything changed.
   */
  setCascade(where: PolicyScope, cascade: boolean | "inherit", options: ChangeOptions = {}): Promise<boolean> {
    return this.#policies.setCascade(where, cascade, options);
  }

  /** The access and the cascading that are set at exactly this scope. `explain` shows which ones apply in the end. */
  getPolicy(where: PolicyScope): Promise<Policy> {
    return this.#policies.getPolicy(where);
  }

  /**
   * Adds tokens. A quota gains exactly the amounts until its next reset; a limit that drips gains at most the room
   * below its capacity. Slots cannot be added (`top_up_concurrent`).
   */
  topUp(request: TopUpRequest): Promise<OperationResult> {
    return this.#policies.topUp(request);
  }

  /**
   * Fills the bucket and forgives its debt. A calendar quota begins a new period, a session window ends. Slots that are held are forgotten
   * only where `limits` names their limit: what they are held for still runs.
   */
  resetBucket(request: ResetRequest): Promise<OperationResult> {
    return this.#policies.resetBucket(request);
  }

  // Entities

  /** Creates an entity. Throws `entity_exists` if there is one of that id. */
  createEntity(entity: NewEntity, options: ChangeOptions = {}): Promise<Entity> {
    return this.#admin.createEntity(entity, options);
  }

  /**
   * Creates the entity if there is none of that id, and answers the stored one. An entity that exists is not changed.
   * For programs that start again.
   */
  async ensureEntity(entity: NewEntity, options: ChangeOptions = {}): Promise<Entity> {
    return (await ensureEntity({ admin: this.#admin, deps: this.#deps }, entity, options)).item;
  }

  /** The entity of that id. Throws `entity_not_found` if it was never created. */
  getEntity(id: string): Promise<Entity> {
    return this.#admin.getEntity(id);
  }

  /**
   * Changes the fields that the patch names. With `version` it throws `entity_changed` if the entity has another
   * version by now.
   */
  updateEntity(id: string, patch: EntityPatch, options: { version?: number } & ChangeOptions = {}): Promise<Entity> {
    return this.#admin.updateEntity(id, patch, options);
  }

  /**
   * Deletes the entity with its limits, buckets and usage; its audit events stay. Throws `entity_has_children` while
   * it has children.
   */
  deleteEntity(id: string, options: ChangeOptions = {}): Promise<void> {
    return this.#admin.deleteEntity(id, options);
  }

  /** The entities whose parent it is. */
  getChildren(id: string, options: ListOptions = {}): Listing<Entity> {
    checkEntityId(id);
    return listing((page) => this.#deps.scope.entities.children(id, page), options);
  }

  /** All entities of the namespace, or those of one plan. */
  listEntities(query: { readonly planId?: string } & ListOptions = {}): Listing<Entity> {
    return entitiesListed(this.#deps, query);
  }

  // Namespaces

  /** Creates a namespace, or answers the one of that name. */
  registerNamespace(name: string, options: ChangeOptions = {}): Promise<Namespace> {
    return this.#namespaces.register(name, options);
  }

  /** The namespaces that are in use. */
  listNamespaces(options: ListOptions = {}): Listing<Namespace> {
    return listing((page) => this.#deps.store.namespaces.list(page), options);
  }

  /** The namespace of that name. Throws `namespace_not_found` if there is none. */
  getNamespace(name: string): Promise<Namespace> {
    return this.#namespaces.get(name);
  }

  /** Hides a namespace. Its data stays until `purgeNamespace`; `recoverNamespace` brings it back. */
  deleteNamespace(name: string, options: ChangeOptions = {}): Promise<Namespace> {
    return this.#namespaces.delete(name, options);
  }

  /** Brings a deleted namespace back, by its id. Throws `namespace_name_taken` if its name is in use again. */
  recoverNamespace(id: string, options: ChangeOptions = {}): Promise<Namespace> {
    return this.#namespaces.recover(id, options);
  }

  /** Deleted namespaces whose data is still stored. */
  listOrphanNamespaces(options: ListOptions = {}): Listing<Namespace> {
    return listing((page) => this.#deps.store.namespaces.listOrphans(page), options);
  }

  /** Removes the data of a deleted namespace for good. It can be run again if it was interrupted. */
  purgeNamespace(id: string, options: PurgeOptions = {}): Promise<{ readonly records: number }> {
    return this.#namespaces.purge(id, options);
  }

  // Looking back

  /** Changes of the configuration, newest first: of one entity, or of the namespace. */
  auditEvents(query: { readonly entityId?: string } & ListOptions = {}): AuditListing {
    return auditListed(this.#deps, query);
  }

  /** Tokens that were used, by window (UTC), oldest first. */
  usage(query: UsageRequest & ListOptions): Listing<UsageSnapshot> {
    return this.#inspect.usage(query);
  }

  /** Usage added up over all windows, of an entity, a resource or the whole namespace. */
  usageSummary(query: UsageRequest): Promise<UsageSummary> {
    return this.#inspect.usageSummary(query);
  }

  /** Usage added up for each entity or each resource, in the order of their names. */
  usageTotals(query: UsageRequest & { readonly by: "entity" | "resource" }): Promise<UsageTotal[]> {
    return this.#inspect.usageTotals(query);
  }

  /**
   * Usage as text, piece by piece, in constant memory: `"csv"` with a row for each limit, `"ndjson"` with a snapshot
   * on each line, or `"json"` as one document.
   */
  exportUsage(query: UsageRequest & { readonly format: UsageFormat }): AsyncIterable<string> {
    return this.#inspect.exportUsage(query);
  }

  /** How many requests were refused, by window (UTC), oldest first: who asked, for what, and which limit refused. */
  refusals(query: RefusalRequest): Listing<RefusalCount> {
    return this.#acquirer.refusals.list(query);
  }

  /** Refusals added up by entity, by resource or by limit, the most refused first. */
  refusalTotals(query: RefusalTotalsRequest): Promise<RefusalTotal[]> {
    return this.#acquirer.refusals.totals(query);
  }

  /**
   * Buckets and what they hold now: of an entity, of a resource, of an entity on a resource, or all. A bucket from
   * which nothing was taken is full and not listed.
   */
  listBuckets(query: BucketQuery & ListOptions = {}): Listing<BucketListing> {
    return bucketsListed(this.#deps, query);
  }

  /** What all entities together have left of one limit on a resource. */
  resourceCapacity(resource: string, limitName: string): Promise<ResourceCapacity> {
    return this.#inspect.resourceCapacity(resource, limitName);
  }

  /** Whether the store responds. Never throws. */
  isAvailable(): Promise<boolean> {
    return this.#inspect.isAvailable();
  }

  /** How many entities the limiter remembers the limits of, and how often that spared a read. */
  cacheStats(): CacheStats {
    return this.#acquirer.configCache.stats();
  }

  /** Forgets remembered limits and refusals, so that the next request reads them from the store. */
  invalidateCache(): void {
    this.#acquirer.configCache.clear();
    this.#acquirer.deny.clear();
  }

  /**
   * Closes the limiter. New calls, and requests that wait for tokens, throw `closed`. The promise resolves once the
   * store has answered all calls that are under way. With `drainMs` the limiter first waits that long for open
   * `withLease` functions, so that their settlements are stored. A function that ends later keeps its value;
   * settlements that could not be stored are published on the channel `degraded`. A second call answers with the
   * first.
   */
  async close(options: CloseOptions = {}): Promise<void> {
    const drainMs = drainOf(options);
    const closeStore = this.#ownsStore ? () => this.#given.store.close() : undefined;
    const lastWrites = async () => {
      // A mark that is stored after this limiter has closed would be told by nobody.
      await this.#given.scope.buckets.thresholdsTold?.();
      await this.#acquirer.refusals.close(this.#ownsStore ? "store" : "limiter");
    };
    await this.#lifecycle.close({ drainMs, clock: this.#given.clock, lastWrites, closeStore });
  }

  /** Closes the limiter at the end of the block: `await using limiter = await RateLimiter.open()`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #near<Answer>(answer: Promise<Answer>, asked: Question): Promise<Answer> {
    return answer.catch((error) => this.#acquirer.nearResources.rethrow(error, asked));
  }

  #acquire(request: AcquireRequest): Promise<Outcome> {
    if (this.#acquirer.watch.isActive) return this.#acquirer.watch.acquire(request, () => this.#attempt(request));
    return this.#attempt(request);
  }

  #attempt(request: AcquireRequest): Promise<Outcome> {
    if (request?.wait === undefined) return this.#acquirer.attempt(request, undefined);
    return acquireWaiting(this.#acquirer, this.#deps.clock, request);
  }
}
