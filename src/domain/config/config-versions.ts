import { TOTAL_RESOURCE } from "../bucket/bucket-key.ts";
import { checkLimits, type Limit } from "../limits/limit.ts";
import { type LimitSet, type LimitsEnd, limitSet, type SetOrigin } from "../limits/limit-set.ts";
import { given } from "../names/given.ts";
import {
  type ChangeTime,
  numberIn,
  numberOf,
  numberOfAll,
  numberOfEnd,
  type Since,
  sinceAfter,
} from "./change-number.ts";
import {
  type ConfigScope,
  type ConfiguredEntity,
  type LevelConfig,
  type LimitsSince,
  resolveConfig,
  type StoredConfig,
  scopesOf,
} from "./config.ts";
import { CHANGES_KEPT } from "./config-scope.ts";
import { baseOf, endsOf, inForce, runningOverride } from "./overrides.ts";
import { formerPlans, historyFrom, type PlanStint } from "./plan-stints.ts";

export * from "./plan-stints.ts";

/** The part of a stored configuration that decides which limits there are. */
type ScopeLimits = Pick<StoredConfig, "limits" | "inherit" | "appliesTo">;

/** The limits that a scope had from an instant on. */
export interface LimitsVersion extends ScopeLimits, Since {}

/**
 * Appends what a scope says now to its versions, the oldest first, and behind it the end of an override that runs. The first version is what
 * it said before the oldest change that is kept. `versions` undefined: nothing is known of the time before. The end of an override that
 * still runs is taken out: it comes no more.
 */
export function withVersion(
  versions: readonly LimitsVersion[] | undefined,
  before: StoredConfig | undefined,
  after: StoredConfig | undefined,
  time: ChangeTime,
): readonly LimitsVersion[] | undefined {
  const { atMs } = time;
  const [was, is] = [said(before, atMs), said(after, atMs)];
  const past = versions && untilNow(versions, before, atMs);
  const known = past ?? [{ ...was, fromMs: 0 }];
  // Whose clock is ahead may have gone through an end that is taken out here: his buckets hear that the limits are back.
  const [cut] = versions?.slice(known.length) ?? [];
  const isSame = isSameVersion(was, is) && (cut === undefined || isSameEnd(cut, endOf(after, known, atMs)[0]));
  const begun = isSame ? known : [...known, { ...is, ...sinceAfter(known, time) }];
  const ends = endOf(after, begun, atMs);
  if (isSame && (cut !== undefined || ends.length === 0)) return versions;
  const [oldest, ...later] = [...begun, ...ends].slice(-CHANGES_KEPT - 1);
  return oldest === undefined ? [] : [{ ...limitsPart(oldest), fromMs: 0 }, ...later];
}

function isSameEnd(one: LimitsVersion, other: LimitsVersion | undefined): boolean {
  return one.fromMs === other?.fromMs && isSameVersion(one, other);
}

function said(config: StoredConfig | undefined, atMs: number): ScopeLimits {
  return limitsPart(config && inForce(config, atMs));
}

/** The version that an override leaves at its end; none where none runs, or its limits are those of the base. */
function endOf(
  config: StoredConfig | undefined,
  begun: readonly LimitsVersion[],
  atMs: number,
): readonly LimitsVersion[] {
  const override = runningOverride(config, atMs);
  if (config === undefined || override === undefined || isSameVersion(override, baseOf(config))) return [];
  const fromMs = Math.max(override.untilMs, (begun.at(-1)?.fromMs ?? 0) + 1);
  return [{ ...limitsPart(baseOf(config)), fromMs, isEnd: true }];
}

/** The plans that an entity had, where it had another before. */
interface PastPlans {
  /** The oldest first; the last is its plan of now. */
  readonly stints: readonly PlanStint[];
  /** The scopes that apply to it where it has that plan. */
  scopesWith(planId: string | undefined): readonly ConfigScope[];
  /** The versions of a scope of a plan that it had; undefined: it never had limits. */
  historyOf(scope: ConfigScope): readonly LimitsVersion[] | undefined;
}

/** The versions of a scope. Where no change of it is known, it has always said what it says now. */
function saidOver(
  history: readonly LimitsVersion[] | undefined,
  config: ScopeLimits | undefined,
): readonly LimitsVersion[] | undefined {
  return history ?? (config === undefined ? undefined : [{ ...limitsPart(config), fromMs: 0 }]);
}

