import type { Access } from "../domain/config.ts";
import type { Entity, NewEntity } from "../domain/entity.ts";
import { ValidationError } from "../domain/errors.ts";
import type { NewPlan, Plan } from "../domain/plan.ts";
import { shown } from "../domain/shown.ts";
import type { UsageSummary } from "../domain/usage.ts";
import type { Availability } from "../engine/availability.ts";
import type { Explanation } from "../engine/explanation.ts";
import type { Lease } from "../engine/lease.ts";
import type { ChangeOptions } from "../engine/level-options.ts";
import type { Limiter } from "../engine/limiter.ts";
import type { Listing, ListPage } from "../engine/listing.ts";
import type { Outcome } from "../engine/outcome.ts";
import type { OperationResult, Policy, PolicyScope, ResetRequest, TopUpRequest } from "../engine/policies.ts";
import type { Question, RequestQuestion } from "../engine/question.ts";
import type { AuditListing } from "../engine/stored-lists.ts";
import type { UsageRequest } from "../engine/usage-query.ts";
import type { Clock } from "../ports/system.ts";
import { checkAmounts, checkName, invalid, isRecord, refuse } from "./check.ts";
import { keyField, ServiceCalls } from "./http.ts";
import { deleteLevel, LEVELS, type LevelRoute, readLevel, routeOf, setLevel } from "./levels.ts";
import { listed, pageWithCursor } from "./listing.ts";
import { type ClientOptions, checkOptions } from "./options.ts";
import { at, type Path } from "./path.ts";
import { type ClientRequest, questionOf } from "./request.ts";
import { take } from "./taking.ts";

/** By what a client asks its service, for other parts of this package: not a member, for those are the public interface. */
export let callsOf: (client: ClientLimiter) => ServiceCalls;

/** Lists, by their routes. */
const LISTS = {
  listBuckets: at`buckets`,
  usage: at`usage`,
  listEntities: at`entities`,
  listPlans: at`plans`,
  listResources: at`resources`,
  listResourcesWithEntityLimits: at`limits/resources`,
} as const;

/** What is created, read, changed and deleted by its id: the route, and the field by which an id is known elsewhere. */
const KINDS = { Entity: ["entities", "entityId"], Plan: ["plans", "planId"] } as const;

/** What is done with them. */
const VERBS = { create: "POST", get: "GET", update: "PATCH", delete: "DELETE" } as const;

type Level = keyof typeof LEVELS;
type Kind = keyof typeof KINDS;

/** Methods that are those of the library, word for word. They are made of tables: written one by one they would be twice as large. */
type Same = keyof typeof LISTS | `${"set" | "get" | "delete"}${Level}` | `${keyof typeof VERBS}${Kind}`;

type SameMethods = Pick<Limiter, Same>;

/** The methods that are made below, one for each name of the tables. */
export interface ClientLimiter extends SameMethods {}

