import type { ConfigScope, LimitSource, SystemSettings } from "../domain/config.ts";
import type { Limit } from "../domain/limit.ts";
import { allSources, mergeError } from "../domain/merged-limits.ts";
import { checkEntityId, checkResource } from "../domain/names.ts";
import type { NewPlan, Plan, PlanPatch } from "../domain/plan.ts";
import type { Administration } from "./administration.ts";
import { type EntityScope, entityScope } from "./entity-scope.ts";
import type { ChangeOptions, SetOptions } from "./level-options.ts";
import { type Listing, type ListOptions, listing } from "./listing.ts";
import { PlanAdministration } from "./plan-administration.ts";
import type { EngineDeps } from "./settings.ts";
import { limitsListed, type StoredSet } from "./stored-lists.ts";

/** What a limiter does with stored limits, totals and plans. Every call that sets returns whether it changed something. */
export class StoredLimits {
  readonly #deps: EngineDeps;
  readonly #admin: Administration;
  readonly #plans: PlanAdministration;

  /** @internal */
  constructor(deps: EngineDeps, admin: Administration) {
    this.#deps = deps;
    this.#admin = admin;
    this.#plans = new PlanAdministration(deps, admin);
  }

  // Limits

  /** Sets the limits of an entity: on one resource, or (without `resource`) its default for all other resources. */
  setLimits(entityId: string, limits: readonly Limit[], options: EntityScope & SetOptions = {}): Promise<boolean> {
    return this.#admin.setConfig(entityScope(entityId, options), limits, options);
  }

