import type { ConfigScope, LimitSource, SystemSettings } from "../../domain/config/config.ts";
import type { NewPlan, Plan, PlanPatch } from "../../domain/config/plan.ts";
import type { Limit } from "../../domain/limits/limit.ts";
import { allSources, mergeError } from "../../domain/limits/merged-limits.ts";
import { checkEntityId, checkResource } from "../../domain/names/names.ts";
import { ensurePlan } from "../acquire/ensure.ts";
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

  /**
   * Sets the limits of an entity: on one resource, or without `resource` on every resource for which it has none of
   * its own. Answers whether anything changed.
   */
  setLimits(entityId: string, limits: readonly Limit[], options: EntityScope & SetOptions = {}): Promise<boolean> {
    return this.#admin.setConfig(entityScope(entityId, options), limits, options);
  }

  /** The limits that are set for exactly this entity, on one resource or without one; an empty list if there are none. */
  async getLimits(entityId: string, options: EntityScope = {}): Promise<readonly Limit[]> {
    return (await this.#admin.getConfig(entityScope(entityId, options), options)).limits;
  }

  /** Deletes them. Answers whether there were any. */
  deleteLimits(entityId: string, options: EntityScope & ChangeOptions = {}): Promise<boolean> {
    return this.#admin.deleteConfig(entityScope(entityId, options), options);
  }

  /** Every set of limits that is stored for an entity. The set without `resource` is its default. */
  listLimits(entityId: string, options: ListOptions = {}): Listing<StoredSet> {
    return limitsListed(this.#deps, entityId, options);
  }

  /** Ids of the entities that have limits of their own on a resource. */
  listEntitiesWithLimits(resource: string, options: ListOptions = {}): Listing<string> {
    checkResource(resource);
    return listing((page) => this.#deps.scope.config.listEntities(resource, page), options);
  }

  /** Resources on which an entity has limits of its own, whether the entity was created or not. */
  listResourcesWithEntityLimits(options: ListOptions = {}): Listing<string> {
    return listing((page) => this.#deps.scope.config.listEntityResources(page), options);
  }

  /** Sets the limits of a resource for every entity that has none of its own. Answers whether anything changed. */
  setResourceDefaults(resource: string, limits: readonly Limit[], options: SetOptions = {}): Promise<boolean> {
    return this.#admin.setConfig({ level: "resource", resource }, limits, options);
  }

  /** The default limits of a resource; an empty list if there are none. */
  async getResourceDefaults(resource: string): Promise<readonly Limit[]> {
    return (await this.#admin.getConfig({ level: "resource", resource }, {})).limits;
  }

  /** Deletes them. Answers whether there were any. */
  deleteResourceDefaults(resource: string, options: ChangeOptions = {}): Promise<boolean> {
    return this.#admin.deleteConfig({ level: "resource", resource }, options);
  }

  /** Resources that have default limits. */
  listResources(options: ListOptions = {}): Listing<string> {
    return listing((page) => this.#deps.scope.config.listResources(page), options);
  }

  /**
   * Sets the limits for all entities and resources that have no others, and the settings of the namespace. A setting
   * that is left out stays as it is stored. Answers whether anything changed.
   */
  setSystemDefaults(limits: readonly Limit[], options: SystemSettings & SetOptions = {}): Promise<boolean> {
    return this.#admin.setConfig({ level: "system" }, limits, options);
  }

  /** The limits and the settings of the namespace. */
  getSystemDefaults(): Promise<{ readonly limits: readonly Limit[] } & SystemSettings> {
    return this.#admin.getConfig({ level: "system" }, {});
  }

  /** Deletes them. Answers whether there were any. */
  deleteSystemDefaults(options: ChangeOptions = {}): Promise<boolean> {
    return this.#admin.deleteConfig({ level: "system" }, options);
  }

  /**
   * The stored limits that apply when this entity asks for this resource. `source` is the first level that has limits,
   * `sources` the level of each limit by its name.
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

  /** Sets the limits of an entity over all its resources together. Answers whether anything changed. */
  setTotals(entityId: string, limits: readonly Limit[], options: SetOptions = {}): Promise<boolean> {
    return this.#admin.setConfig({ level: "entityTotal", entityId }, limits, options);
  }

  /** The totals that are set for exactly this entity; an empty list if there are none. */
  async getTotals(entityId: string): Promise<readonly Limit[]> {
    return (await this.#admin.getConfig({ level: "entityTotal", entityId }, {})).limits;
  }

  /** Deletes them. Answers whether there were any. */
  deleteTotals(entityId: string, options: ChangeOptions = {}): Promise<boolean> {
    return this.#admin.deleteConfig({ level: "entityTotal", entityId }, options);
  }

  /** Sets the totals of each entity of a plan that has none of its own. Answers whether anything changed. */
  setPlanTotals(planId: string, limits: readonly Limit[], options: SetOptions = {}): Promise<boolean> {
    return this.#admin.setConfig({ level: "planTotal", planId }, limits, options);
  }

  /** The totals of a plan; an empty list if there are none. */
  async getPlanTotals(planId: string): Promise<readonly Limit[]> {
    return (await this.#admin.getConfig({ level: "planTotal", planId }, {})).limits;
  }

  /** Deletes them. Answers whether there were any. */
  deletePlanTotals(planId: string, options: ChangeOptions = {}): Promise<boolean> {
    return this.#admin.deleteConfig({ level: "planTotal", planId }, options);
  }

  /** Sets the totals of each entity that has none of its own and none by its plan. Answers whether anything changed. */
  setSystemTotals(limits: readonly Limit[], options: SetOptions = {}): Promise<boolean> {
    return this.#admin.setConfig({ level: "systemTotal" }, limits, options);
  }

  /** The totals of the namespace; an empty list if there are none. */
  async getSystemTotals(): Promise<readonly Limit[]> {
    return (await this.#admin.getConfig({ level: "systemTotal" }, {})).limits;
  }

  /** Deletes them. Answers whether there were any. */
  deleteSystemTotals(options: ChangeOptions = {}): Promise<boolean> {
    return this.#admin.deleteConfig({ level: "systemTotal" }, options);
  }

  // Plans

  /** Creates a plan. Throws `plan_exists` if there is one of that id. */
  createPlan(plan: NewPlan, options: ChangeOptions = {}): Promise<Plan> {
    return this.#plans.create(plan, options);
  }

  /**
   * Creates the plan if there is none of that id, and answers the stored one. A plan that exists is not changed. For
   * programs that start again.
   */
  async ensurePlan(plan: NewPlan, options: ChangeOptions = {}): Promise<Plan> {
    return (await ensurePlan({ admin: this.#admin, deps: this.#deps }, plan, options)).item;
  }

  /** The plan of that id. Throws `plan_not_found` if there is none. */
  getPlan(id: string): Promise<Plan> {
    return this.#plans.get(id);
  }

  /**
   * Changes the fields that the patch names. With `version` it throws `plan_changed` if the plan has another version
   * by now.
   */
  updatePlan(id: string, patch: PlanPatch, options: { version?: number } & ChangeOptions = {}): Promise<Plan> {
    return this.#plans.update(id, patch, options);
  }

  /** Deletes the plan with its limits and totals. Throws `plan_in_use` while an entity refers to it. */
  deletePlan(id: string, options: ChangeOptions = {}): Promise<void> {
    return this.#plans.delete(id, options);
  }

  /** All plans of the namespace. */
  listPlans(options: ListOptions = {}): Listing<Plan> {
    return listing((page) => this.#deps.scope.plans.list(page), options);
  }

  /**
   * Sets the limits of each entity of a plan that has none of its own: on one resource, or without `resource` on every
   * resource for which the plan has none. Answers whether anything changed.
   */
  setPlanLimits(planId: string, limits: readonly Limit[], options: EntityScope & SetOptions = {}): Promise<boolean> {
    return this.#admin.setConfig(planScope(planId, options), limits, options);
  }

  /** The limits of a plan, on one resource or without one; an empty list if there are none. */
  async getPlanLimits(planId: string, options: EntityScope = {}): Promise<readonly Limit[]> {
    return (await this.#admin.getConfig(planScope(planId, options), options)).limits;
  }

  /** Deletes them. Answers whether there were any. */
  deletePlanLimits(planId: string, options: EntityScope & ChangeOptions = {}): Promise<boolean> {
    return this.#admin.deleteConfig(planScope(planId, options), options);
  }
}

function planScope(planId: string, options: EntityScope): ConfigScope {
  const resource = options?.resource;
  return resource === undefined ? { level: "planDefault", planId } : { level: "plan", planId, resource };
}
