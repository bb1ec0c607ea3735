import type { Access } from "../../domain/config/config.ts";
import type { Entity, EntityPatch, NewEntity } from "../../domain/config/entity.ts";
import { checkEntityId, checkNamespace } from "../../domain/names/names.ts";
import { Acquirer } from "../acquire/acquirer.ts";
import type { Outcome } from "../acquire/acquiring.ts";
import type { CacheStats } from "../acquire/config-cache.ts";
import { guardedDeps } from "../acquire/guarded-deps.ts";
import {
  getPolicy,
  type OperationResult,
  type Policy,
  type PolicyScope,
  type ResetRequest,
  resetBucket,
  setAccess,
  setCascade,
  type TopUpRequest,
  topUp,
} from "../acquire/policies.ts";
import type { AcquireRequest } from "../acquire/request.ts";
import { type CorrectionRequest, type CorrectionResult, charge, giveBack } from "../acquire/without-lease.ts";
import type { Lease } from "../lease/lease.ts";
import { checkBody, runBody } from "../lease/run-body.ts";
import { acquireWaiting } from "../outage/waiting.ts";
import { exceededBy } from "../refusal/refused.ts";
import { Administration } from "./administration.ts";
import { scopeOfNamed } from "./deferred-scope.ts";
import type { Explanation } from "./explanation.ts";
import { available, isAvailable, timeUntilAvailable } from "./inspection.ts";
import type { AccessOptions, ChangeOptions } from "./level-options.ts";
import { type CloseOptions, drainOf, Lifecycle } from "./lifecycle.ts";
import { exposeParts, type LimiterParts } from "./limiter-parts.ts";
import { entitiesListed, type Listing, type ListOptions, listing } from "./listing.ts";
import { explainAt, type PastExplanation, type PastQuestion } from "./past-explanation.ts";
import { ensureEntity } from "./plan-administration.ts";
import type { Availability, Question, RequestQuestion } from "./question.ts";
import type { EngineDeps, NamedScope, Settings } from "./settings.ts";
import { StoredNamespaces } from "./stored-namespaces.ts";

/** A limiter on one namespace of a store. Open one with `RateLimiter.open()`. */
export class Limiter extends StoredNamespaces {
  readonly #given: EngineDeps;
  readonly #parts: LimiterParts;
  readonly #lifecycle: Lifecycle;
  /** Limiters on other namespaces share the store of the one they came from, and leave it open. */
  readonly #ownsStore: boolean;