  async getLimits(entityId: string, options: EntityScope = {}): Promise<readonly Limit[]> {
    return (await this.#admin.getConfig(entityScope(entityId, options), options)).limits;
  }

  /** Returns whether there was something to delete. */
  deleteLimits(entityId: string, options: EntityScope & ChangeOptions = {}): Promise<boolean> {
    return this.#admin.deleteConfig(entityScope(entityId, options), options);
  }

  /** Lists all limits stored for an entity; those without `resource` are its default. */
  listLimits(entityId: string, options: ListOptions = {}): Listing<StoredSet> {
    return limitsListed(this.#deps, entityId, options);
  }

  /** Ids of the entities that have limits of their own on a resource. */
  listEntitiesWithLimits(resource: string, options: ListOptions = {}): Listing<string> {
    checkResource(resource);
    return listing((page) => this.#deps.scope.config.listEntities(resource, page), options);
  }

  /** Resources on which some entity, created or not, has limits of its own. */
  listResourcesWithEntityLimits(options: ListOptions = {}): Listing<string> {
    return listing((page) => this.#deps.scope.config.listEntityResources(page), options);
  }

  setResourceDefaults(resource: string, limits: readonly Limit[], options: SetOptions = {}): Promise<boolean> {
    return this.#admin.setConfig({ level: "resource", resource }, limits, options);
  }

  async getResourceDefaults(resource: string): Promise<readonly Limit[]> {
    return (await this.#admin.getConfig({ level: "resource", resource }, {})).limits;
  }

  deleteResourceDefaults(resource: string, options: ChangeOptions = {}): Promise<boolean> {
    return this.#admin.deleteConfig({ level: "resource", resource }, options);
  }

  /** Resources that have defaults. */
  listResources(options: ListOptions = {}): Listing<string> {
    return listing((page) => this.#deps.scope.config.listResources(page), options);
  }

  /** Sets the system-wide default limits, the outage policy and how long usage is kept; absent fields stay unchanged. */
  setSystemDefaults(limits: readonly Limit[], options: SystemSettings & SetOptions = {}): Promise<boolean> {
    return this.#admin.setConfig({ level: "system" }, limits, options);
  }

  getSystemDefaults(): Promise<{ readonly limits: readonly Limit[] } & SystemSettings> {
    return this.#admin.getConfig({ level: "system" }, {});
  }

  deleteSystemDefaults(options: ChangeOptions = {}): Promise<boolean> {
    return this.#admin.deleteConfig({ level: "system" }, options);
  }

  /**
   * The stored limits that apply to an entity's own requests on a resource. `source`: the first level that has any;
   * `sources`: the level of each limit, by its name.
   */
  async resolveLimits(
    entityId: string,
    resource: string,
  ): Promise<{
    readonly limits: readonly Limit[];
    readonly source: LimitSource;
    readonly sources: Readonly<Record<string, LimitSource>>;
  }> {
    checkEntityId(entityId);
    checkResource(resource);
    const config = await this.#deps.scope.config.resolve(entityId, resource);
    if (config.problem !== undefined) throw mergeError({ entityId, resource }, config.problem);
    return { limits: config.limits, source: config.source, sources: allSources(config) };
  }

  // Totals

  /** Sets the totals of an entity: limits over all resources together. */
  setTotals(entityId: string, limits: readonly Limit[], options: SetOptions = {}): Promise<boolean> {
    return this.#admin.setConfig({ level: "entityTotal", entityId }, limits, options);
  }

  async getTotals(entityId: string): Promise<readonly Limit[]> {
    return (await this.#admin.getConfig({ level: "entityTotal", entityId }, {})).limits;
  }

  /** Returns whether there was something to delete. */
  deleteTotals(entityId: string, options: ChangeOptions = {}): Promise<boolean> {
    return this.#admin.deleteConfig({ level: "entityTotal", entityId }, options);
  }

  /** Sets the totals of a plan: for each of its entities without totals of its own. */
  setPlanTotals(planId: string, limits: readonly Limit[], options: SetOptions = {}): Promise<boolean> {
    return this.#admin.setConfig({ level: "planTotal", planId }, limits, options);
  }

  async getPlanTotals(planId: string): Promise<readonly Limit[]> {
    return (await this.#admin.getConfig({ level: "planTotal", planId }, {})).limits;
  }

  deletePlanTotals(planId: string, options: ChangeOptions = {}): Promise<boolean> {
    return this.#admin.deleteConfig({ level: "planTotal", planId }, options);
  }

  /** Sets the default totals: for each entity without totals of its own or of its plan. */
  setSystemTotals(limits: readonly Limit[], options: SetOptions = {}): Promise<boolean> {
    return this.#admin.setConfig({ level: "systemTotal" }, limits, options);
  }

  async getSystemTotals(): Promise<readonly Limit[]> {
    return (await this.#admin.getConfig({ level: "systemTotal" }, {})).limits;
  }

  deleteSystemTotals(options: ChangeOptions = {}): Promise<boolean> {
    return this.#admin.deleteConfig({ level: "systemTotal" }, options);
  }

  // Plans

  /** Creates a plan, which entities use by `planId`. */
  createPlan(plan: NewPlan, options: ChangeOptions = {}): Promise<Plan> {
    return this.#plans.create(plan, options);
  }

  /** Throws `NotFoundError` when there is none. */
  getPlan(id: string): Promise<Plan> {
    return this.#plans.get(id);
  }

  /** Changes the fields in the patch. With `version`, only if that is still its version (else `ConflictError`). */
  updatePlan(id: string, patch: PlanPatch, options: { version?: number } & ChangeOptions = {}): Promise<Plan> {
    return this.#plans.update(id, patch, options);
  }

  /** Deletes the plan with its limits and totals. Refused while an entity uses it. */
  deletePlan(id: string, options: ChangeOptions = {}): Promise<void> {
    return this.#plans.delete(id, options);
  }

  listPlans(options: ListOptions = {}): Listing<Plan> {
    return listing((page) => this.#deps.scope.plans.list(page), options);
  }

  /** Sets the limits of a plan: on one resource, or (without `resource`) its default for all other resources. */
  setPlanLimits(planId: string, limits: readonly Limit[], options: EntityScope & SetOptions = {}): Promise<boolean> {
    return this.#admin.setConfig(planScope(planId, options), limits, options);
  }

  async getPlanLimits(planId: string, options: EntityScope = {}): Promise<readonly Limit[]> {
    return (await this.#admin.getConfig(planScope(planId, options), options)).limits;
  }

  /** Returns whether there was something to delete. */
  deletePlanLimits(planId: string, options: EntityScope & ChangeOptions = {}): Promise<boolean> {
    return this.#admin.deleteConfig(planScope(planId, options), options);
  }
}

function planScope(planId: string, options: EntityScope): ConfigScope {
  const resource = options?.resource;
  return resource === undefined ? { level: "planDefault", planId } : { level: "plan", planId, resource };
}
