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
  /** It was said by nobody: limits with an end were over. */
  readonly isEnd?: true;
}

/** Before all changes that are known. */
export const ALWAYS = { fromMs: 0, rank: 0 };

/** What one scope says. */
export interface Scoped extends SaidLimits {
  readonly access: Access | undefined;
  readonly cascade: boolean | undefined;
  /** Limits in their place until an instant, which may be over. */
  readonly override?: (SaidLimits & { readonly untilMs: number }) | undefined;
  /** Access in its place until an instant, which may be over. */
  readonly accessOverride?: { readonly access: Access; readonly untilMs: number } | undefined;
}

/** What a scope says by a clock that shows an instant. */
export function saidAt({ override, accessOverride, ...base }: Scoped, atMs: number): Scoped {
  const { limits, inherit, isForCallers } = override !== undefined && atMs < override.untilMs ? override : base;
  const access = accessOverride !== undefined && atMs < accessOverride.untilMs ? accessOverride.access : base.access;
  return { ...base, limits, inherit, isForCallers, access };
}

/** The instants at which something ends of what concerns an entity on a resource, the first one first. */
export function endsIn(then: Snapshot, entityId: string, resource: string): readonly number[] {
  const planId = then.entities.get(entityId)?.planId;
  const scopes = [...limitScopes(entityId, resource, planId), ...totalScopes(entityId, planId)];
  const ends = [...scopes, ...accessScopes(entityId, resource)].flatMap((scope) => {
    const { override, accessOverride } = then.configs.get(keyOf(scope)) ?? NOTHING_SAID;
    return [override?.untilMs ?? [], accessOverride?.untilMs ?? []].flat();
  });
  return [...new Set(ends)].sort((a, b) => a - b);
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
  /** It came by itself: limits with an end were over. */
  readonly isEnd?: true;
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

/** How a level stands by a clock that shows an instant. */
export function resolved(then: Snapshot, entityId: string, resource: string, atMs: number): Version {
  const entity = then.entities.get(entityId);
  const limits: ScopesWith = (planId) => limitScopes(entityId, resource, planId);
  const said = accessScopes(entityId, resource).map((scope) =>
    saidAt(then.configs.get(keyOf(scope)) ?? NOTHING_SAID, atMs),
  );
  const place = { entityId, resource, atMs };
  const cascade = said.find((one) => one.cascade !== undefined)?.cascade ?? entity?.cascade;
  return {
    // Over all resources there are only totals.
    onResource: mergedIn(then, place, (planId) => (resource === "*" ? [] : limits(planId))),
    totals: mergedIn(then, place, (planId) => totalScopes(entityId, planId)),
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
  /** The instant that its clock shows. */
  readonly atMs: number;
}

function mergedIn(then: Snapshot, place: Place, scopesWith: ScopesWith): Merged {
  const { entityId, atMs } = place;
  const scopes = scopesWith(then.entities.get(entityId)?.planId);
  const now = added(scopes, (scope) => saidAt(then.configs.get(keyOf(scope)) ?? NOTHING_SAID, atMs));
  let changes: readonly Since[] | undefined;
  return {
    ...now,
    // Seldom asked for, and the most to work out.
    get changes() {
      changes ??= changesIn(then, place, scopesWith);
      return changes;
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
 * plan while the entity had it, also of one that was deleted since. An end counts once the clock shows it.
 */
function changesIn(then: Snapshot, { entityId, resource, atMs }: Place, scopesWith: ScopesWith): readonly Since[] {
  const planId = then.entities.get(entityId)?.planId;
  const stints = then.stints.get(entityId) ?? [{ ...ALWAYS, planId }];
  const leftMs = (stints.at(-1) as Stint).fromMs;
  const saidBy = (stint: Stint, scope: ConfigScope) => {
    const known = then.said.get(keyOf(scope)) ?? [];
    // What ended in a plan after the entity had left it concerns it no more.
    if ("planId" in scope && stint !== stints.at(-1)) return endsAhead(known, leftMs - 1) ? known.slice(0, -1) : known;
    const { override } = then.configs.get(keyOf(scope)) ?? NOTHING_SAID;
    return override !== undefined && atMs < override.untilMs && endsAhead(known, atMs) ? known.slice(0, -1) : known;
  };
  const spokenIn = new Map(
    stints.map((stint) => {
      const scopes = [...limitScopes(entityId, resource, stint.planId), ...totalScopes(entityId, stint.planId)];
      return [stint, new Map(scopes.map((scope) => [keyOf(scope), saidBy(stint, scope)]))];
    }),
  );
  const spoken = [...spokenIn.values()].flatMap((lists) => [...lists.values()]);
  const placeOf = placesIn([...spoken, stints], then.order);
  const all = [...spoken.flat(), ...stints].filter(({ fromMs }) => fromMs > 0);
  if (all.length === 0) return [];
  const limitsAt = (place: number): readonly Limit[] => {
    const stint = stints.findLast((one) => placeOf(one) <= place) as Stint;
    const saidThen = (scope: ConfigScope) => {
      const key = keyOf(scope);
      const known = spokenIn
        .get(stint)
        ?.get(key)
        ?.findLast((one) => placeOf(one) <= place);
      return known ?? saidAt(then.configs.get(key) ?? NOTHING_SAID, atMs);
    };
    return added(scopesWith(stint.planId), saidThen).limits;
  };
  const places = [...new Set(all.map(placeOf))].toSorted((a, b) => a - b);
  /** An end comes, or was taken out: somebody may have gone through it, and hears of every change after it. */
  const knowsEnds = spoken.some((known) =>
    known.some((one, i) => isEnd(one) || (known[i - 1] !== undefined && saysSame(one, known[i - 1] as Said))),
  );
  const changes: Since[] = [];
  let before = JSON.stringify(limitsAt(0));
  for (const place of places) {
    const limits = limitsAt(place);
    const at = all.filter((one) => placeOf(one) === place);
    const text = JSON.stringify(limits);
    const isSame = text === before;
    before = text;
    if (isSame && (at.some(isEnd) || !knowsEnds)) continue;
    // A change that was made later does not count earlier, whatever the clock of its maker showed.
    const fromMs = Math.max(changes.at(-1)?.fromMs ?? 0, ...at.map((one) => one.fromMs));
    // Where changes are not counted, those of one instant are: whoever has met one of them has not met the next. Ends are one.
    const made = new Set(at.filter((one) => !isEnd(one))).size;
    const ends = at.some(isEnd) ? 1 : 0;
    const number = then.order === "as made" ? place : place * 64 + made + ends - 1;
    changes.push({ fromMs, number, limits, ...(ends > 0 ? { isEnd: true } : {}) });
  }
  return changes;
}

function saysSame(one: SaidLimits, other: SaidLimits): boolean {
  const saidBy = ({ limits, inherit, isForCallers }: SaidLimits) => JSON.stringify([limits, inherit, isForCallers]);
  return saidBy(one) === saidBy(other);
}

/** Of a scope or of plans: what was said, or was had, one after the other. */
type Spoken = readonly (Said | Stint)[];

/**
 * Where each has its place among all: by its instant, or by how many changes were made before it. An end comes after the last change before
 * its instant, and after the one that it ends; several that come after the same change go by their instants.
 */
function placesIn(lists: readonly Spoken[], order: Snapshot["order"]): (one: Said | Stint) => number {
  if (order === "by clocks") return ({ fromMs }) => fromMs;
  const made = lists.flat().filter((one) => one.fromMs > 0 && !isEnd(one));
  const begunBy = new Map<number, number>();
  for (const list of lists) {
    for (const [i, one] of list.entries()) {
      if (isEnd(one)) begunBy.set(one.fromMs, Math.max(begunBy.get(one.fromMs) ?? 0, list[i - 1]?.rank ?? 0));
    }
  }
  const places = new Map<number, number>();
  const behind = new Map<number, number>();
  for (const [atMs, rank] of [...begunBy].toSorted(([a], [b]) => a - b)) {
    const last = Math.max(0, ...made.filter((one) => one.fromMs < atMs || one.rank <= rank).map((one) => one.rank));
    // Of what is no longer kept, nobody knows which change came last.
    const first = Math.min(...made.map((one) => one.rank)) - 1;
    const after = last > 0 || made.length === 0 ? last : first;
    behind.set(after, (behind.get(after) ?? 0) + 1);
    places.set(atMs, after + (behind.get(after) ?? 0) / 1024);
  }
  return (one) => (isEnd(one) ? (places.get(one.fromMs) ?? 0) : one.rank);
}

function isEnd(one: Said | Stint): boolean {
  return "isEnd" in one && one.isEnd === true;
}

/** Whether the last thing that was said is an end that comes after an instant. */
export function endsAhead(known: readonly Said[], atMs: number): boolean {
  const last = known.at(-1);
  return last?.isEnd === true && last.fromMs > atMs;
}

/** None of the parts can contain a newline; "" stands for "any", and an asterisk for "all together". */
export function keyOf(scope: ConfigScope): string {
  const owner = "entityId" in scope ? scope.entityId : "planId" in scope ? `plan ${scope.planId}` : "";
  if (OVER_ALL.has(scope.level)) return `${owner}\n*`;
  return `${owner}\n${"resource" in scope ? scope.resource : ""}`;
}

const OVER_ALL: ReadonlySet<ConfigScope["level"]> = new Set(["entityTotal", "planTotal", "systemTotal"]);
