import type { AuditEvent } from "../../domain/audit.ts";
import {
  type ConfigScope,
  type LevelConfig,
  type LimitsChange,
  type PolicyChange,
  type StoredConfig,
  scopesOf,
} from "../../domain/config.ts";
import { type ConfigChange, limitsChangedIf, limitsDeleted, policyChanged } from "../../domain/config-change.ts";
import { resolveChanges, saidOver } from "../../domain/config-versions.ts";
import type { Page, PageRequest } from "../../domain/paging.ts";
import { refuseUsageKeptDays } from "../../domain/retention.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import type { ConfigStore, SetReply } from "../../ports/config-store.ts";
import { InNamespace } from "./in-namespace.ts";
import { textList } from "./list-orders.ts";

export class MemoryConfig extends InNamespace implements ConfigStore {
  generation(): number {
    return this.all.generation;
  }

  resolve(entityId: string, resource: string): LevelConfig {
    return this.resolveSync(entityId, resource);
  }

  resolveSync(entityId: string, resource: string): LevelConfig {
    this.requireActive();
    return this.levelOf(entityId, resource);
  }

  /** The same, whatever became of the namespace. */
  levelOf(entityId: string, resource: string): LevelConfig {
    const entity = this.data.entities.get(entityId);
    const scopes = scopesOf(entityId, resource, entity?.planId);
    const found = scopes.map((scope) => this.get(scope));
    const historyOf = (scope: ConfigScope) => this.data.versions.of(keyOf(scope));
    const stints = this.data.stints.get(entityId);
    const scopesWith = (planId: string | undefined) => scopesOf(entityId, resource, planId);
    const saidBy = (scope: ConfigScope) => saidOver(historyOf(scope), this.get(scope));
    const past = stints === undefined ? undefined : { stints, scopesWith, historyOf: saidBy };
    return resolveChanges(found, scopes.map(historyOf), scopes, entity, past);
  }

  get(scope: ConfigScope): StoredConfig | undefined {
    return this.data.configs.get(keyOf(scope))?.config;
  }

  set(scope: ConfigScope, change: LimitsChange, event: AuditEvent): SetReply {
    refuseUsageKeptDays(change);
    this.requireActive();
    if ("planId" in scope && !this.data.plans.has(scope.planId)) return "planMissing";
    const changed = limitsChangedIf(this.get(scope), change);
    if (changed.kind === "conflict") return "conflict";
    return this.#make(scope, changed, event) ? "written" : "unchanged";
  }

  setPolicy(scope: ConfigScope, change: PolicyChange, event: AuditEvent): boolean {
    return this.#make(scope, policyChanged(this.get(scope), change), event);
  }

  delete(scope: ConfigScope, event: AuditEvent): boolean {
    return this.#make(scope, limitsDeleted(this.get(scope)), event);
  }

  listForEntity(entityId: string, page: PageRequest): MaybePromise<Page<{ scope: ConfigScope; config: StoredConfig }>> {
    // "" sorts the default before every resource.
    const resourceOf = (scope: ConfigScope) => {
      if (scope.level === "entity" && scope.entityId === entityId) return scope.resource;
      return scope.level === "entityDefault" && scope.entityId === entityId ? "" : undefined;
    };
    const resources = () => this.#namesIn(resourceOf);
    const found = (resource: string) =>
      this.#found(resource === "" ? { level: "entityDefault", entityId } : { level: "entity", entityId, resource });
    return this.data.orders.pageByTurns(textList(`limits of ${entityId}`, resources, found), page);
  }

  listEntities(resource: string, page: PageRequest): MaybePromise<Page<string>> {
    const ids = () =>
      this.#namesIn((scope) => (scope.level === "entity" && scope.resource === resource ? scope.entityId : undefined));
    const found = (entityId: string) => this.#found({ level: "entity", entityId, resource }) && entityId;
    return this.data.orders.pageByTurns(textList(`limits on ${resource}`, ids, found), page);
  }

  listEntityResources(page: PageRequest): MaybePromise<Page<string>> {
    const names = () => new Set(this.#namesIn((scope) => (scope.level === "entity" ? scope.resource : undefined)));
    const found = (resource: string) => (names().has(resource) ? resource : undefined);
    return this.data.orders.pageByTurns(
      textList("resources of entities", () => [...names()], found),
      page,
    );
  }

  listResources(page: PageRequest): MaybePromise<Page<string>> {
    const names = () => this.#namesIn((scope) => (scope.level === "resource" ? scope.resource : undefined));
    const found = (resource: string) => this.#found({ level: "resource", resource }) && resource;
    return this.data.orders.pageByTurns(textList("resources", names, found), page);
  }

  *#namesIn(nameOf: (scope: ConfigScope) => string | undefined): Generator<string> {
    for (const { scope, config } of this.data.configs.values()) {
      const name = config.limits.length > 0 ? nameOf(scope) : undefined;
      if (name !== undefined) yield name;
    }
  }

  #found(scope: ConfigScope): { readonly scope: ConfigScope; readonly config: StoredConfig } | undefined {
    const found = this.data.configs.get(keyOf(scope));
    return found !== undefined && found.config.limits.length > 0 ? found : undefined;
  }

  #make(scope: ConfigScope, change: ConfigChange, event: AuditEvent): boolean {
    this.requireActive();
    if (change.kind === "unchanged") return false;
    const { config } = change;
    const key = keyOf(scope);
    this.data.versions.note(key, scope, { before: this.get(scope), after: config, time: this.timeOf(event) });
    if (config === undefined) this.data.configs.delete(key);
    else this.data.configs.set(key, { scope, config });
    this.changed(event);
    return true;
  }
}

function keyOf(scope: ConfigScope): string {
  switch (scope.level) {
    case "entity":
      return `entity\n${scope.entityId}\n${scope.resource}`;
    case "entityDefault":
      return `entity\n${scope.entityId}`;
    case "plan":
      return `plan\n${scope.planId}\n${scope.resource}`;
    case "planDefault":
      return `plan\n${scope.planId}`;
    case "resource":
      return `resource\n${scope.resource}`;
    case "system":
      return "system";
    case "entityTotal":
      return `entity\n${scope.entityId}\n*`;
    case "planTotal":
      return `plan\n${scope.planId}\n*`;
    case "systemTotal":
      return "system\n*";
  }
}
