import type { Access, ConfigScope, PolicyChange, StoredConfig } from "../../src/domain/config.ts";
import { type Entity, LEVELS_MAX } from "../../src/domain/entity.ts";
import type { Limit } from "../../src/domain/limit.ts";
import type { AcquireRequest } from "../../src/engine/request.ts";
import type { Claim } from "../../src/ports/bucket-store.ts";
import { capacityMost } from "../../src/testing/model-terms.ts";

/** How one level of the chain stood for a while. */
interface Version {
  readonly limits: readonly Limit[];
  readonly access: Access;
  /** The same as a parent: the access of a resource counts for the entity that asks, not for its parents. */
  readonly accessAbove: Access;
  /** The parent that is charged too. */
  readonly next: string | undefined;
  /** The changes of its limits that can still be told, the oldest first. */
  readonly changes: readonly Said[];
}

/** What one scope says. */
interface Scoped {
  readonly limits: readonly Limit[];
  readonly access: Access | undefined;
  readonly cascade: boolean | undefined;
}

/** What a scope said of limits from an instant on, by the clock of whoever said it. */
interface Said {
  readonly fromMs: number;
  readonly limits: readonly Limit[];
}

interface Snapshot {
  readonly fromMs: number;
  /** Of each scope, the last changes: with what it said before the first of them. */
  readonly said: ReadonlyMap<string, readonly Said[]>;
  readonly configs: ReadonlyMap<string, Scoped>;
  readonly entities: ReadonlyMap<string, Entity>;
}

/** What a request asks of one resource. */
interface Part {
  readonly resource: string;
  /** By measure, the request itself included. */
  readonly asked: readonly (readonly [measure: string, tokens: number])[];
  /** Stand in for the limits of the entity itself. */
  readonly given: readonly Limit[] | undefined;
}

const SILENT: Scoped = { limits: [], access: undefined, cascade: undefined };

/**
 * Configuration as it really is, and as it was: the recorder reports when a change was applied, resolved here once more
 * from the rules of the public API, and compared with what clients go by.
 */
