import type { Api } from "./api.ts";
import type { EffectiveLimits, Level, Limit, StoredLimits } from "./shapes.ts";
import { isOfEntity, LIMIT_LEVELS, levelsOf, type Named, queryOf, TOTAL_LEVELS } from "./stored-limits.ts";

/** What holds together: limits on a resource, or limits over all of them. */
export interface InForce {
  readonly limits: readonly Limit[];
  /** The levels that they come from, the most specific first; none: no limits are in force. */
  readonly from: readonly Level[];
}

/** Everything the page of limits shows for an entity, a plan and a resource, as far as they are chosen. */
export interface LimitsView {
  readonly stored: Readonly<Partial<Record<Level, StoredLimits>>>;
  /** As chosen; the plan is that of the entity where there is one. */
  readonly names: Named;
  readonly limits: InForce;
  readonly totals: InForce;
  /** The level that is edited at first. */
  readonly level: Level;
  /** Another one at every reading. */
  readonly version: number;
}

let version = 0;

export async function loadLimits(api: Api, path: string, chosen: Named, signal: AbortSignal): Promise<LimitsView> {
  const { entityId, resource } = chosen;
  const { items, planId = "" } = await levelsOf(api, path, chosen, signal);
  const names = { entityId, resource, planId };
  const stored = storedIn(items);
  const limits =
    entityId === "" || resource === ""
      ? addedUp(LIMIT_LEVELS, stored)
      : inForceOf(await api.get<EffectiveLimits>(`${path}/limits/effective`, { entityId, resource }, signal));
  const first = LIMIT_LEVELS.find((level) => queryOf(level, names) !== undefined) ?? "system";
  const totals = addedUp(TOTAL_LEVELS, stored);
  return {
    ...{ stored, names, limits, totals },
    level: levelAtFirst({ limits, totals, first }, names),
    version: ++version,
  };
}

/** Whoever has chosen an entity edits that entity, wherever its limits come from; else what is in force. */
function levelAtFirst(
  { limits, totals, first }: Pick<LimitsView, "limits" | "totals"> & { readonly first: Level },
  { entityId, resource }: Named,
): Level {
  if (entityId === "") return limits.from[0] ?? totals.from[0] ?? first;
  const ofResource = limits.from.find(isOfEntity);
  return ofResource ?? (resource === "" ? totals.from.find(isOfEntity) : undefined) ?? first;
}

export function storedIn(items: readonly StoredLimits[]): LimitsView["stored"] {
  return Object.fromEntries(items.map((item) => [item.level, item]));
}

function inForceOf({ limits, source, sources = {} }: EffectiveLimits): InForce {
  const found = new Set([source, ...Object.values(sources)]);
  return { limits, from: LIMIT_LEVELS.filter((level) => found.has(level)) };
}

/** The rule of the service, where nobody can be asked about: the first level with limits, and what comes after it as far as they inherit. */
export function addedUp(levels: readonly Level[], stored: LimitsView["stored"]): InForce {
  const limits = new Map<string, Limit>();
  const from: Level[] = [];
  for (const level of levels) {
    const said = stored[level];
    if (said === undefined || said.limits.length === 0) continue;
    const added = said.limits.filter(({ name }) => !limits.has(name));
    for (const limit of added) limits.set(limit.name, limit);
    if (added.length > 0) from.push(level);
    if (said.inherit !== true) break;
  }
  return { limits: [...limits.values()], from };
}
