import type { AuditAction, AuditEvent } from "../../domain/config/audit.ts";
import {
  auditIdOf,
  type ConfigScope,
  isTotal,
  type LevelOptions,
  type LimitsChange,
  type OnUnavailable,
  type StoredConfig,
  type SystemSettings,
} from "../../domain/config/config.ts";
import {
  checkPatch,
  type Entity,
  type EntityPatch,
  entityMissing,
  type NewEntity,
  newEntity,
  type ParentProblem,
  type PlanProblem,
} from "../../domain/config/entity.ts";
import { planMissing } from "../../domain/config/plan.ts";
import type { Limit } from "../../domain/limits/limit.ts";
import {
  ConflictError,
  ExistsError,
  type LimiterError,
  NotFoundError,
  ValidationError,
} from "../../domain/names/errors.ts";
import { checkEntityId, checkPrincipal } from "../../domain/names/names.ts";
import type { SetReply } from "../../ports/config-store.ts";
import type { Acquirer } from "../acquire/acquirer.ts";
import { checkSupported } from "../acquire/limits-supported.ts";
import {
  CHANGE_OPTIONS,
  type ChangeOptions,
  checkLevelOptions,
  checkScope,
  checkScopeOptions,
  checkSetOptions,
  checkSettings,
  checkVersion,
  resourceIn,
  type SetOptions,
  UPDATE_OPTIONS,
} from "./level-options.ts";
import type { EngineDeps, Settings } from "./settings.ts";

/** What became of limits that were set or deleted. */
export type SetOutcome = Exclude<SetReply, "planMissing">;

/** Changes of entities and stored limits: checked, written together with their audit event, and known here at once. */
export class Administration {
  readonly #deps: EngineDeps;
  readonly #settings: Settings;
  readonly #acquirer: Acquirer;

  constructor(deps: EngineDeps, settings: Settings, acquirer: Acquirer) {
    this.#deps = deps;
    this.#settings = settings;
    this.#acquirer = acquirer;
  }

