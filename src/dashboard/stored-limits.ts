import type { Api } from "./api.ts";
import type { EffectiveLimits, Level, Levels, Limit, StoredLimits } from "./shapes.ts";

/** The names that limits are stored for; an empty one is not given. */
export interface Named {
  readonly entityId: string;
  readonly resource: string;
  readonly planId: string;
}

/** The levels of limits on a resource, the most specific first. */
export const LIMIT_LEVELS: readonly Level[] = ["entity", "entityDefault", "plan", "planDefault", "resource", "system"];
/** The levels of limits over all resources. */
export const TOTAL_LEVELS: readonly Level[] = ["entityTotal", "planTotal", "systemTotal"];
export const LEVELS: readonly Level[] = [...LIMIT_LEVELS, ...TOTAL_LEVELS];

export function isTotal(level: Level): boolean {
  return TOTAL_LEVELS.includes(level);
}

/** True for the levels of one entity; all others are of many. */
export function isOfEntity(level: Level): boolean {
  return /^entity/.test(level);
}

/** The query that names a level. Undefined if the level needs an entity, a plan or a resource that is not given. */
export function queryOf(level: Level, { entityId, resource, planId }: Named): Record<string, string> | undefined {
  const parts = {
    entity: { entityId, resource },
    entityDefault: { entityId },
    plan: { planId, resource },
    planDefault: { planId },
    resource: { resource },
    system: {},
    entityTotal: { entityId },
    planTotal: { planId },
    systemTotal: {},
  }[level] as Record<string, string>;
  return Object.values(parts).includes("") ? undefined : parts;
}

export function addressOf(path: string, level: Level): string {
  return `${path}/${isTotal(level) ? "totals" : "limits"}`;
}

/** Reads all levels that apply to the names in one request. */
export function levelsOf(
  api: Api,
  path: string,
  { entityId, resource, planId }: Named,
  signal: AbortSignal | undefined,
): Promise<Levels> {
  // The service uses the plan of the entity.
  const plan = entityId === "" ? planId : "";
  return api.get<Levels>(`${path}/limits/levels`, { entityId, resource, planId: plan }, signal);
}

/** Reads the level of exactly these names. */
export async function storedAt(
  api: Api,
  path: string,
  scope: { readonly entityId?: string; readonly resource?: string },
  signal: AbortSignal | undefined,
): Promise<StoredLimits | undefined> {
  const { entityId = "", resource = "" } = scope;
  const { items } = await levelsOf(api, path, { entityId, resource, planId: "" }, signal);
  return items[0];
}

/** The limits in force on a resource, or over all resources. */
export interface InForce {
  readonly limits: readonly Limit[];
  /** The levels that they come from, the most specific first. */
  readonly from: readonly Level[];
}

/** The content of the page of limits for the names that are chosen. */
export interface LimitsView {
  readonly stored: Readonly<Partial<Record<Level, StoredLimits>>>;
  /** The chosen names; with an entity, the plan is its own. */
  readonly names: Named;
  readonly limits: InForce;
  readonly totals: InForce;
  /** The level that is edited at first. */
  readonly level: Level;
  /** Changes at every reading. */
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

/** The level to edit at first: one of the entity if an entity is chosen, else the first in force. */
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

/** The rule of the service, for names that it has no answer for: the first level with limits, and the next ones while they inherit. */
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
