import type { Tokens } from "../domain/amounts.ts";
import type { Access } from "../domain/config.ts";
import type { Entity, NewEntity } from "../domain/entity.ts";
import type { UsageSummary } from "../domain/usage.ts";
import { renewWhileOpen } from "../domain/lease-renewal.ts";
import type { Availability } from "../engine/availability.ts";
import type { Explanation } from "../engine/explanation.ts";
import type { Lease } from "../engine/lease.ts";
import type { ChangeOptions } from "../engine/level-options.ts";
import type { Limiter } from "../engine/limiter.ts";
import type { Listing, ListPage } from "../engine/listing.ts";
import type { Outcome } from "../engine/outcome.ts";
import type { OperationResult, Policy, PolicyScope, ResetRequest, TopUpRequest } from "../engine/policies.ts";
import type { Question } from "../engine/question.ts";
import type { AuditListing } from "../engine/stored-lists.ts";
import type { UsageRequest } from "../engine/usage-query.ts";
import type { Clock } from "../ports/system.ts";
import { checkAmounts, checkName, invalid, isRecord, refuse } from "./check.ts";
import { newKey, ServiceCalls } from "./http.ts";
import type { ClientLease } from "./lease.ts";
import { deleteLevel, LEVELS, readLevel, routeOf, setLevel } from "./levels.ts";
import { listed, pageWithCursor } from "./listing.ts";
import { type ClientOptions, checkOptions } from "./options.ts";
import { type ClientRequest, questionOf } from "./request.ts";
import { Taking } from "./taking.ts";

/** By what a client asks its service, for other parts of this package: not members, for those are the public interface. */
export let partsOfClient: (client: ClientLimiter) => { readonly calls: ServiceCalls; readonly ns: string };

/** Lists, by their routes. */
const LISTS = {
  listBuckets: "/buckets",
  usage: "/usage",
  listEntities: "/entities",
  listPlans: "/plans",
  listResources: "/resources",
  listResourcesWithEntityLimits: "/limits/resources",
} as const;

/** What is created, read, changed and deleted by its id: the route, and the field by which an id is known elsewhere. */
const KINDS = { Entity: ["/entities", "entityId"], Plan: ["/plans", "planId"] } as const;

type Level = keyof typeof LEVELS;
type Kind = keyof typeof KINDS;

/** Methods that are those of the library, word for word. They are made of tables: written one by one they would be twice as large. */
type Same =
  | keyof typeof LISTS
  | `${"set" | "get" | "delete"}${Level}`
  | `${"create" | "get" | "update" | "delete"}${Kind}`;

type SameMethods = Pick<Limiter, Same>;

// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: the methods are made below, one for each name of the tables.
export interface ClientLimiter extends SameMethods {}

