import type { Api } from "./api.ts";
import type { EffectiveLimits, Level, Limit, LimitSource, StoredLimits } from "./shapes.ts";
import { LEVELS, queryOf, storedAt } from "./stored-limits.ts";

/** Everything the page of limits shows for an entity and a resource, as far as they are chosen. */
export interface LimitsView {
  readonly stored: Readonly<Partial<Record<Level, StoredLimits>>>;
  readonly source: LimitSource;
  readonly inForce: readonly Limit[];
  /** The level that is edited at first. */
  readonly level: Level;
  /** Another one at every reading. */
  readonly version: number;
}

let version = 0;

export async function loadLimits(
  api: Api,
  path: string,
  { entityId, resource }: { readonly entityId: string; readonly resource: string },
  signal: AbortSignal,
): Promise<LimitsView> {
  const asked = LEVELS.flatMap((level) => {
    const query = queryOf(level, entityId, resource);
    return query === undefined ? [] : [{ level, query }];
  });
  const found = await Promise.all(asked.map(({ query }) => storedAt(api, path, query, signal)));
  const stored = Object.fromEntries(
    asked.flatMap(({ level }, i) => (found[i] === undefined ? [] : [[level, found[i]]])),
  );
  const { limits, source } =
    entityId === "" || resource === ""
      ? firstOf(
          asked.map(({ level }) => level),
          stored,
        )
      : await api.get<EffectiveLimits>(`${path}/limits/effective`, { entityId, resource }, signal);
  const level = source === "none" ? (asked[0]?.level ?? "system") : source;
  return { stored, source, inForce: limits, level, version: ++version };
}

/** Without both names nobody can be asked what is in force; among what is chosen the rule is the same. */
function firstOf(levels: readonly Level[], stored: Readonly<Partial<Record<Level, StoredLimits>>>): EffectiveLimits {
  const level = levels.find((each) => (stored[each]?.limits.length ?? 0) > 0);
  return { limits: level === undefined ? [] : (stored[level]?.limits ?? []), source: level ?? "none" };
}
