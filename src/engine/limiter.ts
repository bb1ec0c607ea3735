import type { Tokens } from "../domain/amounts.ts";
import type { Access } from "../domain/config.ts";
import type { Entity, EntityPatch, NewEntity } from "../domain/entity.ts";
import { RateLimitExceeded } from "../domain/errors.ts";
import { checkEntityId, checkNamespace } from "../domain/names.ts";
import type { Namespace } from "../domain/namespace.ts";
import type { RefusalCount, RefusalTotal } from "../domain/refusal-count.ts";
import type { UsageSnapshot, UsageSummary, UsageTotal } from "../domain/usage.ts";
import type { UsageFormat } from "../domain/usage-export.ts";
import { Acquirer } from "./acquirer.ts";
import { Administration } from "./administration.ts";
import type { Availability } from "./availability.ts";
import { type BucketListing, type BucketQuery, bucketsListed } from "./bucket-listing.ts";
import { type CloseOptions, drainOf } from "./close-options.ts";
import type { CacheStats } from "./config-cache.ts";
import { type NamedScope, scopeOfNamed } from "./deferred-scope.ts";
import { ensureEntity } from "./ensure-entity.ts";
import { type Explanation, explain } from "./explanation.ts";
import { type GuardedDeps, guardedDeps } from "./guarded-deps.ts";
import { Inspection, type ResourceCapacity, type UsageRequest } from "./inspection.ts";
import type { Lease } from "./lease.ts";
import type { ChangeOptions } from "./level-options.ts";
import { Lifecycle } from "./lifecycle.ts";
import { handOut } from "./limiter-parts.ts";
import { type Listing, type ListOptions, listing } from "./listing.ts";
import { Namespaces, type PurgeOptions } from "./namespaces.ts";
import type { Outcome } from "./outcome.ts";
import {
  type OperationResult,
  Policies,
  type Policy,
  type PolicyScope,
  type ResetRequest,
  type TopUpRequest,
} from "./policies.ts";
import type { Question } from "./question.ts";
import type { RefusalRequest, RefusalTotalsRequest } from "./refusal-counts.ts";
import type { AcquireRequest } from "./request.ts";
import { checkBody, runBody } from "./run-body.ts";
import type { EngineDeps, Settings } from "./settings.ts";
import { StoredLimits } from "./stored-limits.ts";
import { type AuditListing, auditListed, entitiesListed } from "./stored-lists.ts";
import { acquireWaiting } from "./waiting.ts";

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
    handOut(this, { deps, settings, admin, acquirer, on: (name, scope) => this.#on(name, scope) });
  }

  /** A limiter on another namespace of the same store; it must be registered. Closing it leaves the store open. */
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

  /** Takes the tokens, or throws `RateLimitExceeded` (or `RateLimiterUnavailable`). Prefer `withLease`. */
  async acquire<const Name extends string = string>(request: AcquireRequest<Name>): Promise<Lease<Name>> {
    const outcome = await this.#acquire(request);
    if (!outcome.ok) throw new RateLimitExceeded(outcome);
    return outcome.lease as Lease<Name>;
  }

  /** Takes the tokens, or returns the refusal. Only a refusal is a value; other errors are thrown as by `acquire`. */
  tryAcquire<const Name extends string = string>(request: AcquireRequest<Name>): Promise<Outcome<Name>> {
    return this.#acquire(request) as Promise<Outcome<Name>>;
  }

  /** `tryAcquire` without a promise, on stores that need none (memory, SQLite). It cannot wait. */
  tryAcquireSync<const Name extends string = string>(request: Omit<AcquireRequest<Name>, "wait">): Outcome<Name> {
    return this.#acquirer.attemptSync(request as AcquireRequest) as Outcome<Name>;
  }

  /**
   * Takes the tokens, runs the body, and keeps what was consumed when the body returns; gives everything back when it
   * throws. The body reconciles its estimate with `lease.adjust`. An abort reaches it as `lease.signal`; a body that returns
   * all the same has done its work, and is charged for it.
   */
  async withLease<Value, const Name extends string = string>(
    request: AcquireRequest<Name>,
    body: (lease: Lease<Name>) => Value | Promise<Value>,
  ): Promise<Value> {
    checkBody(body);
    this.#lifecycle.bodyBegins();
    try {
      const lease = await this.acquire(request);
      const notStored = (error: unknown) => this.#acquirer.notStored(request, error);
      return await runBody(lease, { body, signal: request.signal, notStored });
    } finally {
      this.#lifecycle.bodyEnds();
    }
  }

  /** What the entity and the parents it is charged to have left now, of every limit. */
  available(question: Question): Promise<Availability[]> {
    return this.#near(this.#inspect.available(question), question);
  }

  /** Milliseconds until the amounts fit at every level: 0 if they fit now, `Infinity` if they never will. */
  timeUntilAvailable(question: Question & { readonly consume?: Tokens }): Promise<number> {
    return this.#near(this.#inspect.timeUntilAvailable(question), question);
  }

  /** Which limits apply to an entity on a resource, where they come from, what is left, and whether a request fits. */
  explain(question: Question & { readonly consume?: Tokens }): Promise<Explanation> {
    return this.#near(explain(this.#acquirer, this.#deps, question), question);
  }

  // Policies

  /**
   * `disabled`: refused at once with `ResourceDisabled`. `bypass`: let through and counted, nothing debited. `enforce`: a
   * carve-out from a wider scope. `inherit`: ask the next scope (entity on resource, entity, resource).
   * Answers whether that was something new.
   */
  setAccess(where: PolicyScope, mode: Access | "inherit", options: ChangeOptions = {}): Promise<boolean> {
    return this.#policies.setAccess(where, mode, options);
  }

  /** Overrides whether parents are charged; same scopes as `setAccess`. */
  setCascade(where: PolicyScope, cascade: boolean | "inherit", options: ChangeOptions = {}): Promise<boolean> {
    return this.#policies.setCascade(where, cascade, options);
  }

  /** The access and cascade stored at exactly this scope; `explain` shows what applies. */
  getPolicy(where: PolicyScope): Promise<Policy> {
    return this.#policies.getPolicy(where);
  }

  /** Adds tokens. A quota keeps the whole amount until its next reset; a limit that refills gains at most up to its capacity. */
  topUp(request: TopUpRequest): Promise<OperationResult> {
    return this.#policies.topUp(request);
  }

  /** Fills a bucket and cancels its debt; a calendar quota starts a new period, a session window ends. */
  resetBucket(request: ResetRequest): Promise<OperationResult> {
    return this.#policies.resetBucket(request);
  }

  // Entities

  createEntity(entity: NewEntity, options: ChangeOptions = {}): Promise<Entity> {
    return this.#admin.createEntity(entity, options);
  }

  /** Creates the entity, or leaves an existing one unchanged; returns the stored entity. For use at program start. */
  async ensureEntity(entity: NewEntity, options: ChangeOptions = {}): Promise<Entity> {
    return (await ensureEntity(this.#admin, this.#deps, entity, options)).entity;
  }

  /** Throws `NotFoundError` when it was never created. */
  getEntity(id: string): Promise<Entity> {
    return this.#admin.getEntity(id);
  }

  /** Changes the fields in the patch. With `version`, only if that is still its version (else `ConflictError`). */
  updateEntity(id: string, patch: EntityPatch, options: { version?: number } & ChangeOptions = {}): Promise<Entity> {
    return this.#admin.updateEntity(id, patch, options);
  }

  /** Deletes the entity with its limits, buckets and usage; its audit log stays. Refused while it has children. */
  deleteEntity(id: string, options: ChangeOptions = {}): Promise<void> {
    return this.#admin.deleteEntity(id, options);
  }

  getChildren(id: string, options: ListOptions = {}): Listing<Entity> {
    checkEntityId(id);
    return listing((page) => this.#deps.scope.entities.children(id, page), options);
  }

  /** Lists all entities, or those of a plan. */
  listEntities(query: { readonly planId?: string } & ListOptions = {}): Listing<Entity> {
    return entitiesListed(this.#deps, query);
  }

  // Namespaces

  /** Creates a namespace, or returns the existing one. */
  registerNamespace(name: string, options: ChangeOptions = {}): Promise<Namespace> {
    return this.#namespaces.register(name, options);
  }

  listNamespaces(options: ListOptions = {}): Listing<Namespace> {
    return listing((page) => this.#deps.store.namespaces.list(page), options);
  }

  getNamespace(name: string): Promise<Namespace> {
    return this.#namespaces.get(name);
  }

  /** Deletes a namespace. Its data stays, and `recoverNamespace` restores it, until it is purged. */
  deleteNamespace(name: string, options: ChangeOptions = {}): Promise<Namespace> {
    return this.#namespaces.delete(name, options);
  }

  recoverNamespace(id: string, options: ChangeOptions = {}): Promise<Namespace> {
    return this.#namespaces.recover(id, options);
  }

  /** Lists deleted namespaces that still have data. */
  listOrphanNamespaces(options: ListOptions = {}): Listing<Namespace> {
    return listing((page) => this.#deps.store.namespaces.listOrphans(page), options);
  }

  /** Deletes the data of a deleted namespace permanently. Can be repeated if it was interrupted. */
  purgeNamespace(id: string, options: PurgeOptions = {}): Promise<{ readonly records: number }> {
    return this.#namespaces.purge(id, options);
  }

  // Looking back

  /** Changes of configuration, newest first. */
  auditEvents(query: { readonly entityId?: string } & ListOptions = {}): AuditListing {
    return auditListed(this.#deps, query);
  }

  /** Tokens consumed per window (UTC), oldest first. */
  usage(query: UsageRequest & ListOptions): Listing<UsageSnapshot> {
    return this.#inspect.usage(query);
  }

  /** Sums up usage of an entity, a resource or the whole namespace. */
  usageSummary(query: UsageRequest): Promise<UsageSummary> {
    return this.#inspect.usageSummary(query);
  }

  /** Sums up usage for each entity or each resource, sorted by name. */
  usageTotals(query: UsageRequest & { readonly by: "entity" | "resource" }): Promise<UsageTotal[]> {
    return this.#inspect.usageTotals(query);
  }

  /**
   * Usage as text for other programs, piece by piece, in constant memory however much there is: `"csv"` with a row a limit,
   * `"ndjson"` with a snapshot a line, or `"json"` as one document.
   */
  exportUsage(query: UsageRequest & { readonly format: UsageFormat }): AsyncIterable<string> {
    return this.#inspect.exportUsage(query);
  }

  /** Refused requests per window (UTC), oldest first: entity, resource, and the limit that refused. */
  refusals(query: RefusalRequest): Listing<RefusalCount> {
    return this.#acquirer.refusals.list(query);
  }

  /** Sums up refusals by entity, resource or limit, most refused first. */
  refusalTotals(query: RefusalTotalsRequest): Promise<RefusalTotal[]> {
    return this.#acquirer.refusals.totals(query);
  }

  /**
   * Buckets that were taken from, and what they hold now: of an entity, of a resource, of an entity on a resource, or all. A
   * bucket that nobody has taken from is full and not listed.
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

  cacheStats(): CacheStats {
    return this.#acquirer.configCache.stats();
  }

  /** Forgets remembered configuration and refusals. */
  invalidateCache(): void {
    this.#acquirer.configCache.clear();
    this.#acquirer.deny.clear();
  }

  /**
   * Refuses what is new, rejects at once what waits for tokens (both `closed`), and resolves when what is under way at the
   * store has been answered. With `drainMs` it waits up to so many ms before that for open `withLease` bodies to end, so
   * that their settlements are stored. A body that ends later keeps its value; what could not be stored is published on
   * `degraded`. A second call answers with the first.
   */
  async close(options: CloseOptions = {}): Promise<void> {
    const drainMs = drainOf(options);
    const closeStore = this.#ownsStore ? () => this.#given.store.close() : undefined;
    const lastWrites = () => this.#acquirer.refusals.close(this.#ownsStore ? "store" : "limiter");
    await this.#lifecycle.close({ drainMs, clock: this.#given.clock, lastWrites, closeStore });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #near<Answer>(answer: Promise<Answer>, asked: Question): Promise<Answer> {
    return answer.catch((error) => this.#acquirer.nearResources.rethrow(error, asked));
  }

  #acquire(request: AcquireRequest): Promise<Outcome> {
    if (request?.wait === undefined) return this.#acquirer.attempt(request, undefined);
    return acquireWaiting(this.#acquirer, this.#deps.clock, request);
  }
}
