import type { ConfigScope, LevelOptions, LimitSource } from "../config/config-scope.ts";
import { ValidationError } from "../names/errors.ts";
import { given } from "../names/given.ts";
import { type Limit, setProblem } from "./limit.ts";

interface LevelLimits extends LevelOptions {
  readonly limits: readonly Limit[];
}

/** The limits that levels give together: of the first that has any, and as far down as they inherit. */
interface MergedLimits {
  /** The limits of the entity when it asks itself. */
  readonly limits: readonly Limit[];
  /** The first level that has any. */
  readonly source: LimitSource;
  /** The level of each limit by name; absent: all are of `source`. */
  readonly sources?: Readonly<Record<string, LimitSource>>;
  /** The limits that a request from below takes of; absent: all of them. */
  readonly forEveryone?: readonly Limit[];
  /** Why the levels do not go together. */
  readonly problem?: MergeProblem;
}

/** A merge that could not be set as one list. */
export interface MergeProblem {
  readonly code: "limits_too_many" | "limits_zones";
  readonly message: string;
}

const NONE: MergedLimits = Object.freeze({ limits: Object.freeze([]), source: "none" });

/** `found` is in the order of `scopes`, most specific first. */
export function mergedLimits(
  found: readonly (LevelLimits | undefined)[],
  scopes: readonly ConfigScope[],
): MergedLimits {
  for (const [i, scope] of scopes.entries()) {
    const config = found[i];
    if (config === undefined || config.limits.length === 0) continue;
    const { limits, inherit, appliesTo } = config;
    const next = inherit === true ? mergedLimits(found.slice(i + 1), scopes.slice(i + 1)) : NONE;
    // The list as it is stored, so that all buckets that go by it share one.
    if (next.limits.length === 0) {
      return { limits, source: scope.level, ...(appliesTo === "callers" ? { forEveryone: [] } : {}) };
    }
    return merged({ limits, level: scope.level, isForCallers: appliesTo === "callers" }, next);
  }
  return NONE;
}

function merged(
  own: { readonly limits: readonly Limit[]; readonly level: LimitSource; readonly isForCallers: boolean },
  next: MergedLimits,
): MergedLimits {
  const names = new Set(own.limits.map(({ name }) => name));
  const added = next.limits.filter(({ name }) => !names.has(name));
  const limits = [...own.limits, ...added];
  const sources = Object.fromEntries([
    ...own.limits.map(({ name }) => [name, own.level] as const),
    ...added.map(({ name }) => [name, sourceOf(next, name)] as const),
  ]);
  const forEveryone = limits.filter(({ name }) =>
    names.has(name) ? !own.isForCallers : (next.forEveryone?.some((limit) => limit.name === name) ?? true),
  );
  const problem = problemOf(limits, sources);
  return {
    limits,
    source: own.level,
    sources,
    ...given({ forEveryone: forEveryone.length === limits.length ? undefined : forEveryone, problem }),
  };
}

interface Sources {
  readonly source: LimitSource;
  readonly sources?: Readonly<Record<string, LimitSource>> | undefined;
}

/** The level that a limit of the merge came from. */
export function sourceOf({ source, sources }: Sources, name: string): LimitSource {
  return sources?.[name] ?? source;
}

/** The level of each limit, by name. */
export function allSources(merge: Sources & Pick<MergedLimits, "limits">): Record<string, LimitSource> {
  return Object.fromEntries(merge.limits.map(({ name }) => [name, sourceOf(merge, name)]));
}

function problemOf(limits: readonly Limit[], sources: Readonly<Record<string, LimitSource>>): MergeProblem | undefined {
  const problem = setProblem(limits);
  if (problem === undefined) return undefined;
  const levels = [...new Set(Object.values(sources))].map((level) => {
    const names = limits.flatMap(({ name }) => (sources[name] === level ? [name] : []));
    return `${level} (${names.join(", ")})`;
  });
  const message =
    `The limits of levels that inherit from each other conflict: ${problem.message} ` +
    `They come from ${levels.join(", ")}. Change one of these levels, or turn its inherit off.`;
  return { code: problem.code as MergeProblem["code"], message };
}

/** The error of a request whose levels do not go together. */
export function mergeError(
  { entityId, resource }: { readonly entityId: string; readonly resource: string },
  { code, message }: MergeProblem,
): ValidationError {
  return new ValidationError(code, `${entityId} on ${resource}: ${message}`);
}