/** The limiter of a running service, by `fetch` alone: the same names, values and errors as the library has. */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: as above.
export class ClientLimiter {
  static {
    partsOfClient = (client) => ({ calls: client.#calls, ns: client.#ns });
    type Method = (this: ClientLimiter, ...given: never[]) => unknown;
    const methods = this.prototype as unknown as Record<string, Method>;
    for (const [name, path] of Object.entries(LISTS)) {
      methods[name] = function (query: object = {}) {
        return this.#list(path, query);
      };
    }
    for (const [kind, [path, field]] of Object.entries(KINDS)) {
      const one = (id: string) => `${path}/${encodeURIComponent(checkName(field, id))}`;
      methods[`create${kind}`] = function (made: object, options: object = {}) {
        return this.#change("POST", path, made, options);
      };
      methods[`get${kind}`] = async function (id: string) {
        return this.#get(one(id));
      };
      methods[`update${kind}`] = async function (id: string, patch: object, options: object = {}) {
        return this.#change("PATCH", one(id), patch, options);
      };
      methods[`delete${kind}`] = async function (id: string, options: object = {}) {
        return this.#change("DELETE", one(id), undefined, options);
      };
    }
    for (const [level, field] of Object.entries(LEVELS)) {
      // Of the system there is no owner, and what follows comes first.
      const given = (all: unknown[]) => (field === "" ? [undefined, ...all] : all) as [string, unknown?, unknown?];
      methods[`set${level}`] = async function (...all: unknown[]) {
        const [owner, limits, options = {}] = given(all);
        const { route, rest } = routeOf(level, field, owner, options as object);
        return setLevel(this.#calls, this.#ns, route, limits as never, rest);
      };
      methods[`get${level}`] = async function (...all: unknown[]) {
        const [owner, options = {}] = given(all);
        const { config } = await readLevel(this.#calls, this.#ns, routeOf(level, field, owner, options as object).route);
        return level === "SystemDefaults" ? config : config.limits;
      };
      methods[`delete${level}`] = async function (...all: unknown[]) {
        const [owner, options = {}] = given(all);
        const { route, rest } = routeOf(level, field, owner, options as object);
        return deleteLevel(this.#calls, this.#ns, route, rest);
      };
    }
  }

  readonly #calls: ServiceCalls;
  readonly #ns: string;
  readonly #taking: Taking;

  /** @internal */
  constructor(options: ClientOptions, clock: Clock) {
    const checked = checkOptions(options);
    this.#calls = new ServiceCalls(checked, clock);
    this.#ns = `/v1/namespaces/${checked.namespace}`;
    this.#taking = new Taking(this.#calls, this.#ns);
  }

  /** Takes the tokens and answers a lease, or throws `RateLimitExceeded`. Prefer `withLease`, which settles by itself. */
  async acquire<const Name extends string = string>(request: ClientRequest<Name>): Promise<Lease<Name>> {
    return asLease(await this.#taking.acquire(request as ClientRequest));
  }

  /**
   * Takes the tokens, or answers why it cannot. A refusal is a value; all other errors are thrown, as `acquire` throws
   * them.
   */
  async tryAcquire<const Name extends string = string>(request: ClientRequest<Name>): Promise<Outcome<Name>> {
    const outcome = await this.#taking.attempt(request as ClientRequest);
    return "levels" in outcome ? outcome : { ok: true, lease: asLease(outcome) };
  }

  /**
   * Takes the tokens and runs the function. When the function returns, its tokens stay taken; when it throws, they are
   * given back. The hold is renewed while the function runs. An abort reaches it as `lease.signal`, and so does a hold
   * that could not be renewed; if it returns all the same, its tokens stay taken.
   */
  async withLease<Value, const Name extends string = string>(
    request: ClientRequest<Name>,
    body: (lease: Lease<Name>) => Value | Promise<Value>,
  ): Promise<Value> {
    if (typeof body !== "function") throw invalid("body_missing", "The body of withLease", body, "a function");
    const lease = await this.#taking.acquire(request as ClientRequest);
    renewWhileOpen(lease);
    let value: Value;
    try {
      request.signal?.throwIfAborted();
      value = await body(asLease(lease));
    } catch (error) {
      await lease.rollback().catch(() => {});
      throw error;
    }
    // The work is done, whatever became of the lease.
    await lease.settle().catch(() => {});
    return value;
  }

  /** What each limit of the entity, and of the parents that are charged with it, holds now. */
  async available(question: Question): Promise<Availability[]> {
    const { consume: _, ...about } = questionOf(question);
    return (await this.#get<{ items: Availability[] }>("/available", about)).items;
  }

  /** Which limits apply to an entity on a resource, where they come from, what they hold, and what a request would get. */
  async explain(question: Question & { readonly consume?: Tokens }): Promise<Explanation> {
    return this.#send("POST", "/explain", questionOf(question));
  }

  /** Milliseconds until the amounts fit at every level: 0 if they fit now, `Infinity` if they never will. */
  async timeUntilAvailable(question: Question & { readonly consume?: Tokens }): Promise<number> {
    const { outcome, retryAfterMs } = await this.explain(question);
    return outcome === "granted" ? 0 : retryAfterMs;
  }

  /**
   * The stored limits that apply when this entity asks for this resource. `source` is the first level that has limits,
   * `sources` the level of each limit by its name.
   */
  async resolveLimits(entityId: string, resource: string): ReturnType<Limiter["resolveLimits"]> {
    return this.#get("/limits/effective", questionOf({ entityId, resource }));
  }

  /** Usage added up over all windows, of an entity, a resource or the whole namespace. */
  async usageSummary(query: UsageRequest): Promise<UsageSummary> {
    const { once: _, ...summary } = await this.#get<UsageSummary & { once: unknown }>("/usage/summary", query);
    return summary;
  }

  /** Changes of the configuration, newest first: of one entity, or of the namespace. */
  auditEvents(query: Parameters<Limiter["auditEvents"]>[0] = {}): AuditListing {
    return this.#list("/audit", { limit: 100, ...query }, ({ items, ...rest }) => ({ events: items, ...rest }));
  }

  /**
   * Creates the entity if there is none of that id, and answers the stored one. An entity that exists is not changed.
   * For programs that start again.
   */
  async ensureEntity(entity: NewEntity, options: ChangeOptions = {}): Promise<Entity> {
    return this.#change("POST", "/entities", { ...entity, ifAbsent: true }, options);
  }

  /** The entities whose parent it is. */
  getChildren(...[id, options = {}]: Parameters<Limiter["getChildren"]>): ReturnType<Limiter["getChildren"]> {
    return this.#list(`/entities/${checkName("entityId", id)}/children`, options);
  }

  /** Every set of limits that is stored for an entity. The set without `resource` is its default. */
  listLimits(...[entityId, options = {}]: Parameters<Limiter["listLimits"]>): ReturnType<Limiter["listLimits"]> {
    return this.#list(`/entities/${checkName("entityId", entityId)}/limits`, options);
  }

  /** Ids of the entities that have limits of their own on a resource. */
  listEntitiesWithLimits(
    ...[resource, options = {}]: Parameters<Limiter["listEntitiesWithLimits"]>
  ): ReturnType<Limiter["listEntitiesWithLimits"]> {
    return this.#list("/limits/entities", { resource: checkName("resource", resource), ...options });
  }

  /** The access and the cascading that are set at exactly this scope. `explain` shows which ones apply in the end. */
  async getPolicy({ entityId, resource }: PolicyScope): Promise<Policy> {
    const route = { path: "/limits", query: { entityId, resource } };
    const { access, cascade } = (await readLevel(this.#calls, this.#ns, route)).config;
    return { ...(access && { access }), ...(cascade === undefined ? {} : { cascade }) };
  }

  /**
   * Switches an entity or a resource off or on. `disabled`: requests are refused with `ResourceDisabled`. `bypass`:
   * requests pass and are counted, and nothing is debited. `enforce`: the limits apply, also where a wider scope says
   * otherwise. `inherit`: the next scope decides (entity on resource, then entity, then resource).
   */
  async setAccess(where: PolicyScope, access: Access | "inherit", options: ChangeOptions = {}): Promise<void> {
    refuse(options);
    return this.#send("PUT", "/access", { access }, where);
  }

  /** Sets whether parents are charged, in place of the entity's own `cascade`; the scopes are those of `setAccess`. */
  async setCascade(where: PolicyScope, cascade: boolean | "inherit", options: ChangeOptions = {}): Promise<void> {
    refuse(options);
    return this.#send("PUT", "/cascade", { cascade }, where);
  }

  /**
   * Adds tokens. A quota gains exactly the amounts until its next reset; a limit that drips gains at most the room
   * below its capacity.
   */
  async topUp(request: TopUpRequest): Promise<OperationResult> {
    checkAmounts(request?.amounts, "topUp");
    return this.#operate("/top-up", request);
  }

  /** Fills the bucket and forgives its debt. A calendar quota begins a new period, a session window ends. */
  resetBucket(request: ResetRequest): Promise<OperationResult> {
    return this.#operate("/reset", request);
  }

  /** Whether the service and its store respond. Never throws. */
  isAvailable(): Promise<boolean> {
    return this.#calls.answer("GET", "/readyz", {}).then(
      () => true,
      () => false,
    );
  }

  /**
   * Closes the client: new calls throw `closed`. Open leases can still be settled and given back. The promise resolves
   * once all calls under way are answered.
   */
  close(): Promise<void> {
    return this.#calls.close();
  }

  /** Closes the client at the end of the block: `await using limiter = new LimiterClient({ url })`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #operate(
    path: string,
    { principal, idempotencyKey, ...body }: TopUpRequest | ResetRequest,
  ): Promise<OperationResult> {
    refuse({ principal });
    const { body: result, headers } = await this.#calls.answer<OperationResult>("POST", this.#ns + path, {
      body,
      headers: { "idempotency-key": idempotencyKey ?? newKey() },
    });
    // Its own repeat after a lost answer is no repetition of the caller's.
    return { ...result, repeated: idempotencyKey !== undefined && headers.has("idempotency-replayed") };
  }

  #get<Body>(path: string, query: object = {}): Promise<Body> {
    return this.#send("GET", path, undefined, query);
  }

  async #send<Body>(method: string, path: string, body: unknown, query: object = {}): Promise<Body> {
    return (await this.#calls.answer<Body>(method, this.#ns + path, { body, query: query as Query })).body;
  }

  async #change<Body>(
    method: string,
    path: string,
    body: object | undefined,
    { principal, ...options }: ChangeOptions,
  ): Promise<Body> {
    refuse({ principal });
    if (body === undefined) refuse(options);
    else checkFields(body);
    const sent = { repeats: "never", ...(body && { body: { ...body, ...options } }) } as const;
    return (await this.#calls.answer<Body>(method, this.#ns + path, sent)).body;
  }

  #list<Item, Shown = ListPage<Item>>(
    path: string,
    { limit, cursor, ...query }: { readonly limit?: number; readonly cursor?: string; readonly resource?: string },
    shape: (page: { readonly items: readonly Item[]; readonly cursor?: string }) => Shown = pageWithCursor as never,
  ): Listing<Item, Shown> {
    return listed((page) => this.#get(path, { ...query, ...page }), { limit, cursor }, shape);
  }
}

type Query = Readonly<Record<string, string | number | undefined>>;

/** It has every member of the library's that users see. */
function asLease<Name extends string>(lease: ClientLease): Lease<Name> {
  return lease as unknown as Lease<Name>;
}

/** JSON would leave metadata out whose value was forgotten, and a change that is no object would change nothing. */
function checkFields(body: object): void {
  const { metadata = {} } = isRecord(body) ? (body as { readonly metadata?: object }) : { metadata: undefined };
  if (isRecord(body) && isRecord(metadata) && !Object.values(metadata).includes(undefined)) return;
  throw invalid("metadata_invalid", "The change", body, "an object, with metadata whose values are strings");
}
