import type { AuditEvent } from "../domain/audit.ts";
import type { Access, ConfigScope, StoredConfig } from "../domain/config.ts";
import type { Entity, EntityPatch, NewEntity } from "../domain/entity.ts";
import { NotFoundError, ValidationError } from "../domain/errors.ts";
import type { Limit } from "../domain/limit.ts";
import type { NewPlan, Plan, PlanPatch } from "../domain/plan.ts";
import type { Availability } from "../engine/availability.ts";
import type { BucketListing } from "../engine/bucket-listing.ts";
import type { Explanation } from "../engine/explanation.ts";
import type { ResourceCapacity } from "../engine/inspection.ts";
import type { OperationResult, Policy, PolicyScope, ResetRequest, TopUpRequest } from "../engine/policies.ts";
import { RemoteHistory } from "./history.ts";
import { ServiceCalls } from "./http.ts";
import { RemoteLeases } from "./leases.ts";
import { levelRequest } from "./level.ts";
import { type PageOf, pageWithCursor, RemoteListing, type RemoteListOptions } from "./listing.ts";
import { RemoteNamespaces } from "./namespaces.ts";
import { type ClientOptions, checkOptions } from "./options.ts";

export type { ClientOptions } from "./options.ts";

/** What a question is about, and how much is asked for. */
interface Asked {
  readonly entityId: string;
  readonly resource: string;
  readonly consume?: Readonly<Record<string, number>>;
}

/** How a change is made. Whom the audit trail names is the token's own id. */
interface RemoteChange {
  readonly principal?: string;
}

interface LevelChange {
  readonly inherit?: boolean;
  readonly appliesTo?: "everyone" | "callers";
  readonly ifAbsent?: boolean;
  readonly onUnavailable?: "allow" | "block";
  /** Only while the level is what was read with this tag (`ConflictError`). */
  readonly ifTag?: string;
}

/** The limiter of a running service, by `fetch` alone: the same names, values and errors as the library has. */
export class LimiterClient {
  readonly leases: RemoteLeases;
  readonly namespaces: RemoteNamespaces;
  readonly history: RemoteHistory;
  /** The address, as messages show it. */
  readonly url: string;
  readonly #calls: ServiceCalls;
  readonly #ns: string;

