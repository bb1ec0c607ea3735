import { checkLimits, type Limit } from "../limits/limit.ts";
import { limitSet } from "../limits/limit-set.ts";
import { type ChangeTime, numberOfAll } from "./change-number.ts";
import {
  CHANGES_KEPT,
  type ConfigScope,
  type ConfiguredEntity,
  type LevelConfig,
  type LimitsSince,
  resolveConfig,
  type StoredConfig,
} from "./config.ts";
import { formerPlans, type PlanStint } from "./plan-stints.ts";
import { numberIn, numberOf, type Since, sinceAfter, sinceFrom } from "./since.ts";

/** What of a stored configuration decides which limits there are. */
type ScopeLimits = Pick<StoredConfig, "limits" | "inherit" | "appliesTo">;

/** What a scope said of limits from an instant on. */
export interface LimitsVersion extends ScopeLimits, Since {}

/**
 * What a scope said over time, the oldest first, now that it says something else from `atMs` on. The first version is what it said
 * before the oldest change that is kept. `versions` undefined: nothing is known of the time before.
 */
export function withVersion(
  versions: readonly LimitsVersion[] | undefined,
  before: ScopeLimits | undefined,
  after: ScopeLimits | undefined,
  time: ChangeTime,
): readonly LimitsVersion[] | undefined {
  if (isSameVersion(before, after)) return versions;
  const known = versions ?? [{ ...limitsPart(before), fromMs: 0 }];
  const [oldest, ...later] = [...known, { ...limitsPart(after), ...sinceAfter(known, time) }].slice(-CHANGES_KEPT - 1);
  return oldest === undefined ? [] : [{ ...limitsPart(oldest), fromMs: 0 }, ...later];
}

/** The plans that an entity had, where it had another before. */
interface PastPlans {
  /** The oldest first; the last is its plan of now. */
  readonly stints: readonly PlanStint[];
  /** The scopes that apply to it where it has that plan. */
  scopesWith(planId: string | undefined): readonly ConfigScope[];
  /** What a scope of a plan that it had said over time; undefined: it never had limits. */
  historyOf(scope: ConfigScope): readonly LimitsVersion[] | undefined;
}

/** What a scope said over time. Where no change of it is known, it has always said what it says now. */
export function saidOver(
  history: readonly LimitsVersion[] | undefined,
  config: ScopeLimits | undefined,
): readonly LimitsVersion[] | undefined {
  return history ?? (config === undefined ? undefined : [{ ...limitsPart(config), fromMs: 0 }]);
}

/** What the scopes and the entity say together, with the changes of the limits; `histories` are those of the scopes, as far as known. */
export function resolveChanges(
  found: readonly (StoredConfig | undefined)[],
  histories: readonly (readonly LimitsVersion[] | undefined)[],
  scopes: readonly ConfigScope[],
  entity: ConfiguredEntity | undefined,
  past: PastPlans | undefined,
): LevelConfig {
  const now = resolveConfig(found, scopes, entity);
  const points = pointsOf([...histories, ...(past === undefined ? [] : pastHistories(past))]);
  if (points.length === 0) return now;
  const at = new Map(
    [BEGINNING, ...points].map(({ number }) => {
      const configs = configsAt(found, histories, number);
      const then = past === undefined ? { configs, scopes } : withPlanAt(past, { configs, scopes }, number);
      return [number, resolveConfig(then.configs, then.scopes, entity)] as const;
    }),
  );
  const changes = changesAt(points, (number) => at.get(number)?.limits ?? []);
  const totalsChanges = changesAt(points, (number) => at.get(number)?.totals ?? []);
  return {
    ...now,
    ...(changes.length === 0 ? {} : { changes }),
    ...(totalsChanges.length === 0 ? {} : { totalsChanges }),
  };
}

/** What a scope said after the change of a number. */
function versionAt(versions: readonly LimitsVersion[], number: number): LimitsVersion | undefined {
  return versions.findLast((version) => numberOf(version) <= number) ?? versions[0];
}

/** A change of one or several scopes at once. */
interface Point {
  readonly fromMs: number;
  readonly number: number;
  readonly count: number;
}

const BEGINNING: Point = { fromMs: 0, number: 0, count: 1 };

