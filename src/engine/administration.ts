import type { AuditAction, AuditEvent } from "../domain/audit.ts";
import {
  auditIdOf,
  type ConfigScope,
  type LimitsChange,
  type OnUnavailable,
  type StoredConfig,
  type SystemSettings,
} from "../domain/config.ts";
import {
  checkPatch,
  type Entity,
  type EntityPatch,
  entityMissing,
  type NewEntity,
  newEntity,
  type ParentProblem,
} from "../domain/entity.ts";
import { ConflictError, ExistsError, type LimiterError, NotFoundError, ValidationError } from "../domain/errors.ts";
import { KnownNames } from "../domain/known-names.ts";
import { checkLimits, type Limit } from "../domain/limit.ts";
import { checkEntityId, checkPrincipal, checkResource, shown } from "../domain/names.ts";
import { checkUsageKeptDays } from "../domain/retention.ts";
import type { Acquirer } from "./acquirer.ts";
import type { EngineDeps, Settings } from "./settings.ts";

/** Every change takes the one who made it, for the audit trail. */
export interface ChangeOptions {
  /** Who makes the change, for the audit trail. */
  readonly principal?: string;
}

/** The options of a change that has no others. */
export const CHANGE_OPTIONS = new KnownNames<ChangeOptions>({ principal: true });

const UPDATE_OPTIONS = new KnownNames<ChangeOptions & { version?: number }>({ principal: true, version: true });

/** Limits of an entity: the resource is named among the options. */
const ENTITY_OPTIONS = new KnownNames<ChangeOptions & { resource?: string }>({ principal: true, resource: true });
const SYSTEM_OPTIONS = new KnownNames<ChangeOptions & SystemSettings>({
  ...{ principal: true, onUnavailable: true, usageKeptDays: true },
});

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
    const { name, cascade, metadata, parentId } = entity;
    const details = { name, cascade, metadata, ...(parentId === undefined ? {} : { parentId }) };
    const event = this.event("entity_created", entity.id, options, details);
    const reply = await this.#deps.scope.entities.create(entity, event);
    if (reply.kind === "exists") {
      throw new ExistsError(
        "entity_exists",
        (ways) => `Entity ${entity.id} exists already; change it with ${ways.updateEntity}.`,
      );
    }
    if (reply.kind !== "created") throw parentError(entity.id, reply);
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
    if (version !== undefined && !Number.isSafeInteger(version)) {
      throw new ValidationError(
        "version_invalid",
        `version is ${shown(version)}; give the version of the entity read.`,
      );
    }
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
          `Entity ${id} is at version ${reply.version}, not ${version}: it was changed meanwhile. Read it again, then decide.`,
        );
      default:
        throw parentError(id, reply);
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
        `Entity ${id} has children, ${reply.childId} among them; move or delete them first.`,
      );
    }
    this.changed(event);
  }

  async setConfig(scope: ConfigScope, given: readonly Limit[], options: ChangeOptions & SystemSettings): Promise<void> {
    checkScope(scope);
    checkConfigOptions(scope, options);
    // Only the system level has something to say besides limits.
    const settings = scope.level === "system" ? checkSettings(options) : {};
    const onlySettings = Object.keys(settings).length > 0 && Array.isArray(given) && given.length === 0;
    const limits = onlySettings ? [] : checkLimits(given, this.#deps.calendar);
    const config: LimitsChange = { limits, ...settings };
    const created = this.requireCreated(scope);
    if (created !== undefined) await created;
    const event = this.event("limits_set", auditIdOf(scope), options, { ...config }, resourceIn(scope));
    await this.#deps.scope.config.set(scope, config, event);
    this.changed(event);
  }

  /** Changes the limits of the system, what an outage means, or both; the other stays. `null` takes away. */
  async changeSystem(
    change: { readonly limits?: readonly Limit[] | null; readonly onUnavailable?: OnUnavailable | null },
    options: ChangeOptions,
  ): Promise<void> {
    const { limits, onUnavailable } = change;
    const checked: LimitsChange = {
      ...(limits === undefined ? {} : { limits: limits === null ? [] : checkLimits(limits, this.#deps.calendar) }),
      ...(onUnavailable === undefined ? {} : { onUnavailable }),
    };
    const isDeleted = limits === null || (limits === undefined && onUnavailable === null);
    const event = this.event(isDeleted ? "limits_deleted" : "limits_set", "$SYSTEM", options, { ...checked });
    await this.#deps.scope.config.set({ level: "system" }, checked, event);
    this.changed(event);
  }

  async getConfig(scope: ConfigScope, options: object): Promise<StoredConfig> {
    checkScope(scope);
    checkConfigOptions(scope, options);
    return (await this.#deps.scope.config.get(scope)) ?? { limits: [] };
  }

  async deleteConfig(scope: ConfigScope, options: ChangeOptions): Promise<boolean> {
    checkScope(scope);
    checkConfigOptions(scope, options);
    const event = this.event("limits_deleted", auditIdOf(scope), options, {}, resourceIn(scope));
    const deleted = await this.#deps.scope.config.delete(scope, event);
    if (deleted) this.changed(event);
    return deleted;
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

/** The scope's id in the audit log, its names checked. */
export function auditIdOfScope(scope: ConfigScope): string {
  checkScope(scope);
  return auditIdOf(scope);
}

function checkScope(scope: ConfigScope): void {
  if (scope.level === "entity" || scope.level === "entityDefault") checkEntityId(scope.entityId);
  if (scope.level === "entity" || scope.level === "resource") checkResource(scope.resource);
}

function checkConfigOptions({ level }: ConfigScope, options: object): void {
  const what = "The options of the stored limits";
  if (level === "system") SYSTEM_OPTIONS.check(options, what);
  else if (level === "resource") CHANGE_OPTIONS.check(options, what);
  else ENTITY_OPTIONS.check(options, what);
}

function checkSettings({ onUnavailable, usageKeptDays }: SystemSettings): SystemSettings {
  if (onUnavailable !== undefined && onUnavailable !== "allow" && onUnavailable !== "block") {
    throw new ValidationError(
      "on_unavailable_invalid",
      `onUnavailable is ${shown(onUnavailable)}; give "allow" or "block".`,
    );
  }
  return {
    ...(onUnavailable === undefined ? {} : { onUnavailable }),
    ...(usageKeptDays === undefined ? {} : { usageKeptDays: checkUsageKeptDays(usageKeptDays) }),
  };
}

export function resourceIn(scope: ConfigScope): string | undefined {
  return scope.level === "entity" || scope.level === "resource" ? scope.resource : undefined;
}

function parentError(id: string, problem: ParentProblem): LimiterError {
  switch (problem.kind) {
    case "parentMissing":
      return new NotFoundError(
        "parent_not_found",
        (ways) => `The parent ${problem.parentId} of ${id} does not exist; create it first with ${ways.createEntity}.`,
      );
    case "cycle":
      return new ValidationError(
        "entity_cycle",
        `${id} cannot be below itself: ${problem.path.join(" -> ")}. Choose another parent.`,
      );
    case "tooDeep":
      return new ValidationError(
        "entity_too_deep",
        `${id} would stand in a chain of ${problem.levels} levels; at most 8 are supported. Choose a higher parent.`,
      );
  }
}
