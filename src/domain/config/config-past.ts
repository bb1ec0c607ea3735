import type { Limit } from "../limits/limit.ts";
import { limitSet } from "../limits/limit-set.ts";
import { sourceOf } from "../limits/merged-limits.ts";
import { given } from "../names/given.ts";
import type { Since } from "./change-number.ts";
import { type ConfigScope, type LevelConfig, type LimitSource, resolveConfig, scopesOf } from "./config.ts";
import { CHANGES_KEPT } from "./config-scope.ts";
import { formerPlans, type StoredLevel } from "./config-versions.ts";
import { endsOf, inForce } from "./overrides.ts";

/** A limit as it was in force at an instant. */
interface LimitThen {
  readonly limit: Limit;
  readonly source: LimitSource;
  /** The change that brought it; absent: it is older than the changes that are known. */
  readonly sinceMs?: number;
  /** The change that ends it; absent: none is known. */
  readonly untilMs?: number;
}

/**
 * What applied to an entity on a resource at an instant, by the histories. Policies are those of now; but access that has an end was other
 * only until then, as far as it is known: its beginning is not kept.
 */
export interface LevelThen {
  readonly config: LevelConfig;
  /** When the access of then ends by itself. Absent: it has no end. */
  readonly accessUntilMs?: number;
  readonly limits: readonly LimitThen[];
  readonly totals: readonly LimitThen[];
  /** The oldest change that is kept, where the instant lies before it: then this is what was there right before. */
  readonly knownFromMs?: number;
}

/** `isCaller` false: its limits as they count for requests of its children. */
export function levelThen(
  place: { readonly entityId: string; readonly resource: string },
  stored: StoredLevel,
  { atMs, isCaller }: { readonly atMs: number; readonly isCaller: boolean },
): LevelThen {
  const levels = new Map<number, LevelConfig>();
  const at = (ms: number): LevelConfig => {
    const known = levels.get(ms) ?? resolvedThen(place, stored, ms);
    levels.set(ms, known);
    return known;
  };
  const changes = changesOf(place, stored);
  const limitsOf = (pick: PickLimits) =>
    pick(at(atMs), isCaller).limits.map((limit) => ({
      ...spanOf(limit, { at, atMs, changes, pick, isCaller }),
      limit,
    }));
  const config = at(atMs);
  const accessUntilMs = accessEndsOf(place, stored).find((ms) => ms > atMs && at(ms).access !== config.access);
  return {
    config,
    ...given({ accessUntilMs }),
    limits: limitsOf(ofResource),
    totals: limitsOf(ofTotals),
    ...given({ knownFromMs: knownFromMs(place, stored, atMs) }),
  };
}

/** The limits of a level, on the resource or over all, with the levels that they came from. */
type PickLimits = (
  level: LevelConfig,
  isCaller: boolean,
) => { readonly limits: readonly Limit[]; readonly source: LimitSource; readonly sources?: LevelConfig["sources"] };

const ofResource: PickLimits = ({ limits, forEveryone, source, sources }, isCaller) => ({
  ...{ limits: isCaller ? limits : (forEveryone ?? limits), source },
  ...given({ sources }),
});

const ofTotals: PickLimits = ({ totals, totalsForEveryone, totalsSource, totalsSources }, isCaller) => ({
  ...{ limits: isCaller ? totals : (totalsForEveryone ?? totals), source: totalsSource },
  ...given({ sources: totalsSources }),
});

interface Past {
  at(ms: number): LevelConfig;
  readonly atMs: number;
  readonly changes: readonly number[];
  readonly pick: PickLimits;
  readonly isCaller: boolean;
}

/** From the change that brought a limit to the one that ends it; changes of other limits in between say nothing of it. */
function spanOf(limit: Limit, { at, atMs, changes, pick, isCaller }: Past): Omit<LimitThen, "limit"> {
  const { signature } = limitSet([limit]);
  const source = sourceOf(pick(at(atMs), isCaller), limit.name);
  const isThere = (ms: number) => {
    const then = pick(at(ms), isCaller);
    const same = then.limits.find(({ name }) => name === limit.name);
    return same !== undefined && limitSet([same]).signature === signature && sourceOf(then, limit.name) === source;
  };
  const sinceMs = changes.findLast((ms) => ms <= atMs && !isThere(ms - 1));
  const untilMs = changes.find((ms) => ms > atMs && !isThere(ms));
  return { source, ...given({ sinceMs, untilMs }) };
}

function resolvedThen(
  { entityId, resource }: { readonly entityId: string; readonly resource: string },
  { entity, stints, configOf, historyOf }: StoredLevel,
  atMs: number,
): LevelConfig {
  const { planId: planNow, ...rest } = entity ?? { cascade: false };
  const planId = stints === undefined ? planNow : said(stints, atMs)?.planId;
  const scopes = scopesOf(entityId, resource, planId);
  const configs = scopes.map((scope) => {
    const stored = configOf(scope);
    const now = stored && inForce(stored, atMs);
    const then = said(historyOf(scope), atMs);
    if (then === undefined) return now;
    const { limits: _, inherit: __, appliesTo: ___, ...policy } = now ?? { limits: [] };
    const { limits, inherit, appliesTo } = then;
    return { ...policy, limits, ...given({ inherit, appliesTo }) };
  });
  return resolveConfig(configs, scopes, entity && { ...rest, ...given({ planId }) });
}

/** The ends of overrides of access, the first one first. */
function accessEndsOf(
  { entityId, resource }: { readonly entityId: string; readonly resource: string },
  { entity, configOf }: StoredLevel,
): readonly number[] {
  const configs = scopesOf(entityId, resource, entity?.planId).map(configOf);
  return endsOf(configs.map((config) => config && { limits: [], ...given({ accessOverride: config.accessOverride }) }));
}

/** The last of those that had begun by then; before all of them the first. */
function said<One extends Since>(versions: readonly One[] | undefined, atMs: number): One | undefined {
  return versions?.findLast(({ fromMs }) => fromMs <= atMs) ?? versions?.[0];
}

/** The instants of all changes that are known, the first one first. */
function changesOf(
  place: { readonly entityId: string; readonly resource: string },
  stored: StoredLevel,
): readonly number[] {
  const { stints } = stored;
  const plans = [stored.entity?.planId, ...formerPlans(stints)];
  const all = [stints, ...plans.flatMap((planId) => historiesOf(place, stored, planId))];
  const instants = all.flatMap((since) => since ?? []).map(({ fromMs }) => fromMs);
  return [...new Set(instants)].filter((fromMs) => fromMs > 0).sort((a, b) => a - b);
}

function historiesOf(
  { entityId, resource }: { readonly entityId: string; readonly resource: string },
  { historyOf }: StoredLevel,
  planId: string | undefined,
): readonly (readonly Since[] | undefined)[] {
  return scopesOf(entityId, resource, planId).map((scope: ConfigScope) => historyOf(scope));
}

/** As many changes as are kept: there may have been others before them. */
function knownFromMs(
  place: { readonly entityId: string; readonly resource: string },
  stored: StoredLevel,
  atMs: number,
): number | undefined {
  const { stints, entity } = stored;
  const planId = stints === undefined ? entity?.planId : said(stints, atMs)?.planId;
  const oldest = [stints, ...historiesOf(place, stored, planId)].flatMap((since) =>
    since !== undefined && since.length > CHANGES_KEPT ? (since[1]?.fromMs ?? []) : [],
  );
  const latest = Math.max(...oldest);
  return latest > atMs ? latest : undefined;
}
