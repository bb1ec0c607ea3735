import type { ConfigScope, StoredConfig } from "../../src/domain/config.ts";
import type { Entity } from "../../src/domain/entity.ts";
import type { Limit } from "../../src/domain/limit.ts";
import type { AcquireRequest } from "../../src/engine/request.ts";
import type { Claim } from "../../src/ports/bucket-store.ts";

/** How one level of the chain stood for a while. */
interface Version {
  readonly limits: readonly Limit[];
  /** The parent that is charged too. */
  readonly next: string | undefined;
}

interface Snapshot {
  readonly fromMs: number;
  readonly configs: ReadonlyMap<string, StoredConfig>;
  readonly entities: ReadonlyMap<string, Entity>;
}

/**
 * Configuration as it really is, and as it was: told by the recorder when a change was applied, resolved here once more
 * from the rules of the public API, and compared with what clients go by.
 */
export class Truth {
  readonly #history: Snapshot[];
  readonly #nowMs: () => number;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
    this.#history = [{ fromMs: Number.NEGATIVE_INFINITY, configs: new Map(), entities: new Map() }];
  }

  get entities(): ReadonlyMap<string, Entity> {
    return this.#now.entities;
  }

  /** How often anything changed. */
  get changes(): number {
    return this.#history.length;
  }

  setConfig(scope: ConfigScope, config: StoredConfig | undefined): void {
    const configs = new Map(this.#now.configs);
    const key = keyOf(scope);
    if (config === undefined) configs.delete(key);
    else configs.set(key, config);
    this.#history.push({ ...this.#now, fromMs: this.#nowMs(), configs });
  }

  setEntity(id: string, entity: Entity | undefined): void {
    const entities = new Map(this.#now.entities);
    let { configs } = this.#now;
    if (entity === undefined) {
      entities.delete(id);
      configs = new Map([...configs].filter(([key]) => !key.startsWith(`${id}\n`)));
    } else entities.set(id, entity);
    this.#history.push({ fromMs: this.#nowMs(), configs, entities });
  }

  /** The level as it is now. */
  level(entityId: string, resource: string): Version {
    return resolved(this.#now, entityId, resource);
  }

  /** The levels that are charged for an entity now. */
  chain(entityId: string, resource: string): { readonly entityId: string; readonly limits: readonly Limit[] }[] {
    const chain = [];
    for (let id: string | undefined = entityId; id !== undefined; ) {
      const { limits, next }: Version = this.level(id, resource);
      chain.push({ entityId: id, limits });
      id = next;
    }
    return chain;
  }

  /** Whether claims are what somebody had to send who read each level at some time since then. */
  explains(claims: readonly Claim[], limitsGiven: boolean, sinceMs: number): boolean {
    const first = claims[0];
    if (first === undefined) return true;
    const { entityId, resource } = first.bucket;
    const asked = first.take.map(({ limit }) => limit);
    const walk = (id: string | undefined, at: number): boolean => {
      if (id === undefined) return at === claims.length;
      return this.#versions(id, resource, sinceMs).some(({ limits, next }) => {
        const claim = claims[at];
        // Limits given in the request stand in for those of the entity itself.
        if (at === 0) return claim !== undefined && (limitsGiven || sameLimits(claim, limits)) && walk(next, 1);
        const shared = asked.filter((name) => limits.some((limit) => limit.name === name));
        if (shared.length === 0) return walk(next, at);
        if (claim?.bucket.entityId !== id || !sameLimits(claim, limits)) return false;
        return claim.take.map(({ limit }) => limit).join() === shared.join() && walk(next, at + 1);
      });
    };
    return walk(entityId, 0);
  }

  /** Whether the request is wrong by the limits of some moment since then: unknown names, or more than there can be. */
  refuses({ entityId, resource, consume, limits: given }: AcquireRequest, sinceMs: number): boolean {
    const asked = Object.entries(consume as Record<string, number>);
    const above = ({ limits }: Version) =>
      asked.some(([name, tokens]) => limits.some((limit) => limit.name === name && limit.capacity < tokens));
    const walk = (id: string | undefined): boolean =>
      id !== undefined && this.#versions(id, resource, sinceMs).some((level) => above(level) || walk(level.next));
    return this.#versions(entityId, resource, sinceMs).some((level) => {
      const limits = given ?? level.limits;
      const unknown = asked.some(([name]) => !limits.some((limit) => limit.name === name));
      return limits.length === 0 || unknown || above({ ...level, limits }) || walk(level.next);
    });
  }

  #versions(entityId: string, resource: string, sinceMs: number): Version[] {
    const versions: Version[] = [];
    for (let i = this.#history.length - 1; i >= 0; i--) {
      const snapshot = this.#history[i] as Snapshot;
      versions.push(resolved(snapshot, entityId, resource));
      if (snapshot.fromMs < sinceMs) break;
    }
    return versions;
  }

  get #now(): Snapshot {
    return this.#history.at(-1) as Snapshot;
  }
}

function resolved({ configs, entities }: Snapshot, entityId: string, resource: string): Version {
  const scopes: ConfigScope[] = [
    { level: "entity", entityId, resource },
    { level: "entityDefault", entityId },
    { level: "resource", resource },
    { level: "system" },
  ];
  const found = scopes.map((scope) => configs.get(keyOf(scope))).find((config) => config?.limits.length);
  const entity = entities.get(entityId);
  return { limits: found?.limits ?? [], next: entity?.cascade ? entity.parentId : undefined };
}

/** Neither part can contain a newline; "" stands for "any". */
function keyOf(scope: ConfigScope): string {
  const entityId = scope.level === "entity" || scope.level === "entityDefault" ? scope.entityId : "";
  const resource = scope.level === "entity" || scope.level === "resource" ? scope.resource : "";
  return `${entityId}\n${resource}`;
}

function sameLimits({ set }: Claim, limits: readonly Limit[]): boolean {
  return JSON.stringify(set.limits) === JSON.stringify(limits);
}
