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
import { inForce, type ShownConfig, shownConfig, withoutEnded } from "../../domain/config/overrides.ts";
import { planMissing } from "../../domain/config/plan.ts";
import type { Limit } from "../../domain/limits/limit.ts";
import {
  ConflictError,
  ExistsError,
  type LimiterError,
  NotFoundError,
  ValidationError,
} from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import { checkEntityId, checkPrincipal } from "../../domain/names/names.ts";
import type { SetReply } from "../../ports/config-store.ts";
import type { Acquirer } from "../acquire/acquirer.ts";
import { checkSupported } from "../acquire/request-limits.ts";
import {
  CHANGE_OPTIONS,
  type ChangeOptions,
  checkDeleteOptions,
  checkLevelOptions,
  checkScope,
  checkScopeOptions,
  checkSetOptions,
  checkSettings,
  checkVersion,
  type DeleteOptions,
  resourceIn,
  type SetOptions,
  UPDATE_OPTIONS,
} from "./level-options.ts";
import type { EngineDeps, Settings } from "./settings.ts";

/** The result of setting or deleting limits. */
type SetOutcome = Exclude<SetReply, "planMissing">;

/** Changes entities and stored limits: checks, writes with an audit event, and expires the caches of this process. */
export class Administration {
  readonly #deps: EngineDeps;
  readonly #settings: Settings;
  readonly #acquirer: Acquirer;

  constructor(deps: EngineDeps, settings: Settings, acquirer: Acquirer) {
    this.#deps = deps;
    this.#settings = settings;
    this.#acquirer = acquirer;
  }