  constructor(options: ClientOptions) {
    const checked = checkOptions(options);
    this.url = checked.shown;
    this.#calls = new ServiceCalls(checked);
    this.#ns = `/v1/namespaces/${encodeURIComponent(checked.namespace)}`;
    this.leases = new RemoteLeases(this.#calls, this.#ns);
    this.namespaces = new RemoteNamespaces(this.#calls);
    this.history = new RemoteHistory(this.#calls, this.#ns);
  }

  /** Whose token it is, and what it may do. */
  me(): Promise<{
    readonly id: string;
    readonly namespaces: "*" | readonly string[];
    readonly scopes: readonly string[];
  }> {
    return this.#calls.json({ method: "GET", path: "/v1/me" });
  }

  /** The version of the service, and its clock as far as it tells it, to the second. */
  async about(): Promise<{ readonly version: string; readonly atMs: number | undefined }> {
    const { body, headers } = await this.#calls.answer<{ readonly info: { readonly version: string } }>({
      ...{ method: "GET", path: "/openapi.json" },
    });
    const atMs = Date.parse(headers.get("date") ?? "");
    return { version: body.info.version, atMs: Number.isNaN(atMs) ? undefined : atMs };
  }

  async close(): Promise<void> {}

  // Looking

  async available({ entityId, resource }: Asked): Promise<Availability[]> {
    const { items } = await this.#get<{ items: Availability[] }>("/available", { entityId, resource });
    return items;
  }

  async explain({ entityId, resource, consume }: Asked): Promise<Explanation> {
    const body = { entityId, resource, ...(consume === undefined ? {} : { consume: checkedAmounts(consume) }) };
    return this.#calls.json({ method: "POST", path: `${this.#ns}/explain`, body, isRepeatable: true });
  }

  async timeUntilAvailable(question: Asked): Promise<number> {
    const { outcome, retryAfterMs } = await this.explain(question);
    return outcome === "granted" ? 0 : retryAfterMs;
  }

  listBuckets(
    query: { readonly entityId?: string; readonly resource?: string } & RemoteListOptions = {},
  ): RemoteListing<BucketListing> {
    const { entityId, resource, ...page } = query;
    return this.#list("/buckets", page, { entityId, resource });
  }

  resourceCapacity(resource: string, limit: string): Promise<ResourceCapacity> {
    return this.#get("/capacity", { resource, limit });
  }

  auditEvents(
    query: { readonly entityId?: string } & RemoteListOptions = {},
  ): RemoteListing<AuditEvent, { readonly events: readonly AuditEvent[]; readonly cursor?: string }> {
    const { entityId, ...page } = query;
    return new RemoteListing<AuditEvent, { readonly events: readonly AuditEvent[]; readonly cursor?: string }>(
      (each) => this.#get<PageOf<AuditEvent>>("/audit", { entityId, ...each }),
      page,
      ({ items, cursor }) => ({ events: items, ...(cursor === undefined ? {} : { cursor }) }),
    );
  }

  // Entities and plans

  createEntity(entity: NewEntity, options: RemoteChange = {}): Promise<Entity> {
    return this.#send("POST", "/entities", entity, options);
  }

  ensureEntity(entity: NewEntity, options: RemoteChange = {}): Promise<Entity> {
    return this.#send("POST", "/entities", { ...entity, ifAbsent: true }, options);
  }

  async getEntity(id: string): Promise<Entity> {
    return this.#get(`/entities/${part(id, "entity_id_invalid")}`, {});
  }

  async updateEntity(
    id: string,
    patch: EntityPatch,
    options: RemoteChange & { readonly version?: number } = {},
  ): Promise<Entity> {
    const { version, ...change } = options;
    const body = { ...patch, ...(version === undefined ? {} : { version }) };
    return this.#send("PATCH", `/entities/${part(id, "entity_id_invalid")}`, body, change);
  }

  async deleteEntity(id: string, options: RemoteChange = {}): Promise<void> {
    return this.#send("DELETE", `/entities/${part(id, "entity_id_invalid")}`, undefined, options);
  }

  listEntities(query: { readonly planId?: string } & RemoteListOptions = {}): RemoteListing<Entity> {
    const { planId, ...page } = query;
    return this.#list("/entities", page, { planId });
  }

  getChildren(id: string, page: RemoteListOptions = {}): RemoteListing<Entity> {
    return this.#list(`/entities/${part(id, "entity_id_invalid")}/children`, page, {});
  }

  createPlan(plan: NewPlan, options: RemoteChange = {}): Promise<Plan> {
    return this.#send("POST", "/plans", plan, options);
  }

  async getPlan(id: string): Promise<Plan> {
    return this.#get(`/plans/${part(id, "plan_id_invalid")}`, {});
  }

  async updatePlan(
    id: string,
    patch: PlanPatch,
    options: RemoteChange & { readonly version?: number } = {},
  ): Promise<Plan> {
    const { version, ...change } = options;
    const body = { ...patch, ...(version === undefined ? {} : { version }) };
    return this.#send("PATCH", `/plans/${part(id, "plan_id_invalid")}`, body, change);
  }

  async deletePlan(id: string, options: RemoteChange = {}): Promise<void> {
    return this.#send("DELETE", `/plans/${part(id, "plan_id_invalid")}`, undefined, options);
  }

  listPlans(page: RemoteListOptions = {}): RemoteListing<Plan> {
    return this.#list("/plans", page, {});
  }

  // Limits, by level

  /** What a level says itself; `limits: []` where it says nothing. */
  async getLevel(scope: ConfigScope): Promise<StoredConfig> {
    return (await this.readLevel(scope)).config;
  }

  /** The same with its tag, where the service has one: `setLevel` with it changes only what was read. */
  async readLevel(scope: ConfigScope): Promise<{ readonly config: StoredConfig; readonly tag: string | undefined }> {
    const { path, query } = levelRequest(scope);
    try {
      const request = { method: "GET", path: `${this.#ns}${path}`, query } as const;
      const { body, headers } = await this.#calls.answer<StoredConfig>(request);
      return { config: configOf(body), tag: headers.get("etag") ?? undefined };
    } catch (error) {
      if (!(error instanceof NotFoundError) || error.code !== "limits_not_found") throw error;
      return { config: { limits: [] }, tag: undefined };
    }
  }

  /** Sets the limits of a level; answers whether that changed something, and what it says now. */
  async setLevel(
    scope: ConfigScope,
    limits: readonly Limit[],
    options: LevelChange & RemoteChange,
  ): Promise<{ readonly changed: boolean; readonly config: StoredConfig }> {
    const { path, query } = levelRequest(scope);
    const { principal, ifTag, ...body } = options;
    refusePrincipal({ principal });
    const headers: Readonly<Record<string, string>> = ifTag === undefined ? {} : { "if-match": ifTag };
    const request = { method: "PUT", path: `${this.#ns}${path}`, query, body: { limits, ...body } } as const;
    const { changed, ...level } = await this.#calls.json<StoredConfig & { readonly changed: boolean }>({
      ...request,
      headers,
      // Sent again after a lost answer it would say that nothing changed.
      isRepeatable: false,
    });
    return { changed, config: configOf(level) };
  }

  /** False where there were no limits. */
  async deleteLevel(scope: ConfigScope, options: RemoteChange = {}): Promise<boolean> {
    refusePrincipal(options);
    const { path, query } = levelRequest(scope);
    try {
      await this.#calls.json({ method: "DELETE", path: `${this.#ns}${path}`, query });
      return true;
    } catch (error) {
      if (error instanceof NotFoundError && error.code === "limits_not_found") return false;
      throw error;
    }
  }

  async getLimits(entityId: string, { resource }: { readonly resource?: string } = {}): Promise<readonly Limit[]> {
    const scope = resource === undefined ? ({ level: "entityDefault", entityId } as const) : undefined;
    return (await this.getLevel(scope ?? { level: "entity", entityId, resource: resource ?? "" })).limits;
  }

  async getResourceDefaults(resource: string): Promise<readonly Limit[]> {
    return (await this.getLevel({ level: "resource", resource })).limits;
  }

  listLimits(
    entityId: string,
    page: RemoteListOptions = {},
  ): RemoteListing<{ resource?: string; limits: readonly Limit[] }> {
    return this.#list(`/entities/${part(entityId, "entity_id_invalid")}/limits`, page, {});
  }

  listResources(page: RemoteListOptions = {}): RemoteListing<string> {
    return this.#list("/resources", page, {});
  }

  /** Ids of entities with limits of their own on a resource. */
  listEntitiesWithLimits(resource: string, page: RemoteListOptions = {}): RemoteListing<string> {
    return this.#list("/limits/entities", page, { resource });
  }

  /** Resources on which some entity has limits of its own. */
  listResourcesWithEntityLimits(page: RemoteListOptions = {}): RemoteListing<string> {
    return this.#list("/limits/resources", page, {});
  }

  // Policies and buckets

  async getPolicy({ entityId, resource }: PolicyScope): Promise<Policy> {
    const { access, cascade } = await this.getLevel(scopeOf(entityId, resource));
    return { ...(access === undefined ? {} : { access }), ...(cascade === undefined ? {} : { cascade }) };
  }

  async setAccess(where: PolicyScope, access: Access | "inherit", options: RemoteChange = {}): Promise<void> {
    await this.#policy("/access", where, { access }, options);
  }

  async setCascade(where: PolicyScope, cascade: boolean | "inherit", options: RemoteChange = {}): Promise<void> {
    await this.#policy("/cascade", where, { cascade }, options);
  }

  async topUp({ amounts, ...request }: TopUpRequest): Promise<OperationResult> {
    return this.#operate("/top-up", { ...request, amounts: checkedAmounts(amounts) });
  }

  resetBucket(request: ResetRequest): Promise<OperationResult> {
    return this.#operate("/reset", request);
  }

  async #operate(
    path: string,
    { principal, idempotencyKey, ...body }: (TopUpRequest | ResetRequest) & RemoteChange,
  ): Promise<OperationResult> {
    refusePrincipal(principal === undefined ? {} : { principal });
    const key = idempotencyKey ?? crypto.randomUUID();
    const { body: result, headers } = await this.#calls.answer<OperationResult>({
      ...{ method: "POST", path: `${this.#ns}${path}`, body, isRepeatable: true },
      headers: { "idempotency-key": key },
    });
    // Its own repeat after a lost answer is no repetition of the caller's.
    const isReplayed = idempotencyKey !== undefined && headers.get("idempotency-replayed") === "true";
    return isReplayed ? { ...result, repeated: true } : result;
  }

  async #policy(path: string, { entityId, resource }: PolicyScope, body: object, options: RemoteChange): Promise<void> {
    refusePrincipal(options);
    const query = { entityId, resource };
    await this.#calls.json({ method: "PUT", path: `${this.#ns}${path}`, query, body, isRepeatable: true });
  }

  #get<Body>(path: string, query: Readonly<Record<string, string | number | undefined>>): Promise<Body> {
    return this.#calls.json({ method: "GET", path: `${this.#ns}${path}`, query });
  }

  async #send<Body>(
    method: "POST" | "PATCH" | "DELETE",
    path: string,
    body: object | undefined,
    options: RemoteChange,
  ): Promise<Body> {
    refusePrincipal(options);
    return this.#calls.json({ method, path: `${this.#ns}${path}`, ...(body === undefined ? {} : { body }) });
  }

  #list<Item>(
    path: string,
    page: RemoteListOptions,
    query: Readonly<Record<string, string | undefined>>,
  ): RemoteListing<Item> {
    return new RemoteListing<Item>(
      (each) => this.#get<PageOf<Item>>(path, { ...query, ...each }),
      page,
      pageWithCursor,
    );
  }
}