  async createEntity(given: NewEntity, options: ChangeOptions): Promise<Entity> {
    CHANGE_OPTIONS.check(options, "The second argument of createEntity");
    const entity = newEntity(given, this.#deps.clock.now());
    const { name, cascade, metadata, parentId, planId } = entity;
    const details = {
      ...{ name, cascade, metadata },
      ...(parentId === undefined ? {} : { parentId }),
      ...(planId === undefined ? {} : { planId }),
    };
    const event = this.event("entity_created", entity.id, options, details);
    const reply = await this.#deps.scope.entities.create(entity, event);
    if (reply.kind === "exists") {
      throw new ExistsError(
        "entity_exists",
        (ways) => `Entity ${entity.id} exists already; change it with ${ways.updateEntity}.`,
      );
    }
    if (reply.kind !== "created") throw ownerError(entity.id, reply);
    this.changed(event);
    return entity;
  }

  async getEntity(id: string): Promise<Entity> {
    const entity = await this.#deps.scope.entities.get(checkEntityId(id));
    if (entity === undefined) throw entityMissing(id);
    return entity;
  }

  async updateEntity(id: string, patch: EntityPatch, options: ChangeOptions & { version?: number }): Promise<Entity> {
    checkEntityId(id);
    UPDATE_OPTIONS.check(options, "The third argument of updateEntity");
    const checked = checkPatch(id, patch);
    const { version } = options;
    checkVersion(version, "entity");
    const event = this.event("entity_updated", id, options, { ...checked });
    const change = { patch: checked, version, nowMs: this.#deps.clock.now() };
    const reply = await this.#deps.scope.entities.update(id, change, event);
    switch (reply.kind) {
      case "updated":
        this.changed(event);
        return reply.entity;
      case "missing":
        throw entityMissing(id);
      case "conflict":
        throw new ConflictError(
          "entity_changed",
          `Entity ${id} is at version ${reply.version}, not ${version}: it was changed in the meantime. Read it again before you change it.`,
        );
      default:
        throw ownerError(id, reply);
    }
  }

  async deleteEntity(id: string, options: ChangeOptions): Promise<void> {
    CHANGE_OPTIONS.check(options, "The second argument of deleteEntity");
    const event = this.event("entity_deleted", checkEntityId(id), options, {});
    const reply = await this.#deps.scope.entities.delete(id, event);
    if (reply.kind === "missing") throw entityMissing(id);
    if (reply.kind === "children") {
      throw new ConflictError(
        "entity_has_children",
        `Entity ${id} has children, such as ${reply.childId}; move or delete them first.`,
      );
    }
    this.changed(event);
  }

  /** Answers whether it wrote: not where the level says the same already, nor where `ifAbsent` finds limits. */
  async setConfig(scope: ConfigScope, given: readonly Limit[], options: SetOptions & SystemSettings): Promise<boolean> {
    return (await this.setConfigIf(scope, given, options, undefined)) === "written";
  }

  /** The same, only while the level says what was read of it; undefined: in any case. */
  async setConfigIf(
    scope: ConfigScope,
    given: readonly Limit[],
    options: SetOptions & SystemSettings,
    expected: StoredConfig | undefined,
  ): Promise<SetOutcome> {
    checkScope(scope);
    checkSetOptions(scope, options);
    // Only the system level has something to say besides limits.
    const settings = scope.level === "system" ? checkSettings(options) : {};
    const onlySettings = Object.keys(settings).length > 0 && Array.isArray(given) && given.length === 0;
    const limits = onlySettings ? [] : checkSupported(given, this.#deps);
    const { ifAbsent, ...level } = checkLevelOptions(options);
    const created = this.requireCreated(scope);
    if (created !== undefined) await created;
    const event = this.#configEvent("set", scope, options, { limits, ...level, ...settings });
    const change = { limits, ...level, ...settings, ...(ifAbsent === true ? { ifAbsent } : {}) };
    return this.#set(scope, expected === undefined ? change : { ...change, expected }, event);
  }

  /** Changes the limits of the system, what an outage means, or both; the other stays. `null` takes away. */
  async changeSystem(
    change: {
      readonly limits?: readonly Limit[] | null;
      readonly onUnavailable?: OnUnavailable | null;
      readonly usageKeptDays?: number | null;
    } & LevelOptions,
    options: ChangeOptions & { readonly ifAbsent?: true },
  ): Promise<boolean> {
    const { limits, onUnavailable, usageKeptDays, ...level } = change;
    const { ifAbsent, ...who } = options;
    const checked: LimitsChange = {
      ...(limits === undefined ? {} : { limits: limits === null ? [] : checkSupported(limits, this.#deps) }),
      ...(onUnavailable === undefined ? {} : { onUnavailable }),
      ...(usageKeptDays === undefined ? {} : { usageKeptDays }),
      ...level,
    };
    const isDeleted = limits === null || (limits === undefined && (onUnavailable ?? usageKeptDays) === null);
    const event = this.#configEvent(isDeleted ? "deleted" : "set", { level: "system" }, who, { ...checked });
    const reply = await this.#set({ level: "system" }, ifAbsent === true ? { ...checked, ifAbsent } : checked, event);
    return reply === "written";
  }

  async getConfig(scope: ConfigScope, options: object): Promise<StoredConfig> {
    checkScope(scope);
    checkScopeOptions(scope, options);
    const found = await this.#deps.scope.config.get(scope);
    if (found === undefined) await this.#requirePlanOf(scope);
    return found ?? { limits: [] };
  }

  async deleteConfig(scope: ConfigScope, options: ChangeOptions): Promise<boolean> {
    checkScope(scope);
    checkScopeOptions(scope, options);
    const event = this.#configEvent("deleted", scope, options, {});
    const deleted = await this.#deps.scope.config.delete(scope, event);
    if (deleted) this.changed(event);
    else await this.#requirePlanOf(scope);
    return deleted;
  }

  async #set(scope: ConfigScope, change: LimitsChange, event: AuditEvent): Promise<SetOutcome> {
    const reply = await this.#deps.scope.config.set(scope, change, event);
    if (reply === "planMissing") throw planMissing("planId" in scope ? scope.planId : "");
    if (reply === "written") this.changed(event);
    return reply;
  }

  /** Of a plan that there is not, nothing is stored; whoever misspells one should hear of it. */
  async #requirePlanOf(scope: ConfigScope): Promise<void> {
    if (!("planId" in scope)) return;
    if ((await this.#deps.scope.plans.get(scope.planId)) === undefined) throw planMissing(scope.planId);
  }

  #configEvent(
    done: "set" | "deleted",
    scope: ConfigScope,
    options: ChangeOptions,
    details: Readonly<Record<string, unknown>>,
  ): AuditEvent {
    const action = isTotal(scope) ? (`totals_${done}` as const) : (`limits_${done}` as const);
    return this.event(action, auditIdOf(scope), options, details, resourceIn(scope));
  }

  /**
   * Throws for a scope of an entity that was never created, where such are refused. It is a check of the name, not a lock: an entity
   * that is deleted right after takes with it what is set. Undefined where nothing is asked: a change that does not wait is under way at
   * once, and a limiter that closes waits for it.
   */
  requireCreated(scope: ConfigScope): Promise<unknown> | undefined {
    const isAsked = this.#settings.unknownEntities === "refuse" && "entityId" in scope;
    return isAsked ? this.getEntity(scope.entityId) : undefined;
  }

  /** An event as it will be stored, its principal checked before anything is written. */
  event(
    action: AuditAction,
    entityId: string,
    { principal }: ChangeOptions,
    details: Readonly<Record<string, unknown>>,
    resource?: string,
  ): AuditEvent {
    const atMs = this.#deps.clock.now();
    return {
      eventId: `${Math.max(0, atMs).toString(36).padStart(9, "0")}-${this.#deps.random.id()}`,
      atMs,
      action,
      entityId,
      ...(resource === undefined ? {} : { resource }),
      ...(principal === undefined ? {} : { principal: checkPrincipal(principal) }),
      details,
    };
  }

  /** What was remembered before a change of this process is not used after it. */
  changed({ action, entityId, resource }: AuditEvent): void {
    this.#acquirer.configCache.expire();
    this.#acquirer.deny.clear();
    // Raised limits may let in who waits.
    this.#acquirer.room.wakeHeads();
    const { limitsChanged } = this.#deps.events;
    if (!limitsChanged.active) return;
    limitsChanged.publish({
      namespace: this.#settings.namespace,
      action,
      entityId,
      ...(resource === undefined ? {} : { resource }),
    });
  }
}

function ownerError(id: string, problem: ParentProblem | PlanProblem): LimiterError {
  switch (problem.kind) {
    case "planMissing":
      return planMissing(problem.planId);
    case "parentMissing":
      return new NotFoundError(
        "parent_not_found",
        (ways) => `The parent ${problem.parentId} of ${id} does not exist; create it first with ${ways.createEntity}.`,
      );
    case "cycle":
      return new ValidationError(
        "entity_cycle",
        `${id} cannot be its own ancestor: ${problem.path.join(" -> ")}. Choose another parent.`,
      );
    case "tooDeep":
      return new ValidationError(
        "entity_too_deep",
        `${id} would be in a hierarchy of ${problem.levels} levels; at most 8 are supported. Choose a parent closer to the top.`,
      );
  }
}