  /** @internal */
  constructor(given: EngineDeps, settings: Settings, ownsStore: boolean, parent?: Lifecycle) {
    const lifecycle = new Lifecycle(parent);
    const deps = guardedDeps(given, lifecycle);
    const acquirer = new Acquirer(deps, settings, lifecycle);
    const admin = new Administration(deps, settings, acquirer);
    const parts: LimiterParts = { deps, settings, admin, acquirer, on: (name, scope) => this.#on(name, scope) };
    super(parts);
    this.#given = given;
    this.#lifecycle = lifecycle;
    this.#ownsStore = ownsStore;
    this.#parts = parts;
    exposeParts(this, this.#parts);
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
    const settings = { ...this.#parts.settings, namespace: name, namespaceId };
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
    const acquirer = this.#parts.acquirer;
    if (!acquirer.publisher.isWatched) return acquirer.attemptSync(request as AcquireRequest) as Outcome<Name>;
    return acquirer.publisher.watchAcquireSync(request, () => acquirer.attemptSync(request)) as Outcome<Name>;
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
      const notStored = (error: unknown) => this.#parts.acquirer.notStored(request, error);
      return await runBody(lease, { body, signal: request.signal, notStored });
    } finally {
      this.#lifecycle.bodyEnds();
    }
  }

  /** What each limit of the entity, and of the parents that are charged with it, holds now. */
  available(question: Question): Promise<Availability[]> {
    return this.#near(available(this.#parts, question), question);
  }

  /** Milliseconds until the amounts fit at every level: 0 if they fit now, `Infinity` if they never will or it is disabled. */
  timeUntilAvailable(question: RequestQuestion): Promise<number> {
    return this.#near(timeUntilAvailable(this.#parts, question), question);
  }

  /**
   * Which limits apply to an entity on a resource, where they come from, what they hold, and what a request would get. With `atMs`:
   * which applied then, since when, and what they refused in that minute.
   */
  explain(question: PastQuestion): Promise<PastExplanation>;
  explain(question: RequestQuestion): Promise<Explanation>;
  explain(question: RequestQuestion | PastQuestion): Promise<Explanation | PastExplanation> {
    return this.#near(explainAt(this.#parts, question), question);
  }

  // Policies

  /**
   * Switches an entity or a resource off or on. `disabled`: requests are refused with `ResourceDisabled`. `bypass`:
   * requests pass and are counted, and nothing is debited. `enforce`: the limits apply, also where a wider scope says
   * otherwise. `inherit`: the next scope decides (entity on resource, then entity, then resource). Answers whether
   * anything changed.
   */
  setAccess(where: PolicyScope, mode: Access | "inherit", options: AccessOptions = {}): Promise<boolean> {
    return setAccess(this.#parts, where, mode, options);
  }

  /**
   * Sets whether parents are charged, in place of the entity's own `cascade`; the scopes are those of `setAccess`.
   * Answers whether anything changed.
   */
  setCascade(where: PolicyScope, cascade: boolean | "inherit", options: ChangeOptions = {}): Promise<boolean> {
    return setCascade(this.#parts, where, cascade, options);
  }

  /** The access and the cascading that are set at exactly this scope. `explain` shows which ones apply in the end. */
  getPolicy(where: PolicyScope): Promise<Policy> {
    return getPolicy(this.#parts, where);
  }

  /**
   * Adds tokens. A quota gains exactly the amounts until its next reset; a limit that drips gains at most the room
   * below its capacity. Slots cannot be added (`top_up_concurrent`).
   */
  topUp(request: TopUpRequest): Promise<OperationResult> {
    return topUp(this.#parts, request);
  }

  /**
   * Fills the bucket and forgives its debt. A calendar quota begins a new period, a session window ends. Slots that are held are forgotten
   * only where `limits` names their limit: what they are held for still runs.
   */
  resetBucket(request: ResetRequest): Promise<OperationResult> {
    return resetBucket(this.#parts, request);
  }

  // Without a lease

  /**
   * Debits in full, into debt if need be; it is never refused. For what is known afterwards, where no lease is left to adjust. A charge that
   * could not be stored throws `RateLimiterUnavailable`, and nothing is charged.
   */
  charge(request: CorrectionRequest): Promise<CorrectionResult> {
    return charge(this.#parts, request);
  }

  /**
   * Gives back without a lease: at every level that counts the measure at most what is missing to the capacity in force, of a quota what
   * its period has used. Slots are left out. Who calls it is trusted to have taken the tokens before. A give-back whose outcome is unknown
   * counts as not given.
   */
  giveBack(request: CorrectionRequest): Promise<CorrectionResult> {
    return giveBack(this.#parts, request);
  }

  // Entities

  /** Creates an entity. Throws `entity_exists` if there is one of that id. */
  createEntity(entity: NewEntity, options: ChangeOptions = {}): Promise<Entity> {
    return this.#parts.admin.createEntity(entity, options);
  }

  /**
   * Creates the entity if there is none of that id, and answers the stored one. An entity that exists is not changed.
   * For programs that start again.
   */
  async ensureEntity(entity: NewEntity, options: ChangeOptions = {}): Promise<Entity> {
    return (await ensureEntity(this.#parts, entity, options)).item;
  }

  /** The entity of that id. Throws `entity_not_found` if it was never created. */
  getEntity(id: string): Promise<Entity> {
    return this.#parts.admin.getEntity(id);
  }

  /**
   * Changes the fields that the patch names. With `version` it throws `entity_changed` if the entity has another
   * version by now.
   */
  updateEntity(id: string, patch: EntityPatch, options: { version?: number } & ChangeOptions = {}): Promise<Entity> {
    return this.#parts.admin.updateEntity(id, patch, options);
  }

  /**
   * Deletes the entity with its limits, buckets and usage; its audit events stay. Throws `entity_has_children` while
   * it has children.
   */
  async deleteEntity(id: string, options: ChangeOptions = {}): Promise<void> {
    await this.#parts.admin.deleteEntity(id, options);
    this.#parts.acquirer.callers.forget(id);
  }

  /** The entities whose parent it is. */
  getChildren(id: string, options: ListOptions = {}): Listing<Entity> {
    checkEntityId(id);
    return listing((page) => this.#parts.deps.scope.entities.children(id, page), options);
  }

  /** All entities of the namespace, or those of one plan. */
  listEntities(query: { readonly planId?: string } & ListOptions = {}): Listing<Entity> {
    return entitiesListed(this.#parts.deps, query);
  }

  // State

  /** Whether the store responds. Never throws. */
  isAvailable(): Promise<boolean> {
    return isAvailable(this.#parts);
  }

  /** How many entities the limiter remembers the limits of, and how often that spared a read. */
  cacheStats(): CacheStats {
    return this.#parts.acquirer.configCache.stats();
  }

  /** Forgets remembered limits and refusals, so that the next request reads them from the store. */
  invalidateCache(): void {
    this.#parts.acquirer.configCache.clear();
    this.#parts.acquirer.deny.clear();
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
      // A threshold that is stored after this limiter has closed would never be published.
      await this.#given.scope.buckets.thresholdsTold?.();
      const what = this.#ownsStore ? "store" : "limiter";
      await this.#parts.acquirer.refusals.close(what);
      await this.#parts.acquirer.callers.close(what);
    };
    await this.#lifecycle.close({ drainMs, clock: this.#given.clock, lastWrites, closeStore });
  }

  /** Closes the limiter at the end of the block: `await using limiter = await RateLimiter.open()`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #near<Answer>(answer: Promise<Answer>, asked: Question): Promise<Answer> {
    return answer.catch((error) => this.#parts.acquirer.nearResources.rethrow(error, asked));
  }

  #acquire(request: AcquireRequest): Promise<Outcome> {
    const { publisher } = this.#parts.acquirer;
    return publisher.isWatched ? publisher.watchAcquire(request, () => this.#attempt(request)) : this.#attempt(request);
  }

  #attempt(request: AcquireRequest): Promise<Outcome> {
    if (request?.wait === undefined) return this.#parts.acquirer.attempt(request, undefined);
    return acquireWaiting(this.#parts.acquirer, this.#parts.deps.clock, request);
  }
}
