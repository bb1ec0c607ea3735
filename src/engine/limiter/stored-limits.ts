import { type ConfigScope, type LimitSource, levelAt, type SystemSettings } from "../../domain/config/config.ts";
import type { NewPlan, Plan, PlanPatch } from "../../domain/config/plan.ts";
import type { Limit } from "../../domain/limits/limit.ts";
import { allSources, mergeError } from "../../domain/limits/merged-limits.ts";
import { given } from "../../domain/names/given.ts";
import { checkEntityId, checkResource } from "../../domain/names/names.ts";
import type { ChangeOptions, DeleteOptions, SetOptions } from "./level-options.ts";
import type { LimiterParts } from "./limiter-parts.ts";
import { type Listing, type ListOptions, limitsListed, listing, type StoredSet } from "./listing.ts";
import { createPlan, deletePlan, ensurePlan, getPlan, updatePlan } from "./plan-administration.ts";

/** Which limits of an entity or a plan. */
export interface EntityScope {
  /** Limits on this resource. Default: those for all resources that have none of their own. */
  readonly resource?: string;
}

function entityScope(entityId: string, options: EntityScope): ConfigScope {
  // The check of the options refuses what is no object.
  const resource = options?.resource;
  return resource === undefined ? { level: "entityDefault", entityId } : { level: "entity", entityId, resource };
}

/** What a limiter does with stored limits, totals and plans. Every call that sets returns whether it changed something. */
export class StoredLimits {
  readonly #parts: Pick<LimiterParts, "deps" | "admin">;

  /** @internal */
  constructor(parts: Pick<LimiterParts, "deps" | "admin">) {
    this.#parts = parts;
  }

  // Limits

  /**
   * Sets the limits of an entity: on one resource, or without `resource` on every resource for which it has none of
   * its own. Answers whether anything changed.
   */
  setLimits(entityId: string, limits: readonly Limit[], options: EntityScope & SetOptions = {}): Promise<boolean> {
    return this.#parts.admin.setConfig(entityScope(entityId, options), limits, options);
  }

