import type { Access, ConfigScope, LimitSource } from "../../src/domain/config/config.ts";
import type { Entity } from "../../src/domain/config/entity.ts";
import type { Limit } from "../../src/domain/limits/limit.ts";

// What the levels of configuration give together, worked out once more from the sentences of docs/promise.md: nothing of the
// code that decides it is used here.

/** What a scope says of limits. */
export interface SaidLimits {
  readonly limits: readonly Limit[];
  readonly inherit: boolean;
  readonly isForCallers: boolean;
}

/** What a scope said of limits from an instant on, by the clock of whoever said it. */
export interface Said extends SaidLimits {
  readonly fromMs: number;
  /** How many changes of anything were made before it. */
  readonly rank: number;
}

/** Before all changes that are known. */
export const ALWAYS = { fromMs: 0, rank: 0 };

/** What one scope says. */
export interface Scoped extends SaidLimits {
  readonly access: Access | undefined;
  readonly cascade: boolean | undefined;
}

/** The plan that an entity has from an instant on. */
export interface Stint {
  readonly fromMs: number;
  readonly rank: number;
  readonly planId: string | undefined;
}

/** Limits from an instant on. */
export interface Since {
  readonly fromMs: number;
  readonly number: number;
  readonly limits: readonly Limit[];
}

/** Configuration as it was for a while. */
export interface Snapshot {
  readonly fromMs: number;
  readonly order: "as made" | "by clocks";
  /** Of each scope, the last changes: with what it said before the first of them. */
  readonly said: ReadonlyMap<string, readonly Said[]>;
  readonly configs: ReadonlyMap<string, Scoped>;
  readonly entities: ReadonlyMap<string, Entity>;
  readonly plans: ReadonlySet<string>;
  /** Of entities that had another plan before: all of them, the oldest first. */
  readonly stints: ReadonlyMap<string, readonly Stint[]>;
}

export const NOTHING_SAID: Scoped = {
  ...{ limits: [], inherit: false, isForCallers: false },
  ...{ access: undefined, cascade: undefined },
};

/** What several levels give together. */
export interface Merged {
  /** Of the bucket, whoever asks. */
  readonly limits: readonly Limit[];
  /** Those that a request from below takes of. */
  readonly forEveryone: readonly Limit[];
  readonly source: LimitSource;
  /** The level of each limit, by its name. */
  readonly sources: Readonly<Record<string, LimitSource>>;
  /** The levels do not go together: every request is refused. */
  readonly isTorn: boolean;
  /** The changes that can still be told, the oldest first. */
  readonly changes: readonly Since[];
}

/** How one level of the chain stood for a while. */
export interface Version {
  readonly onResource: Merged;
  readonly totals: Merged;
  readonly access: Access;
  /** The same as a parent: the access of a resource counts for the entity that asks, not for its parents. */
  readonly accessAbove: Access;
  readonly planId: string | undefined;
  /** The parent that is charged too. */
  readonly next: string | undefined;
}

export function resolved(then: Snapshot, entityId: string, resource: string): Version {
  const entity = then.entities.get(entityId);
  const limits: ScopesWith = (planId) => limitScopes(entityId, resource, planId);
  const said = accessScopes(entityId, resource).map((scope) => then.configs.get(keyOf(scope)) ?? NOTHING_SAID);
  const cascade = said.find((one) => one.cascade !== undefined)?.cascade ?? entity?.cascade;
  return {
    // Over all resources there are only totals.
    onResource: mergedIn(then, { entityId, resource }, (planId) => (resource === "*" ? [] : limits(planId))),
    totals: mergedIn(then, { entityId, resource }, (planId) => totalScopes(entityId, planId)),
    access: said.find(({ access }) => access !== undefined)?.access ?? "enforce",
    accessAbove: said.slice(0, 2).find(({ access }) => access !== undefined)?.access ?? "enforce",
    planId: entity?.planId,
    next: cascade ? entity?.parentId : undefined,
  };
}

/** The scopes that say who is let through, the nearest first. */
export function accessScopes(entityId: string, resource: string): readonly ConfigScope[] {
  return [
    { level: "entity", entityId, resource },
    { level: "entityDefault", entityId },
    { level: "resource", resource },
    { level: "system" },
  ];
}

function limitScopes(entityId: string, resource: string, planId: string | undefined): readonly ConfigScope[] {
  const ofPlan = (id: string): ConfigScope[] => [
    { level: "plan", planId: id, resource },
    { level: "planDefault", planId: id },
  ];
  return [
    { level: "entity", entityId, resource },
    { level: "entityDefault", entityId },
    ...(planId === undefined ? [] : ofPlan(planId)),
    { level: "resource", resource },
    { level: "system" },
  ];
}

function totalScopes(entityId: string, planId: string | undefined): readonly ConfigScope[] {
  return [
    { level: "entityTotal", entityId },
    ...(planId === undefined ? [] : [{ level: "planTotal", planId } as const]),
    { level: "systemTotal" },
  ];
}