  async createEntity(wanted: NewEntity, options: ChangeOptions): Promise<Entity> {
    CHANGE_OPTIONS.check(options, "The second argument of createEntity");
    const entity = newEntity(wanted, this.#deps.clock.now());
    const { name, cascade, metadata, parentId, planId } = entity;
    const details = { name, cascade, metadata, ...given({ parentId, planId }) };
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

  /** True if it wrote: not if the level has the same limits already, or `ifAbsent` finds some. */
  async setConfig(scope: ConfigScope, given: readonly Limit[], options: SetOptions & SystemSettings): Promise<boolean> {
    return (await this.setConfigIf(scope, given, options, undefined)) === "written";
  }

  /** Like `setConfig`, only while the level has the `expected` configuration; undefined: in any case. */
  async setConfigIf(
    scope: ConfigScope,
    given: readonly Limit[],
    options: SetOptions & SystemSettings,
    expected: StoredConfig | undefined,
  ): Promise<SetOutcome> {
    checkScope(scope);
    checkSetOptions(scope, options);
    // Only the system level has settings besides limits.
    const settings = scope.level === "system" ? checkSettings(options) : {};
    const onlySettings = Object.keys(settings).length > 0 && Array.isArray(given) && given.length === 0;
    const limits = onlySettings ? [] : checkSupported(given, this.#deps);
    const checked = checkLevelOptions(options, this.#deps.clock.now());
    const { ifAbsent: _, keepOverride: __, ...said } = checked;
    const created = this.requireCreated(scope);
    if (created !== undefined) await created;
    const event = this.#configEvent("set", scope, options, { limits, ...said, ...settings });
    const change = { limits, ...checked, ...settings };
    return this.#set(scope, expected === undefined ? change : { ...change, expected }, event);
  }

  /** Changes limits or settings of the system; what is not named stays. `null` removes. */
  async changeSystem(
    change: {
      readonly limits?: readonly Limit[] | null;
      readonly onUnavailable?: OnUnavailable | null;
      readonly usageKeptDays?: number | null;
    } & LevelOptions,
    options: ChangeOptions & Pick<LimitsChange, "ifAbsent" | "keepOverride">,
  ): Promise<boolean> {
    const { limits, onUnavailable, usageKeptDays, ...level } = change;
    const { ifAbsent, keepOverride, ...who } = options;
    const checked: LimitsChange = {
      ...given({ limits: limits === null ? [] : limits && checkSupported(limits, this.#deps) }),
      ...given({ onUnavailable, usageKeptDays }),
      ...level,
    };
    const isDeleted = limits === null || (limits === undefined && (onUnavailable ?? usageKeptDays) === null);
    const event = this.#configEvent(isDeleted ? "deleted" : "set", { level: "system" }, who, { ...checked });
    const reply = await this.#set({ level: "system" }, { ...checked, ...given({ ifAbsent, keepOverride }) }, event);
    return reply === "written";
  }

  /** What a level says now. */
  async getConfig(scope: ConfigScope, options: object): Promise<StoredConfig> {
    checkScopeOptions(scope, options);
    return inForce(await this.storedConfig(scope), this.#deps.clock.now());
  }

  /** What a level says now, with the overrides that run and what they leave. */
  async shownConfig(scope: ConfigScope): Promise<ShownConfig> {
    return shownConfig(await this.storedConfig(scope), this.#deps.clock.now());
  }

  /** A level as it is stored, without the overrides that are over. */
  async storedConfig(scope: ConfigScope): Promise<StoredConfig> {
    checkScope(scope);
    const found = await this.#deps.scope.config.get(scope);
    if (found === undefined) await this.#requirePlanOf(scope);
    // A level says nothing of whether the namespace is frozen.
    const { frozen: _, ...config } = found ?? { limits: [] };
    return withoutEnded(config, this.#deps.clock.now());
  }

  async deleteConfig(scope: ConfigScope, options: DeleteOptions): Promise<boolean> {
    checkScope(scope);
    const part = checkDeleteOptions(scope, options);
    const event = this.#configEvent("deleted", scope, options, part === "override" ? { override: true } : {});
    const deleted = await this.#deps.scope.config.delete(scope, event, part);
    if (deleted) this.changed(event);
    else await this.#requirePlanOf(scope);
    return deleted;
  }

  /** Deletes the limits of a level that have no end; those that have one go on to it. For manifests. */
  async deleteBase(scope: ConfigScope, options: ChangeOptions): Promise<boolean> {
    const event = this.#configEvent("deleted", scope, options, {});
    return (await this.#set(scope, { limits: [], keepOverride: true }, event)) === "written";
  }

  /** Deletes the limits of a level, or ends its override, only while it has the `expected` configuration. For the service. */
  async deleteConfigIf(scope: ConfigScope, options: DeleteOptions, expected: StoredConfig): Promise<SetOutcome> {
    const isOverride = checkDeleteOptions(scope, options) === "override";
    const event = this.#configEvent("deleted", scope, options, isOverride ? { override: true } : {});
    const { limits, inherit, appliesTo } = expected;
    const base = isOverride ? { limits, ...given({ inherit, appliesTo }) } : { limits: [] };
    const settings = !isOverride && scope.level === "system" ? { onUnavailable: null } : {};
    const reply = await this.#deps.scope.config.set(scope, { ...base, ...settings, expected }, event);
    if (reply === "written") this.changed(event);
    // The limits were deleted with the plan.
    return reply === "planMissing" ? "unchanged" : reply;
  }

  async #set(scope: ConfigScope, change: LimitsChange, event: AuditEvent): Promise<SetOutcome> {
    const reply = await this.#deps.scope.config.set(scope, change, event);
    if (reply === "planMissing") throw planMissing("planId" in scope ? scope.planId : "");
    if (reply === "written") this.changed(event);
    return reply;
  }

  /** A missing plan has no configuration. Throw, so that a misspelled id is noticed. */
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
   * Rejects for a scope of an entity that was never created, if such are refused. It checks the name and locks nothing: deleting the
   * entity deletes what was set. Undefined if there is nothing to check: then the change is sent at once, and closing waits for it.
   */
  requireCreated(scope: ConfigScope): Promise<unknown> | undefined {
    const isAsked = this.#settings.unknownEntities === "refuse" && "entityId" in scope;
    return isAsked ? this.getEntity(scope.entityId) : undefined;
  }

  /** Makes an audit event, and checks its principal before anything is written. */
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
      ...given({ resource, principal: principal === undefined ? undefined : checkPrincipal(principal) }),
      details,
    };
  }

  /** Expires the caches after a change by this process, and publishes it. */
  changed({ action, entityId, resource }: AuditEvent): void {
    this.#acquirer.configCache.expire();
    this.#acquirer.deny.clear();
    // Raised limits may grant requests that wait.
    this.#acquirer.room.wakeHeads();
    const { limitsChanged } = this.#deps.events;
    if (!limitsChanged.active) return;
    const { namespace } = this.#settings;
    limitsChanged.publish({ namespace, action, entityId, ...given({ resource }) });
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