/** The changes in several histories, those of one number together, in the order in which they were made. */
function pointsOf(histories: readonly (readonly Since[] | undefined)[]): readonly Point[] {
  const points = new Map<number, Point>();
  for (const since of histories.flatMap((versions) => versions ?? [])) {
    if (since.fromMs === 0) continue;
    const number = numberOf(since);
    const { fromMs, count } = points.get(number) ?? { fromMs: 0, count: 0 };
    points.set(number, { fromMs: Math.max(fromMs, since.fromMs), number, count: count + 1 });
  }
  return [...points.values()].sort((a, b) => a.number - b.number);
}

/** The changes of what is in force, the oldest first: one by which nothing became different is none, and none comes before an earlier one. */
function changesAt(points: readonly Point[], limitsAt: (number: number) => readonly Limit[]): readonly LimitsSince[] {
  const changes: LimitsSince[] = [];
  let last = limitSet(limitsAt(BEGINNING.number)).signature;
  for (const { number, count, fromMs } of points) {
    const limits = limitsAt(number);
    const { signature } = limitSet(limits);
    if (signature === last) continue;
    const earlierMs = changes.at(-1)?.fromMs ?? 0;
    changes.push({ fromMs: Math.max(earlierMs, fromMs), number: numberOfAll(number, count), limits });
    last = signature;
  }
  return changes;
}

interface ScopesSaying {
  readonly configs: readonly (StoredConfig | undefined)[];
  readonly scopes: readonly ConfigScope[];
}

/** The same with what the entity's plan of then said. A plan that was deleted since has kept what it said. */
function withPlanAt(past: PastPlans, now: ScopesSaying, number: number): ScopesSaying {
  const { stints } = past;
  const stint = stints.findLast((one) => numberOf(one) <= number);
  if (stint === undefined || stint === stints.at(-1)) return now;
  const scopes = past.scopesWith(stint.planId);
  const configs = scopes.map((scope) => {
    if (!("planId" in scope)) return now.configs[now.scopes.findIndex(({ level }) => level === scope.level)];
    const versions = past.historyOf(scope);
    return versions === undefined ? undefined : versionAt(versions, number);
  });
  return { configs, scopes };
}

function pastHistories({ stints, scopesWith, historyOf }: PastPlans): (readonly Since[] | undefined)[] {
  const plans = formerPlans(stints).flatMap((planId) => scopesWith(planId).filter((scope) => "planId" in scope));
  return [stints, ...plans.map((scope) => historyOf(scope))];
}

/** The configurations of some scopes as they were after the change of a number, but for policies, which are those of now. */
function configsAt(
  found: readonly (StoredConfig | undefined)[],
  histories: readonly (readonly LimitsVersion[] | undefined)[],
  number: number,
): readonly (StoredConfig | undefined)[] {
  return found.map((config, i) => {
    const versions = histories[i];
    const then = versions === undefined ? undefined : versionAt(versions, number);
    if (then === undefined) return config;
    const { limits: _, inherit: __, appliesTo: ___, ...policy } = config ?? { limits: [] };
    return { ...policy, ...limitsPart(then) };
  });
}

export function versionsText(versions: readonly LimitsVersion[]): string {
  return JSON.stringify(versions.map((version) => [version.fromMs, limitsPart(version), ...numberIn(version)]));
}

/** Undefined where the text is not of this form: then nothing is known of the time before. */
export function versionsFrom(text: unknown): readonly LimitsVersion[] | undefined {
  try {
    const found: unknown = JSON.parse(String(text));
    if (!Array.isArray(found)) return undefined;
    return found.map(([fromMs, said, number]) => {
      const limits: readonly Limit[] = said.limits.length === 0 ? [] : checkLimits(said.limits, ANY_CRON);
      return { ...limitsPart({ ...said, limits }), ...sinceFrom(fromMs, number) };
    });
  } catch {
    return undefined;
  }
}

function limitsPart(config: ScopeLimits | undefined): ScopeLimits {
  const { limits = [], inherit, appliesTo } = config ?? {};
  return {
    limits,
    ...(inherit === undefined ? {} : { inherit }),
    ...(appliesTo === undefined ? {} : { appliesTo }),
  };
}

/** Whether two configurations say the same of limits. */
export function isSameVersion(one: ScopeLimits | undefined, other: ScopeLimits | undefined): boolean {
  const isSame = limitSet(one?.limits ?? []).signature === limitSet(other?.limits ?? []).signature;
  return isSame && one?.inherit === other?.inherit && one?.appliesTo === other?.appliesTo;
}

/** Whether its cron expressions can be was checked when it was set. */
const ANY_CRON = { problemOf: () => undefined };