/** Scopes with a plan, or with none. */
type ScopesWith = (planId: string | undefined) => readonly ConfigScope[];

interface Place {
  readonly entityId: string;
  readonly resource: string;
}

function mergedIn(then: Snapshot, place: Place, scopesWith: ScopesWith): Merged {
  const { entityId } = place;
  const scopes = scopesWith(then.entities.get(entityId)?.planId);
  const now = added(scopes, (scope) => then.configs.get(keyOf(scope)) ?? NOTHING_SAID);
  return {
    ...now,
    // Seldom asked for, and the most to work out.
    get changes() {
      return changesIn(then, place, scopesWith);
    },
  };
}

/** The first level that has any limits wins whole; what says `inherit` adds to what comes after it. */
function added(
  scopes: readonly ConfigScope[],
  saidBy: (scope: ConfigScope) => SaidLimits,
): Omit<Merged, "changes"> & { readonly limits: readonly Limit[] } {
  const limits: Limit[] = [];
  const forEveryone: Limit[] = [];
  const sources: Record<string, LimitSource> = {};
  let source: LimitSource = "none";
  let levels = 0;
  for (const scope of scopes) {
    const said = saidBy(scope);
    if (said.limits.length === 0) continue;
    if (levels++ === 0) source = scope.level;
    for (const limit of said.limits) {
      if (limit.name in sources) continue;
      sources[limit.name] = scope.level;
      limits.push(limit);
      if (!said.isForCallers) forEveryone.push(limit);
    }
    if (!said.inherit) break;
  }
  return { limits, forEveryone, source, sources, isTorn: levels > 1 && zonesOf(limits).size > 1 };
}

function zonesOf(limits: readonly Limit[]): ReadonlySet<string> {
  const zones = limits.flatMap(({ reset, schedule = [] }) => [reset, ...schedule]);
  return new Set(zones.flatMap((one) => (one === undefined ? [] : [one.tz ?? "UTC"])));
}

/**
 * At which instants what applies became something else, and what. Each scope counts for the time in which it applied: those of a
 * plan while the entity had it, also of one that was deleted since.
 */
function changesIn(then: Snapshot, { entityId, resource }: Place, scopesWith: ScopesWith): readonly Since[] {
  const planId = then.entities.get(entityId)?.planId;
  const stints = then.stints.get(entityId) ?? [{ ...ALWAYS, planId }];
  const scopes = stints.flatMap((stint) => [
    ...limitScopes(entityId, resource, stint.planId),
    ...totalScopes(entityId, stint.planId),
  ]);
  const spoken = scopes.flatMap((scope) => then.said.get(keyOf(scope)) ?? []);
  const placeOf = ({ fromMs, rank }: { readonly fromMs: number; readonly rank: number }) =>
    then.order === "as made" ? rank : fromMs;
  const all = [...spoken, ...stints].filter(({ fromMs }) => fromMs > 0);
  const limitsAt = (place: number): readonly Limit[] => {
    const stint = stints.findLast((one) => placeOf(one) <= place) as Stint;
    const saidThen = (scope: ConfigScope) => {
      const key = keyOf(scope);
      const known = then.said.get(key)?.findLast((one) => placeOf(one) <= place);
      return known ?? then.configs.get(key) ?? NOTHING_SAID;
    };
    return added(scopesWith(stint.planId), saidThen).limits;
  };
  const places = [...new Set(all.map(placeOf))].toSorted((a, b) => a - b);
  const changes: Since[] = [];
  for (const [i, place] of places.entries()) {
    const limits = limitsAt(place);
    if (JSON.stringify(limits) === JSON.stringify(limitsAt(places[i - 1] ?? 0))) continue;
    const at = all.filter((one) => placeOf(one) === place);
    // A change that was made later does not count earlier, whatever the clock of its maker showed.
    const fromMs = Math.max(changes.at(-1)?.fromMs ?? 0, ...at.map((one) => one.fromMs));
    // Where changes are not counted, those of one instant are: whoever has met one of them has not met the next.
    const number = then.order === "as made" ? place : place * 64 + new Set(at).size - 1;
    changes.push({ fromMs, number, limits });
  }
  return changes;
}

/** None of the parts can contain a newline; "" stands for "any", and an asterisk for "all together". */
export function keyOf(scope: ConfigScope): string {
  const owner = "entityId" in scope ? scope.entityId : "planId" in scope ? `plan ${scope.planId}` : "";
  if (OVER_ALL.has(scope.level)) return `${owner}\n*`;
  return `${owner}\n${"resource" in scope ? scope.resource : ""}`;
}

const OVER_ALL: ReadonlySet<ConfigScope["level"]> = new Set(["entityTotal", "planTotal", "systemTotal"]);