function scopeOf(entityId: string | undefined, resource: string | undefined): ConfigScope {
  if (entityId === undefined) return { level: "resource", resource: resource ?? "" };
  return resource === undefined ? { level: "entityDefault", entityId } : { level: "entity", entityId, resource };
}

/** A name in a path: an empty one would ask for the list. */
function part(name: string, code: string): string {
  if (typeof name === "string" && name !== "") return encodeURIComponent(name);
  throw new ValidationError(code, "A name is empty or not a string; give a name.");
}

function configOf(level: StoredConfig): StoredConfig {
  const { limits, inherit, appliesTo, access, cascade, onUnavailable, usageKeptDays } = level;
  const rest = { inherit, appliesTo, access, cascade, onUnavailable, usageKeptDays };
  const said = Object.entries(rest).filter(([, value]) => value !== undefined);
  return { limits, ...Object.fromEntries(said) } as StoredConfig;
}

/** What JSON would swallow is refused before it is sent: `{ tpm: undefined }` must not become `{}`. */
export function checkedAmounts(
  amounts: Readonly<Record<string, number | undefined>>,
): Readonly<Record<string, number | undefined>> {
  for (const [name, value] of Object.entries(amounts)) {
    if (Number.isSafeInteger(value)) continue;
    throw new ValidationError(
      "amount_invalid",
      `The amount of "${name}" is ${String(value)}; give a whole number of tokens.`,
    );
  }
  return amounts;
}

function refusePrincipal(options: { readonly principal?: string | undefined }): void {
  if (options.principal === undefined) return;
  throw new ValidationError("option_unknown", "Over HTTP the audit log names the token; leave principal out.");
}