export class Truth {
  readonly #history: Snapshot[];
  readonly #nowMs: () => number;
  /** After how many changes a scope was last told of, and last switched; and entities last moved. */
  readonly #told = new Map<string, number>();
  readonly #made = new Map<string, number>();
  #events = 0;
  readonly #switched = new Map<string, { readonly changes: number; readonly event: number }>();
  #ownerChanges = 0;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
    this.#history = [{ fromMs: Number.NEGATIVE_INFINITY, said: new Map(), configs: new Map(), entities: new Map() }];
  }

  /** How often anything changed. */
  get changes(): number {
    return this.#history.length;
  }

  /** A switch was carried to everything it concerns: its caller was told that it counts. */
  told({ entityId = "", resource = "" }: { readonly entityId?: string; readonly resource?: string }): void {
    this.#told.set(`${entityId}\n${resource}`, this.changes);
  }

  /** A bucket was made: by a request that had read configuration before, perhaps, and then nothing on it tells of the switch. */
  made({ entityId, resource }: { readonly entityId: string; readonly resource: string }): void {
    this.#made.set(`${entityId}\n${resource}`, ++this.#events);
  }

  /** Whether a request is switched off by what its callers were told to count, and nothing that concerns it changed since. */
  isToldOff(request: AcquireRequest): boolean {
    return partsOf(request).some(({ resource }) => {
      const madeAt = this.#made.get(`${request.entityId}\n${resource}`) ?? 0;
      return this.#offBy(request.entityId, resource).some((key) => {
        const since = this.#told.get(key) ?? -1;
        const { changes, event } = this.#switched.get(key) ?? { changes: 0, event: 0 };
        return since >= changes && since >= this.#ownerChanges && event > madeAt;
      });
    });
  }

  /** The scopes that switch a request off, by all levels. */
  #offBy(entityId: string, resource: string): string[] {
    const keys: string[] = [];
    let id: string | undefined = entityId;
    for (let depth = 0; id !== undefined && depth < LEVELS_MAX; depth++) {
      const scopes = scopesOf(id, resource).slice(0, depth === 0 ? 4 : 2);
      const said = scopes.find((scope) => this.#now.configs.get(keyOf(scope))?.access !== undefined);
      if (said !== undefined && this.#now.configs.get(keyOf(said))?.access === "disabled") keys.push(keyOf(said));
      id = resolved(this.#now, id, resource).next;
    }
    return keys;
  }

  setLimits(scope: ConfigScope, { limits }: Pick<StoredConfig, "limits">, atMs: number): void {
    const key = keyOf(scope);
    const before = this.#now.configs.get(key)?.limits ?? [];
    this.#say(scope, (said) => ({ ...said, limits }));
    if (JSON.stringify(before) === JSON.stringify(limits)) return;
    const known = this.#now.said.get(key) ?? [{ fromMs: 0, limits: before }];
    const fromMs = Math.max(atMs, (known.at(-1) as Said).fromMs + 1);
    const kept = [...known, { fromMs, limits }].slice(-9).map((one, i) => (i === 0 ? { ...one, fromMs: 0 } : one));
    this.#history.push({ ...(this.#history.pop() as Snapshot), said: new Map(this.#now.said).set(key, kept) });
  }

  setPolicy(scope: ConfigScope, { access, cascade }: PolicyChange): void {
    if (access !== undefined) this.#switched.set(keyOf(scope), { changes: this.changes + 1, event: ++this.#events });
    if (cascade !== undefined) this.#ownerChanges = this.changes + 1;
    this.#say(scope, (before) => ({
      limits: before.limits,
      access: access === undefined ? before.access : (access ?? undefined),
      cascade: cascade === undefined ? before.cascade : (cascade ?? undefined),
    }));
  }

  setEntity(id: string, entity: Entity | undefined): void {
    this.#ownerChanges = this.changes + 1;
    const entities = new Map(this.#now.entities);
    let { configs, said } = this.#now;
    if (entity === undefined) {
      entities.delete(id);
      configs = new Map([...configs].filter(([key]) => !key.startsWith(`${id}\n`)));
      said = new Map([...said].filter(([key]) => !key.startsWith(`${id}\n`)));
    } else entities.set(id, entity);
    this.#history.push({ fromMs: this.#nowMs(), said, configs, entities });
  }

  /** Whether some scope had these limits once and has others now. */
  hadBefore(limits: readonly Limit[]): boolean {
    const text = JSON.stringify(limits);
    const scopesOf = ({ configs }: Snapshot) => {
      const having = [...configs].filter(([, scoped]) => JSON.stringify(scoped.limits) === text);
      return new Set(having.map(([scope]) => scope));
    };
    const now = scopesOf(this.#now);
    return this.#history.some((then) => [...scopesOf(then)].some((scope) => !now.has(scope)));
  }

  /** The level as it is now. */
  level(entityId: string, resource: string): Version {
    return resolved(this.#now, entityId, resource);
  }

  /** The level as it was at an instant. */
  levelAt(entityId: string, resource: string, atMs: number): Version {
    const then = this.#history.findLast(({ fromMs }) => fromMs <= atMs) as Snapshot;
    return resolved(then, entityId, resource);
  }

  /** The limits that a level has, or had at some time since then. */
  limitsSince(entityId: string, resource: string, sinceMs: number): readonly Limit[] {
    return this.#versions(entityId, resource, sinceMs).flatMap(({ limits }) => limits);
  }

  /** Whether any level that a request of an entity concerns is switched off now. */
  isDisabled(entityId: string, resource: string): boolean {
    return this.#anyDisabled(entityId, resource, Number.POSITIVE_INFINITY);
  }

  /** Whether claims are those of a client that read each level of the request at some time since then. */
  explains(request: AcquireRequest, claims: readonly Claim[], sinceMs: number): boolean {
    const parts = partsOf(request);
    const inPart = (part: number, at: number): boolean => {
      const { resource, asked, given } = parts[part] ?? {};
      if (resource === undefined || asked === undefined) return at === claims.length;
      const walk = (id: string | undefined, below: readonly string[], next: number): boolean => {
        // Of moves at different times a circle may be made up: each of its entities is asked once.
        if (id === undefined || below.includes(id)) return inPart(part + 1, next);
        const isFirst = below.length === 0;
        const path = [...below, id];
        return this.#versions(id, resource, sinceMs).some((version) => {
          // A client that knows that it is switched off does not ask.
          if ((isFirst ? version.access : version.accessAbove) === "disabled") return false;
          const limits = isFirst ? (given ?? version.limits) : version.limits;
          const due = chargedBy(asked, limits);
          if (due.length === 0) return walk(version.next, path, next);
          const claim = claims[next];
          if (claim?.bucket.entityId !== id || claim.bucket.resource !== resource) return false;
          if (claim.bypass !== (version.access === "bypass") || !sameLimits(claim, limits)) return false;
          const taken = claim.take.map(({ limit, milli }) => [limit, milli / 1000]);
          return JSON.stringify(taken) === JSON.stringify(due) && walk(version.next, path, next + 1);
        });
      };
      return walk(request.entityId, [], at);
    };
    return inPart(0, 0);
  }

  /** Whether the request is wrong by the limits of some moment since then: unknown measures, or more than there can be. */
  refuses(request: AcquireRequest, sinceMs: number): boolean {
    return partsOf(request).some(({ resource, asked, given }) => {
      const above = ({ limits, access }: Version) =>
        access !== "bypass" &&
        asked.some(([measure, tokens]) =>
          limits.some(
            (limit) => countedBy(limit) === measure && !limit.soft && BigInt(tokens) * 1000n > capacityMost(limit),
          ),
        );
      const walk = (id: string | undefined, path: readonly string[], below: readonly Limit[]): boolean => {
        if (id === undefined || path.includes(id)) return isUncounted(asked, below);
        return this.#versions(id, resource, sinceMs).some((version) => {
          const limits = path.length === 0 ? (given ?? version.limits) : version.limits;
          return above({ ...version, limits }) || walk(version.next, [...path, id], [...below, ...limits]);
        });
      };
      return walk(request.entityId, [], []);
    });
  }

  /** The limits of every level that a request is charged to, the entity's own first. */
  chain(entityId: string, resource: string): readonly Limit[] {
    const limits: Limit[] = [];
    let id: string | undefined = entityId;
    for (let depth = 0; id !== undefined && depth < LEVELS_MAX; depth++) {
      const level = this.level(id, resource);
      limits.push(...level.limits);
      id = level.next;
    }
    return limits;
  }

  /** Whether some level of the request was switched off at some moment since then. */
  disables(request: AcquireRequest, sinceMs: number): boolean {
    return partsOf(request).some(({ resource }) => this.#anyDisabled(request.entityId, resource, sinceMs));
  }

  #anyDisabled(entityId: string, resource: string, sinceMs: number): boolean {
    // Of moves at different times a circle may be made up; it is not followed for ever.
    const above = (id: string | undefined, depth: number): boolean =>
      id !== undefined &&
      depth < LEVELS_MAX &&
      this.#versions(id, resource, sinceMs).some(
        ({ accessAbove, next }) => accessAbove === "disabled" || above(next, depth + 1),
      );
    return this.#versions(entityId, resource, sinceMs).some(
      ({ access, next }) => access === "disabled" || above(next, 1),
    );
  }

  #say(scope: ConfigScope, change: (before: Scoped) => Scoped): void {
    const configs = new Map(this.#now.configs);
    const key = keyOf(scope);
    configs.set(key, change(configs.get(key) ?? SILENT));
    this.#history.push({ ...this.#now, fromMs: this.#nowMs(), configs });
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

/** The scopes that say something of a level, the nearest first. */
function scopesOf(entityId: string, resource: string): ConfigScope[] {
  return [
    { level: "entity", entityId, resource },
    { level: "entityDefault", entityId },
    { level: "resource", resource },
    { level: "system" },
  ];
}

/** At which instants what applies to an entity on a resource became something else, and what. */
function changesIn({ said, configs }: Snapshot, entityId: string, resource: string): readonly Said[] {
  const keys = scopesOf(entityId, resource).map(keyOf);
  const limitsAt = (atMs: number) => {
    const each = keys.map((key) => {
      const then = said.get(key)?.findLast(({ fromMs }) => fromMs <= atMs);
      return then?.limits ?? configs.get(key)?.limits ?? [];
    });
    return each.find((limits) => limits.length > 0) ?? [];
  };
  const instants = keys.flatMap((key) => (said.get(key) ?? []).map(({ fromMs }) => fromMs)).filter((ms) => ms > 0);
  const all = [0, ...new Set(instants)]
    .toSorted((a, b) => a - b)
    .map((fromMs) => ({ fromMs, limits: limitsAt(fromMs) }));
  return all.filter(({ limits }, i) => i > 0 && JSON.stringify(limits) !== JSON.stringify(all[i - 1]?.limits));
}

function resolved(then: Snapshot, entityId: string, resource: string): Version {
  const { configs, entities } = then;
  const said = scopesOf(entityId, resource).map((scope) => configs.get(keyOf(scope)) ?? SILENT);
  const entity = entities.get(entityId);
  const cascade = said.find((one) => one.cascade !== undefined)?.cascade ?? entity?.cascade;
  return {
    limits: said.find(({ limits }) => limits.length > 0)?.limits ?? [],
    access: said.find(({ access }) => access !== undefined)?.access ?? "enforce",
    accessAbove: said.slice(0, 2).find(({ access }) => access !== undefined)?.access ?? "enforce",
    next: cascade ? entity?.parentId : undefined,
    changes: changesIn(then, entityId, resource),
  };
}

function partsOf({ resource, consume, limits: given, also = {} }: AcquireRequest): Part[] {
  // A request counts as one, unless it says otherwise.
  const asked = (tokens: object) => {
    const named = Object.entries(tokens as Record<string, number>);
    return "requests" in tokens ? named : [...named, ["requests", 1] as const];
  };
  return [
    { resource, asked: asked(consume ?? {}), given },
    ...Object.entries(also).map(([name, tokens]) => ({ resource: name, asked: asked(tokens), given: undefined })),
  ];
}

function countedBy({ name, counts = name }: Limit): string {
  return counts;
}

/** What limits are charged: each one that counts a measure takes all of it. */
function chargedBy(asked: Part["asked"], limits: readonly Limit[]): [limit: string, tokens: number][] {
  return asked.flatMap(([measure, tokens]) =>
    limits
      .filter((limit) => countedBy(limit) === measure)
      .map(({ name }): [limit: string, tokens: number] => [name, tokens]),
  );
}

/** Whether something is named that nothing counts, or nothing is charged at all. */
function isUncounted(asked: Part["asked"], limits: readonly Limit[]): boolean {
  const counted = new Set(limits.map(countedBy));
  const unknown = asked.some(([measure]) => measure !== "requests" && !counted.has(measure));
  return unknown || asked.every(([measure]) => !counted.has(measure));
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