/** The scopes as they are stored. */
interface StoredScopes {
  configOf(scope: ConfigScope): StoredConfig | undefined;
  /** Undefined: no change of the scope is known. */
  historyOf(scope: ConfigScope): readonly LimitsVersion[] | undefined;
}

/** All that decides which limits an entity has on a resource, with what is known of the time before. */
export interface StoredLevel extends StoredScopes {
  readonly entity: ConfiguredEntity | undefined;
  /** The plans that it had; undefined where it never had another. */
  readonly stints: readonly PlanStint[] | undefined;
}

/**
 * What applies to an entity on a resource, with the changes of the limits, as if no override that is stored were over yet: `next` says what
 * its end leaves, so that no clock is asked here. `stints`: the plans that it had, where it had another before.
 */
export function resolveLevel(
  { entityId, resource }: { readonly entityId: string; readonly resource: string },
  entity: ConfiguredEntity | undefined,
  stints: readonly PlanStint[] | undefined,
  { configOf, historyOf }: StoredScopes,
): LevelConfig {
  const scopesWith = (planId: string | undefined) => scopesOf(entityId, resource, planId);
  const scopes = scopesWith(entity?.planId);
  const found = scopes.map(configOf);
  // Over all resources there are only totals, which are stored under that name.
  const histories = scopes.map((scope) =>
    "resource" in scope && scope.resource === TOTAL_RESOURCE ? undefined : historyOf(scope),
  );
  const past = stints === undefined ? undefined : pastPlans(stints, scopesWith, { configOf, historyOf });
  const resolvedAt = (atMs: number) => resolvedAs({ scopes, found, histories, past, entity }, atMs);
  const ends = endsOf(found);
  let level = resolvedAt(ends.at(-1) ?? Number.NEGATIVE_INFINITY);
  for (const [i, atMs] of ends.toReversed().entries()) {
    const earlier = resolvedAt(ends.at(-2 - i) ?? Number.NEGATIVE_INFINITY);
    if (!isSameLevel(earlier, level)) level = { ...earlier, next: { atMs, level } };
  }
  return level;
}

/** All that the limits of an entity on a resource follow from. */
interface LevelSources {
  readonly scopes: readonly ConfigScope[];
  readonly found: readonly (StoredConfig | undefined)[];
  readonly histories: readonly (readonly LimitsVersion[] | undefined)[];
  readonly past: PastPlans | undefined;
  readonly entity: ConfiguredEntity | undefined;
}

/** What applies at an instant, by what is stored now: overrides that run until later are not over. */
function resolvedAs({ scopes, found, histories, past, entity }: LevelSources, atMs: number): LevelConfig {
  const configs = found.map((config) => config && inForce(config, atMs));
  const known = histories.map((versions, i) => versions && untilNow(versions, found[i], atMs));
  const now = resolveConfig(configs, scopes, entity);
  const all = [...known, ...(past === undefined ? [] : pastHistories(past))];
  const { points, placeOf } = pointsOf(all);
  if (points.length === 0) return now;
  const at = new Map(
    [BEGINNING, ...points].map(({ number }) => {
      const then = { configs: configsAt(configs, known, number, placeOf), scopes };
      const said = past === undefined ? then : withPlanAt(past, then, number, placeOf);
      return [number, resolveConfig(said.configs, said.scopes, entity)] as const;
    }),
  );
  const areAll = knowsEnds(all);
  const changes = changesAt(points, (number) => at.get(number)?.limits ?? [], areAll);
  const totalsChanges = changesAt(points, (number) => at.get(number)?.totals ?? [], areAll);
  return {
    ...now,
    ...given({
      changes: changes.length === 0 ? undefined : changes,
      totalsChanges: totalsChanges.length === 0 ? undefined : totalsChanges,
    }),
  };
}

/**
 * The versions without the end of an override that still runs. Where a clock that is ahead found an override over and wrote the scope, it is
 * over for all, and its end stays.
 */
function untilNow(
  versions: readonly LimitsVersion[],
  config: StoredConfig | undefined,
  atMs: number,
): readonly LimitsVersion[] {
  return runningOverride(config, atMs) === undefined ? versions : withoutAhead(versions, atMs);
}

/** The versions without an end that comes later. */
function withoutAhead(versions: readonly LimitsVersion[], atMs: number): readonly LimitsVersion[] {
  const last = versions.at(-1);
  return last?.isEnd === true && last.fromMs > atMs ? versions.slice(0, -1) : versions;
}

function isSameLevel(one: LevelConfig, { next: _, ...other }: LevelConfig): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

