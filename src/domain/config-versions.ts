import {
  CHANGES_KEPT,
  type ConfigScope,
  type ConfiguredEntity,
  type LevelConfig,
  type LimitsSince,
  resolveConfig,
  type StoredConfig,
} from "./config.ts";
import type { Limit } from "./limit.ts";
import { checkLimits } from "./limit.ts";
import { limitSet } from "./limit-set.ts";
import { formerPlans, type PlanStint } from "./plan-stints.ts";

/** What of a stored configuration decides which limits there are. */
type ScopeLimits = Pick<StoredConfig, "limits" | "inherit" | "appliesTo">;

/** What a scope said of limits from an instant on. */
export interface LimitsVersion extends ScopeLimits {
  /** 0: before all changes that are kept; since when is not known. */
  readonly fromMs: number;
}

/**
 * What a scope said over time, the oldest first, now that it says something else from `atMs` on. The first version is what it said
 * before the oldest change that is kept. `versions` undefined: nothing is known of the time before.
 */
export function withVersion(
  versions: readonly LimitsVersion[] | undefined,
  before: ScopeLimits | undefined,
  after: ScopeLimits | undefined,
  atMs: number,
): readonly LimitsVersion[] | undefined {
  if (isSameVersion(before, after)) return versions;
  const known = versions ?? [{ ...limitsPart(before), fromMs: 0 }];
  // By a clock that is behind, too, a later change comes after an earlier one.
  const fromMs = Math.max(atMs, (known.at(-1)?.fromMs ?? 0) + 1);
  const [oldest, ...later] = [...known, { ...limitsPart(after), fromMs }].slice(-CHANGES_KEPT - 1);
  return oldest === undefined ? [] : [{ ...oldest, fromMs: 0 }, ...later];
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
  const instants = instantsOf([...histories, ...(past === undefined ? [] : pastHistories(past))]);
  if (instants.length === 0) return now;
  const at = new Map(
    [0, ...instants].map((atMs) => {
      const configs = configsAt(found, histories, atMs);
      const then = past === undefined ? { configs, scopes } : withPlanAt(past, { configs, scopes }, atMs);
      return [atMs, resolveConfig(then.configs, then.scopes, entity)] as const;
    }),
  );
  const changes = changesAt(instants, (atMs) => at.get(atMs)?.limits ?? []);
  const totalsChanges = changesAt(instants, (atMs) => at.get(atMs)?.totals ?? []);
  return {
    ...now,
    ...(changes.length === 0 ? {} : { changes }),
    ...(totalsChanges.length === 0 ? {} : { totalsChanges }),
  };
}

/** What a scope said at an instant. */
function versionAt(versions: readonly LimitsVersion[], atMs: number): LimitsVersion | undefined {
  return versions.findLast(({ fromMs }) => fromMs <= atMs) ?? versions[0];
}

/** The instants of the changes in several histories, each once, in their order. */
function instantsOf(histories: readonly (readonly Since[] | undefined)[]): number[] {
  const instants = new Set<number>();
  for (const versions of histories) for (const { fromMs } of versions ?? []) if (fromMs > 0) instants.add(fromMs);
  return [...instants].sort((a, b) => a - b);
}

/** The changes of what is in force, the oldest first: an instant at which nothing became different is none. */
function changesAt(instants: readonly number[], limitsAt: (atMs: number) => readonly Limit[]): readonly LimitsSince[] {
  const changes: LimitsSince[] = [];
  let last: string | undefined;
  for (const fromMs of [0, ...instants]) {
    const limits = limitsAt(fromMs);
    const { signature } = limitSet(limits);
    if (fromMs > 0 && signature !== last) changes.push({ fromMs, limits });
    last = signature;
  }
  return changes;
}

interface ScopesSaying {
  readonly configs: readonly (StoredConfig | undefined)[];
  readonly scopes: readonly ConfigScope[];
}

/** The same with what the entity's plan of that instant said then. A plan that was deleted since has kept what it said. */
function withPlanAt(past: PastPlans, now: ScopesSaying, atMs: number): ScopesSaying {
  const { stints } = past;
  const stint = stints.findLast(({ fromMs }) => fromMs <= atMs);
  if (stint === undefined || stint === stints.at(-1)) return now;
  const scopes = past.scopesWith(stint.planId);
  const configs = scopes.map((scope) => {
    if (!("planId" in scope)) return now.configs[now.scopes.findIndex(({ level }) => level === scope.level)];
    const versions = past.historyOf(scope);
    return versions === undefined ? undefined : versionAt(versions, atMs);
  });
  return { configs, scopes };
}

function pastHistories({ stints, scopesWith, historyOf }: PastPlans): (readonly Since[] | undefined)[] {
  const plans = formerPlans(stints).flatMap((planId) => scopesWith(planId).filter((scope) => "planId" in scope));
  return [stints, ...plans.map((scope) => historyOf(scope))];
}

/** The configurations of some scopes as they were at an instant, but for policies, which are those of now. */
function configsAt(
  found: readonly (StoredConfig | undefined)[],
  histories: readonly (readonly LimitsVersion[] | undefined)[],
  atMs: number,
): readonly (StoredConfig | undefined)[] {
  return found.map((config, i) => {
    const versions = histories[i];
    const then = versions === undefined ? undefined : versionAt(versions, atMs);
    if (then === undefined) return config;
    const { limits: _, inherit: __, appliesTo: ___, ...policy } = config ?? { limits: [] };
    return { ...policy, ...limitsPart(then) };
  });
}

export function versionsText(versions: readonly LimitsVersion[]): string {
  return JSON.stringify(versions.map(({ fromMs, ...said }) => [fromMs, said]));
}

/** Undefined where the text is not of this form: then nothing is known of the time before. */
export function versionsFrom(text: unknown): readonly LimitsVersion[] | undefined {
  try {
    const found: unknown = JSON.parse(String(text));
    if (!Array.isArray(found)) return undefined;
    return found.map(([fromMs, said]) => {
      if (!Number.isSafeInteger(fromMs) || fromMs < 0) throw new RangeError(`${fromMs} is not an instant.`);
      const limits: readonly Limit[] = said.limits.length === 0 ? [] : checkLimits(said.limits, ANY_CRON);
      return { ...limitsPart({ ...said, limits }), fromMs };
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

interface Since {
  readonly fromMs: number;
}
