import type { AuditEvent } from "../../domain/audit.ts";
import { type ConfigScope, type LevelConfig, resolveLimits, type StoredConfig, scopesOf } from "../../domain/config.ts";
import { NotFoundError, ValidationError } from "../../domain/errors.ts";
import type { Page, PageRequest } from "../../domain/paging.ts";
import type { ConfigStore } from "../../ports/config-store.ts";
import { dataOf, type MemoryData, type NamespaceData, pageByKey } from "./data.ts";

export class MemoryConfig implements ConfigStore {
  readonly #all: MemoryData;
  readonly #namespaceId: string;
  readonly #data: NamespaceData;

  constructor(all: MemoryData, namespaceId: string) {
    this.#all = all;
    this.#namespaceId = namespaceId;
    this.#data = dataOf(all, namespaceId);
  }

  generation(): number {
    return this.#all.generation;
  }

  resolve(entityId: string, resource: string): LevelConfig {
    return this.resolveSync(entityId, resource);
  }

  resolveSync(entityId: string, resource: string): LevelConfig {
    requireActive(this.#all, this.#namespaceId);
    const scopes = scopesOf(entityId, resource);
    const found = scopes.map((scope) => this.get(scope));
    const entity = this.#data.entities.get(entityId);
    const onUnavailable = found.at(-1)?.onUnavailable;
    return {
      ...resolveLimits(found, scopes),
      ...(entity === undefined ? {} : { entity }),
      ...(onUnavailable === undefined ? {} : { onUnavailable }),
    };
  }

  get(scope: ConfigScope): StoredConfig | undefined {
    return this.#data.configs.get(keyOf(scope))?.config;
  }

  set(scope: ConfigScope, config: StoredConfig, event: AuditEvent): void {
    requireActive(this.#all, this.#namespaceId);
    this.#data.configs.set(keyOf(scope), { scope, config: { ...policyOf(this.get(scope)), ...config } });
    this.#changed(event);
  }

  delete(scope: ConfigScope, event: AuditEvent): boolean {
    requireActive(this.#all, this.#namespaceId);
    const deleted = this.#data.configs.delete(keyOf(scope));
    if (deleted) this.#changed(event);
    return deleted;
  }

  listForEntity(entityId: string, page: PageRequest): Page<{ scope: ConfigScope; config: StoredConfig }> {
    const own = [...this.#data.configs.values()].filter(
      ({ scope }) => (scope.level === "entity" || scope.level === "entityDefault") && scope.entityId === entityId,
    );
    // "" sorts the default before every resource.
    return pageByKey(own, ({ scope }) => (scope.level === "entity" ? scope.resource : ""), page);
  }

  listEntities(resource: string, page: PageRequest): Page<string> {
    const ids = [...this.#data.configs.values()].flatMap(({ scope }) =>
      scope.level === "entity" && scope.resource === resource ? [scope.entityId] : [],
    );
    return pageByKey(ids, (id) => id, page);
  }

  listResources(page: PageRequest): Page<string> {
    const names = [...this.#data.configs.values()].flatMap(({ scope }) =>
      scope.level === "resource" ? [scope.resource] : [],
    );
    return pageByKey(names, (name) => name, page);
  }

  #changed(event: AuditEvent): void {
    this.#data.audit.push(event);
    this.#all.generation++;
  }
}

export function requireOpen({ closed }: MemoryData): void {
  if (closed) throw new ValidationError("closed", "The memory store is closed; open a new limiter.");
}

/** Throws when the namespace was deleted: nobody may go on writing into it. */
export function requireActive(all: MemoryData, namespaceId: string): void {
  requireOpen(all);
  if (all.namespaces.get(namespaceId)?.status === "active") return;
  throw new NotFoundError(
    "namespace_not_found",
    `The namespace with id ${namespaceId} is not active; recover it with recoverNamespace, or open another.`,
  );
}

function policyOf(config: StoredConfig | undefined): Pick<StoredConfig, "onUnavailable"> {
  return config?.onUnavailable === undefined ? {} : { onUnavailable: config.onUnavailable };
}

function keyOf(scope: ConfigScope): string {
  switch (scope.level) {
    case "entity":
      return `entity\n${scope.entityId}\n${scope.resource}`;
    case "entityDefault":
      return `entity\n${scope.entityId}`;
    case "resource":
      return `resource\n${scope.resource}`;
    case "system":
      return "system";
  }
}