/** The plans of an entity before its last one; an end in theirs that came after it had left them says nothing of it. */
function pastPlans(
  stints: readonly PlanStint[],
  scopesWith: PastPlans["scopesWith"],
  { configOf, historyOf }: StoredScopes,
): PastPlans {
  const leftMs = stints.at(-1)?.fromMs ?? 0;
  const saidBy = (scope: ConfigScope) => {
    const versions = saidOver(historyOf(scope), configOf(scope));
    return versions && withoutAhead(versions, leftMs - 1);
  };
  return { stints, scopesWith, historyOf: saidBy };
}

/** The place of a version among the changes of all scopes: the number of its own. */
type PlaceOf = (one: Since) => number;

/** The version of a scope after the change of a number. */
function versionAt(versions: readonly LimitsVersion[], number: number, placeOf: PlaceOf): LimitsVersion | undefined {
  return versions.findLast((version) => placeOf(version) <= number) ?? versions[0];
}

/** A change of one or several scopes at once. */
interface Point {
  readonly fromMs: number;
  readonly number: number;
  readonly count: number;
  readonly isEnd?: true;
}

const BEGINNING: Point = { fromMs: 0, number: 0, count: 1 };

type History = readonly (LimitsVersion | PlanStint)[];

/** The changes in several histories, those of one number together, in the order in which they were made; ends come in by their instants. */
function pointsOf(histories: readonly (History | undefined)[]): {
  readonly points: readonly Point[];
  readonly placeOf: PlaceOf;
} {
  const points = new Map<number, Point>();
  const add = (number: number, atMs: number, isEnd?: true) => {
    const { fromMs, count } = points.get(number) ?? { fromMs: 0, count: 0 };
    points.set(number, { fromMs: Math.max(fromMs, atMs), number, count: count + 1, ...given({ isEnd }) });
  };
  /** By the instant of an end: the number of the last change of those that it ends. */
  const ends = new Map<number, number>();
  for (const versions of histories) {
    for (const [i, since] of (versions ?? []).entries()) {
      if (since.fromMs === 0) continue;
      if (since.isEnd !== true) add(numberOf(since), since.fromMs);
      else ends.set(since.fromMs, Math.max(ends.get(since.fromMs) ?? 0, numberOf(versions?.[i - 1] ?? NEVER)));
    }
  }
  const inOrder = () => [...points.values()].sort((a, b) => a.number - b.number);
  const changes = inOrder();
  const numbers = new Map<number, number>();
  const ranks = new Map<number, number>();
  for (const [atMs, begunBy] of [...ends].sort(([a], [b]) => a - b)) {
    const last = changes.findLastIndex(({ fromMs, number }) => fromMs < atMs || number <= begunBy);
    const rank = (ranks.get(last) ?? 0) + 1;
    ranks.set(last, rank);
    const between = { after: changes[last]?.number, rank, ...given({ before: changes[last + 1]?.number }) };
    const number = numberOfEnd(atMs, between);
    numbers.set(atMs, number);
    add(number, atMs, true);
  }
  const placeOf: PlaceOf = (one) => (one.isEnd === true ? (numbers.get(one.fromMs) ?? 0) : numberOf(one));
  return { points: inOrder(), placeOf };
}

const NEVER: Since = { fromMs: 0 };

/**
 * Whether an end comes, or was taken out, which leaves its trace in a version that says what the one before it says. Whose clock is ahead may
 * have gone through that end; he hears that the limits are back by the next change, also where it changes nothing for others.
 */
function knowsEnds(histories: readonly (History | undefined)[]): boolean {
  return histories.some((versions = []) =>
    versions.some((one, i) => one.isEnd === true || (i > 0 && repeats(one, versions[i - 1]))),
  );
}

function repeats(one: LimitsVersion | PlanStint, before: LimitsVersion | PlanStint | undefined): boolean {
  return before !== undefined && "limits" in one && "limits" in before && isSameVersion(one, before);
}

/**
 * The changes of what is in force, the oldest first: one by which nothing became different is none unless `areAll`, and none comes before an
 * earlier one.
 */
function changesAt(
  points: readonly Point[],
  limitsAt: (number: number) => readonly Limit[],
  areAll: boolean,
): readonly LimitsSince[] {
  const changes: LimitsSince[] = [];
  let last = limitSet(limitsAt(BEGINNING.number)).signature;
  for (const { number, count, fromMs, isEnd } of points) {
    const limits = limitsAt(number);
    const { signature } = limitSet(limits);
    if (signature === last && !(areAll && isEnd !== true)) continue;
    const earlierMs = changes.at(-1)?.fromMs ?? 0;
    changes.push({
      fromMs: Math.max(earlierMs, fromMs),
      number: numberOfAll(number, count),
      limits,
      ...given({ isEnd }),
    });
    last = signature;
  }
  return changes;
}

