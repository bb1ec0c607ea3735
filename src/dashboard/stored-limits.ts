import type { Api } from "./api.ts";
import type { Level, Levels, StoredLimits } from "./shapes.ts";

/** Whose limits: those that are not named do not count. */
export interface Named {
  readonly entityId: string;
  readonly resource: string;
  readonly planId: string;
}

/** The levels of limits on a resource, the most specific first, as they are asked. */
export const LIMIT_LEVELS: readonly Level[] = ["entity", "entityDefault", "plan", "planDefault", "resource", "system"];
/** Those of limits over all resources. */
export const TOTAL_LEVELS: readonly Level[] = ["entityTotal", "planTotal", "systemTotal"];
export const LEVELS: readonly Level[] = [...LIMIT_LEVELS, ...TOTAL_LEVELS];

export function isTotal(level: Level): boolean {
  return TOTAL_LEVELS.includes(level);
}

/** Whether a level is of one entity; all others are of many. */
export function isOfEntity(level: Level): boolean {
  return /^entity/.test(level);
}

/** Which level a query means. Undefined where it cannot be named: it needs an entity, a plan or a resource that was not given. */
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

/** Where a level is read and set. */
export function addressOf(path: string, level: Level): string {
  return `${path}/${isTotal(level) ? "totals" : "limits"}`;
}

/** What every level says that counts for those names, in one question: one that says nothing is no error. */
export function levelsOf(
  api: Api,
  path: string,
  { entityId, resource, planId }: Named,
  signal: AbortSignal | undefined,
): Promise<Levels> {
  // An entity goes by its own plan.
  const plan = entityId === "" ? planId : "";
  return api.get<Levels>(`${path}/limits/levels`, { entityId, resource, planId: plan }, signal);
}

/** What the level says that has exactly these names. */
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