  /** The limits that are set for exactly this entity, on one resource or without one; an empty list if there are none. */
  async getLimits(entityId: string, options: EntityScope = {}): Promise<readonly Limit[]> {
    return (await this.#parts.admin.getConfig(entityScope(entityId, options), options)).limits;
  }

  /** Deletes them. Answers whether there were any. */
  deleteLimits(entityId: string, options: EntityScope & DeleteOptions = {}): Promise<boolean> {
    return this.#parts.admin.deleteConfig(entityScope(entityId, options), options);
  }

  /** Every set of limits that is stored for an entity. The set without `resource` is its default. */
  listLimits(entityId: string, options: ListOptions = {}): Listing<StoredSet> {
    return limitsListed(this.#parts.deps, entityId, options);
  }

  /** Ids of the entities that have limits of their own on a resource. */
  listEntitiesWithLimits(resource: string, options: ListOptions = {}): Listing<string> {
    checkResource(resource);
    const { scope, clock } = this.#parts.deps;
    return listing((page) => scope.config.listEntities(resource, clock.now(), page), options);
  }

  /** Resources on which an entity has limits of its own, whether the entity was created or not. */
  listResourcesWithEntityLimits(options: ListOptions = {}): Listing<string> {
    const { scope, clock } = this.#parts.deps;
    return listing((page) => scope.config.listEntityResources(clock.now(), page), options);
  }

  /** Sets the limits of a resource for every entity that has none of its own. Answers whether anything changed. */
  setResourceDefaults(resource: string, limits: readonly Limit[], options: SetOptions = {}): Promise<boolean> {
    return this.#parts.admin.setConfig({ level: "resource", resource }, limits, options);
  }

  /** The default limits of a resource; an empty list if there are none. */
  async getResourceDefaults(resource: string): Promise<readonly Limit[]> {
    return (await this.#parts.admin.getConfig({ level: "resource", resource }, {})).limits;
  }

  /** Deletes them. Answers whether there were any. */
  deleteResourceDefaults(resource: string, options: DeleteOptions = {}): Promise<boolean> {
    return this.#parts.admin.deleteConfig({ level: "resource", resource }, options);
  }

  /** Resources that have default limits. */
  listResources(options: ListOptions = {}): Listing<string> {
    const { scope, clock } = this.#parts.deps;
    return listing((page) => scope.config.listResources(clock.now(), page), options);
  }

  /**
   * Sets the limits for all entities and resources that have no others, and the settings of the namespace. A setting
   * that is left out stays as it is stored. Answers whether anything changed.
   */
  setSystemDefaults(limits: readonly Limit[], options: SystemSettings & SetOptions = {}): Promise<boolean> {
    return this.#parts.admin.setConfig({ level: "system" }, limits, options);
  }

  /** The limits and the settings of the namespace. */
  getSystemDefaults(): Promise<{ readonly limits: readonly Limit[] } & SystemSettings> {
    return this.#parts.admin.getConfig({ level: "system" }, {});
  }

  /** Deletes them. Answers whether there were any. */
  deleteSystemDefaults(options: DeleteOptions = {}): Promise<boolean> {
    return this.#parts.admin.deleteConfig({ level: "system" }, options);
  }

  /**
   * The stored limits that apply when this entity asks for this resource. `source` is the first level that has limits,
   * `sources` the level of each limit by its name. `untilMs`: when limits of a level that matters end by themselves.
   */
  async resolveLimits(
    entityId: string,
    resource: string,
  ): Promise<{
    readonly limits: readonly Limit[];
    readonly source: LimitSource;
    readonly sources: Readonly<Record<string, LimitSource>>;
    readonly untilMs?: number;
  }> {
    checkEntityId(entityId);
    checkResource(resource);
    const { scope, clock } = this.#parts.deps;
    const config = levelAt(await scope.config.resolve(entityId, resource), clock.now());
    if (config.problem !== undefined) throw mergeError({ entityId, resource }, config.problem);
    const { limits, source, next } = config;
    return { limits, source, sources: allSources(config), ...given({ untilMs: next?.atMs }) };
  }

  // Totals

  /** Sets the limits of an entity over all its resources together. Answers whether anything changed. */
  setTotals(entityId: string, limits: readonly Limit[], options: SetOptions = {}): Promise<boolean> {
    return this.#parts.admin.setConfig({ level: "entityTotal", entityId }, limits, options);
  }

  /** The totals that are set for exactly this entity; an empty list if there are none. */
  async getTotals(entityId: string): Promise<readonly Limit[]> {
    return (await this.#parts.admin.getConfig({ level: "entityTotal", entityId }, {})).limits;
  }

  /** Deletes them. Answers whether there were any. */
  deleteTotals(entityId: string, options: DeleteOptions = {}): Promise<boolean> {
    return this.#parts.admin.deleteConfig({ level: "entityTotal", entityId }, options);
  }

  /** Sets the totals of each entity of a plan that has none of its own. Answers whether anything changed. */
  setPlanTotals(planId: string, limits: readonly Limit[], options: SetOptions = {}): Promise<boolean> {
    return this.#parts.admin.setConfig({ level: "planTotal", planId }, limits, options);
  }

  /** The totals of a plan; an empty list if there are none. */
  async getPlanTotals(planId: string): Promise<readonly Limit[]> {
    return (await this.#parts.admin.getConfig({ level: "planTotal", planId }, {})).limits;
  }

  /** Deletes them. Answers whether there were any. */
  deletePlanTotals(planId: string, options: DeleteOptions = {}): Promise<boolean> {
    return this.#parts.admin.deleteConfig({ level: "planTotal", planId }, options);
  }

  /** Sets the totals of each entity that has none of its own and none by its plan. Answers whether anything changed. */
  setSystemTotals(limits: readonly Limit[], options: SetOptions = {}): Promise<boolean> {
    return this.#parts.admin.setConfig({ level: "systemTotal" }, limits, options);
  }

  /** The totals of the namespace; an empty list if there are none. */
  async getSystemTotals(): Promise<readonly Limit[]> {
    return (await this.#parts.admin.getConfig({ level: "systemTotal" }, {})).limits;
  }

  /** Deletes them. Answers whether there were any. */
  deleteSystemTotals(options: DeleteOptions = {}): Promise<boolean> {
    return this.#parts.admin.deleteConfig({ level: "systemTotal" }, options);
  }

  // Plans

  /** Creates a plan. Throws `plan_exists` if there is one of that id. */
  createPlan(plan: NewPlan, options: ChangeOptions = {}): Promise<Plan> {
    return createPlan(this.#parts, plan, options);
  }

  /**
   * Creates the plan if there is none of that id, and answers the stored one. A plan that exists is not changed. For
   * programs that start again.
   */
  async ensurePlan(plan: NewPlan, options: ChangeOptions = {}): Promise<Plan> {
    return (await ensurePlan(this.#parts, plan, options)).item;
  }

  /** The plan of that id. Throws `plan_not_found` if there is none. */
  getPlan(id: string): Promise<Plan> {
    return getPlan(this.#parts, id);
  }

  /**
   * Changes the fields that the patch names. With `version` it throws `plan_changed` if the plan has another version
   * by now.
   */
  updatePlan(id: string, patch: PlanPatch, options: { version?: number } & ChangeOptions = {}): Promise<Plan> {
    return updatePlan(this.#parts, id, patch, options);
  }

  /** Deletes the plan with its limits and totals. Throws `plan_in_use` while an entity refers to it. */
  deletePlan(id: string, options: ChangeOptions = {}): Promise<void> {
    return deletePlan(this.#parts, id, options);
  }

  /** All plans of the namespace. */
  listPlans(options: ListOptions = {}): Listing<Plan> {
    return listing((page) => this.#parts.deps.scope.plans.list(page), options);
  }

  /**
   * Sets the limits of each entity of a plan that has none of its own: on one resource, or without `resource` on every
   * resource for which the plan has none. Answers whether anything changed.
   */
  setPlanLimits(planId: string, limits: readonly Limit[], options: EntityScope & SetOptions = {}): Promise<boolean> {
    return this.#parts.admin.setConfig(planScope(planId, options), limits, options);
  }

  /** The limits of a plan, on one resource or without one; an empty list if there are none. */
  async getPlanLimits(planId: string, options: EntityScope = {}): Promise<readonly Limit[]> {
    return (await this.#parts.admin.getConfig(planScope(planId, options), options)).limits;
  }

  /** Deletes them. Answers whether there were any. */
  deletePlanLimits(planId: string, options: EntityScope & DeleteOptions = {}): Promise<boolean> {
    return this.#parts.admin.deleteConfig(planScope(planId, options), options);
  }
}

function planScope(planId: string, options: EntityScope): ConfigScope {
  const resource = options?.resource;
  return resource === undefined ? { level: "planDefault", planId } : { level: "plan", planId, resource };
}