/** The limiter of a running service, by `fetch` alone: the same names, values and errors as the library has. */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: its methods are made of tables, one for each name of the interface.
export class ClientLimiter {
  static {
    callsOf = (client) => client.#calls;
    type Method = (this: ClientLimiter, ...given: never[]) => unknown;
    const methods = ClientLimiter.prototype as unknown as Record<string, Method>;
    for (const [name, path] of Object.entries(LISTS)) {
      methods[name] = function (query: object = {}) {
        return this.#list(path, query);
      };
    }
    for (const [kind, [path, field]] of Object.entries(KINDS)) {
      for (const [verb, method] of Object.entries(VERBS)) {
        methods[verb + kind] = async function (...all: never[]) {
          const whole = verb === "create" ? at`${path}` : at`${path}/${checkName(field, all.shift() as never)}`;
          return this.#change(method, whole, all);
        };
      }
    }
    for (const [level, field] of Object.entries(LEVELS)) {
      for (const verb of ["get", "set", "delete"]) {
        methods[verb + level] = async function (...all: never[]) {
          const owner = field && (all.shift() as never);
          const limits = verb === "set" && (all.shift() as never);
          const { options, ...route } = routeOf(level, owner, all[0] ?? {});
          if (limits) return setLevel(this.#calls, route, limits, options);
          if (verb === "delete") return deleteLevel(this.#calls, route, options);
          const { config } = await readLevel(this.#calls, route);
          return level === "SystemDefaults" ? config : config.limits;
        };
      }
    }
  }

  readonly #calls: ServiceCalls;

  /** @internal */
  constructor(options: ClientOptions, clock: Clock) {
    this.#calls = new ServiceCalls(checkOptions(options), clock);
  }

  /** Takes the tokens and answers a lease, or throws `RateLimitExceeded`. Prefer `withLease`, which settles by itself. */
  async acquire<const Name extends string = string>(request: ClientRequest<Name>): Promise<Lease<Name>> {
    return (await take(this.#calls, "acquire", request as ClientRequest)) as unknown as Lease<Name>;
  }

  /**
   * Takes the tokens, or answers why it cannot. A refusal is a value; all other errors are thrown, as `acquire` throws
   * them.
   */
  async tryAcquire<const Name extends string = string>(request: ClientRequest<Name>): Promise<Outcome<Name>> {
    const outcome = await take(this.#calls, "try", request as ClientRequest);
    return "levels" in outcome ? outcome : { ok: true, lease: outcome as unknown as Lease<Name> };
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
    if (typeof body !== "function") {
      throw new ValidationError("body_missing", `The body of withLease is ${shown(body)}; give a function.`);
    }
    const lease = await this.acquire(request);
    lease.keep();
    let value: Value;
    try {
      request.signal?.throwIfAborted();
      value = await body(lease);
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
    const { consume: _, leavePercent: __, ...about } = questionOf(question);
    return (await this.#send<{ items: Availability[] }>("GET", at`available`, about)).items;
  }

  /** Which limits apply to an entity on a resource, where they come from, what they hold, and what a request would get. */
  async explain(question: RequestQuestion): Promise<Explanation> {
    return this.#send("POST", at`explain`, {}, questionOf(question));
  }

  /** Milliseconds until the amounts fit at every level: 0 if they fit now, `Infinity` if they never will or it is disabled. */
  async timeUntilAvailable(question: RequestQuestion): Promise<number> {
    // Without amounts a request is asked about that names none; an explanation would be of no request at all.
    const { outcome, retryAfterMs } = await this.explain({ ...question, consume: question?.consume ?? {} });
    return outcome === "granted" ? 0 : retryAfterMs;
  }

  /**
   * The stored limits that apply when this entity asks for this resource. `source` is the first level that has limits,
   * `sources` the level of each limit by its name.
   */
  async resolveLimits(entityId: string, resource: string): ReturnType<Limiter["resolveLimits"]> {
    return this.#send("GET", at`limits/effective`, questionOf({ entityId, resource }));
  }

  /** Usage added up over all windows, of an entity, a resource or the whole namespace. */
  async usageSummary(query: UsageRequest): Promise<UsageSummary> {
    const { once: _, ...summary } = await this.#send<UsageSummary & { once: unknown }>("GET", at`usage/summary`, query);
    return summary;
  }

  /** Changes of the configuration, newest first: of one entity, or of the namespace. */
  auditEvents(query: Parameters<Limiter["auditEvents"]>[0] = {}): AuditListing {
    return this.#list(at`audit`, { limit: 100, ...query }, ({ items, ...rest }) => ({ events: items, ...rest }));
  }

  /**
   * Creates the entity if there is none of that id, and answers the stored one. An entity that exists is not changed.
   * For programs that start again.
   */
  async ensureEntity(entity: NewEntity, options: ChangeOptions = {}): Promise<Entity> {
    return this.#change("POST", at`entities`, [entity && { ...entity, ifAbsent: true }, options]);
  }

  /**
   * Creates the plan if there is none of that id, and answers the stored one. A plan that exists is not changed. For
   * programs that start again.
   */
  async ensurePlan(plan: NewPlan, options: ChangeOptions = {}): Promise<Plan> {
    return this.#change("POST", at`plans`, [plan && { ...plan, ifAbsent: true }, options]);
  }

  /** The entities whose parent it is. */
  getChildren(...[id, options = {}]: Parameters<Limiter["getChildren"]>): ReturnType<Limiter["getChildren"]> {
    return this.#list(at`entities/${checkName("entityId", id)}/children`, options);
  }

  /** Every set of limits that is stored for an entity. The set without `resource` is its default. */
  listLimits(...[entityId, options = {}]: Parameters<Limiter["listLimits"]>): ReturnType<Limiter["listLimits"]> {
    return this.#list(at`entities/${checkName("entityId", entityId)}/limits`, options);
  }

  /** Ids of the entities that have limits of their own on a resource. */
  listEntitiesWithLimits(
    ...[resource, options = {}]: Parameters<Limiter["listEntitiesWithLimits"]>
  ): ReturnType<Limiter["listEntitiesWithLimits"]> {
    return this.#list(at`limits/entities`, { resource: checkName("resource", resource), ...options });
  }

  /** The access and the cascading that are set at exactly this scope. `explain` shows which ones apply in the end. */
  async getPolicy({ entityId, resource }: PolicyScope): Promise<Policy> {
    const route = { path: at`limits`, query: { entityId, resource } as LevelRoute["query"] };
    const { access, cascade } = (await readLevel(this.#calls, route)).config;
    return { ...(access && { access }), ...(cascade !== undefined && { cascade }) };
  }

  /**
   * Switches an entity or a resource off or on. `disabled`: requests are refused with `ResourceDisabled`. `bypass`:
   * requests pass and are counted, and nothing is debited. `enforce`: the limits apply, also where a wider scope says
   * otherwise. `inherit`: the next scope decides (entity on resource, then entity, then resource). Answers whether
   * anything changed.
   */
  async setAccess(where: PolicyScope, access: Access | "inherit", options: ChangeOptions = {}): Promise<boolean> {
    return this.#policy("access", where, access, options);
  }

  /**
   * Sets whether parents are charged, in place of the entity's own `cascade`; the scopes are those of `setAccess`.
   * Answers whether anything changed.
   */
  async setCascade(where: PolicyScope, cascade: boolean | "inherit", options: ChangeOptions = {}): Promise<boolean> {
    return this.#policy("cascade", where, cascade, options);
  }

  /**
   * Adds tokens. A quota gains exactly the amounts until its next reset; a limit that drips gains at most the room
   * below its capacity.
   */
  async topUp(request: TopUpRequest): Promise<OperationResult> {
    checkAmounts(request?.amounts, "topUp");
    return this.#operate(at`top-up`, request);
  }

  /** Fills the bucket and forgives its debt. A calendar quota begins a new period, a session window ends. */
  resetBucket(request: ResetRequest): Promise<OperationResult> {
    return this.#operate(at`reset`, request);
  }

  /** Whether the service and its store respond. Never throws. */
  isAvailable(): Promise<boolean> {
    return this.#calls.answer("GET", at`/readyz`).then(
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
    path: Path,
    { principal, idempotencyKey, ...body }: TopUpRequest | ResetRequest,
  ): Promise<OperationResult> {
    refuse({ principal });
    const { body: result, headers } = await this.#calls.answer<OperationResult>("POST", path, {
      body,
      headers: keyField(idempotencyKey),
    });
    // Its own repeat after a lost answer is no repetition of the caller's.
    return { ...result, repeated: idempotencyKey !== undefined && headers.has("idempotency-replayed") };
  }

  async #policy(name: string, where: PolicyScope, value: unknown, options: ChangeOptions): Promise<boolean> {
    refuse(options);
    const { headers, repeats } = await this.#calls.answer("PUT", at`${name}`, {
      query: where,
      body: { [name]: value },
    });
    // A repeat finds what the first may have set, and cannot tell whose it is.
    return headers.get("zael-changed") !== "false" || repeats > 0;
  }

  async #send<Body>(method: string, path: Path, query: object = {}, body?: unknown): Promise<Body> {
    return (await this.#calls.answer<Body>(method, path, { body, query })).body;
  }

  /** `given`: what is sent, where something is, and the options. */
  async #change<Body>(method: string, path: Path, given: readonly (object | undefined)[]): Promise<Body> {
    if (method === "GET") return this.#send(method, path);
    const [body, change = {}] = method === "DELETE" ? [undefined, ...given] : given;
    const { principal, ...options } = change as ChangeOptions;
    refuse({ principal });
    if (method === "DELETE") refuse(options);
    else checkFields(body);
    return (await this.#calls.answer<Body>(method, path, { body: body && { ...body, ...options }, repeats: "never" }))
      .body;
  }

  #list<Item, Shown = ListPage<Item>>(
    path: Path,
    { limit, cursor, ...query }: { readonly limit?: number; readonly cursor?: string; readonly resource?: string },
    shape: (page: { readonly items: readonly Item[]; readonly cursor?: string }) => Shown = pageWithCursor as never,
  ): Listing<Item, Shown> {
    return listed((page) => this.#send("GET", path, { ...query, ...page }), { limit, cursor }, shape);
  }
}

/** JSON would leave metadata out whose value was forgotten, and a change that is no object would change nothing. */
function checkFields(fields: unknown): void {
  const { metadata = {} } = (isRecord(fields) ? fields : { metadata: 0 }) as { readonly metadata?: unknown };
  if (isRecord(metadata) && !Object.values(metadata).includes(undefined)) return;
  throw invalid("metadata", "The change", fields, "an object, with metadata whose values are strings");
}