interface ScopesSaying {
  readonly configs: readonly (StoredConfig | undefined)[];
  readonly scopes: readonly ConfigScope[];
}

/** Replaces what the plan of now says by what the plan of then said. A plan that was deleted since has kept what it said. */
function withPlanAt(past: PastPlans, now: ScopesSaying, number: number, placeOf: PlaceOf): ScopesSaying {
  const { stints } = past;
  const stint = stints.findLast((one) => numberOf(one) <= number);
  if (stint === undefined || stint === stints.at(-1)) return now;
  const scopes = past.scopesWith(stint.planId);
  const configs = scopes.map((scope) => {
    if (!("planId" in scope)) return now.configs[now.scopes.findIndex(({ level }) => level === scope.level)];
    const versions = past.historyOf(scope);
    return versions === undefined ? undefined : versionAt(versions, number, placeOf);
  });
  return { configs, scopes };
}

function pastHistories({ stints, scopesWith, historyOf }: PastPlans): (History | undefined)[] {
  const plans = formerPlans(stints).flatMap((planId) => scopesWith(planId).filter((scope) => "planId" in scope));
  return [stints, ...plans.map((scope) => historyOf(scope))];
}

/** The configurations of some scopes as they were after the change of a number, but for policies, which are those of now. */
function configsAt(
  found: readonly (StoredConfig | undefined)[],
  histories: readonly (readonly LimitsVersion[] | undefined)[],
  number: number,
  placeOf: PlaceOf,
): readonly (StoredConfig | undefined)[] {
  return found.map((config, i) => {
    const versions = histories[i];
    const then = versions === undefined ? undefined : versionAt(versions, number, placeOf);
    if (then === undefined) return config;
    const { limits: _, inherit: __, appliesTo: ___, ...policy } = config ?? { limits: [] };
    return { ...policy, ...limitsPart(then) };
  });
}

export function versionsText(versions: readonly LimitsVersion[]): string {
  return JSON.stringify(versions.map((version) => [version.fromMs, limitsPart(version), ...numberIn(version)]));
}

export function versionsFrom(text: unknown): readonly LimitsVersion[] | undefined {
  return historyFrom(text, (said, since) => {
    const config = said as StoredConfig;
    const limits = config.limits.length === 0 ? [] : checkLimits(config.limits, ANY_CRON);
    return { ...limitsPart({ ...config, limits }), ...since };
  });
}

function limitsPart(config: ScopeLimits | undefined): ScopeLimits {
  const { limits = [], inherit, appliesTo } = config ?? {};
  return { limits, ...given({ inherit, appliesTo }) };
}

/** Whether two configurations say the same of limits. */
export function isSameVersion(one: ScopeLimits | undefined, other: ScopeLimits | undefined): boolean {
  const isSame = limitSet(one?.limits ?? []).signature === limitSet(other?.limits ?? []).signature;
  return isSame && one?.inherit === other?.inherit && one?.appliesTo === other?.appliesTo;
}

/** A calendar that finds nothing wrong: the crons were checked when the limits were set. */
const ANY_CRON = { problemOf: () => undefined };

const NONE = Object.freeze({});

/** The changes of a level's limits as a claim carries them, and the ends that lie ahead of it. */
export function changesIn(
  level: Pick<LevelConfig, "changes" | "next">,
  setOf: (limits: readonly Limit[]) => LimitSet,
): Pick<SetOrigin, "changes" | "changeNumber" | "ended" | "ends"> {
  const { changes, next } = level;
  const newest = changes?.at(-1);
  if (next === undefined && newest === undefined) return NONE;
  const sets = changes?.map(({ fromMs, number, limits }) => ({ fromMs, number, set: setOf(limits) }));
  const ended = newest?.isEnd;
  return given({ changeNumber: newest?.number, changes: sets, ended, ends: next && endsAfter(next) });
}

function endsAfter({ atMs, level }: NonNullable<LevelConfig["next"]>): readonly LimitsEnd[] {
  // Whom nothing is counted against, no limit holds back.
  const limits = level.access === "bypass" ? [] : level.limits;
  return [{ atMs, limits }, ...(level.next === undefined ? [] : endsAfter(level.next))];
}
