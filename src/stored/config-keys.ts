import type { ConfigScope } from "../domain/config/config.ts";
import { type LimitsVersion, versionsFrom } from "../domain/config/config-versions.ts";
import { LEVELS_MAX } from "../domain/config/entity.ts";
import { TOTAL_RESOURCE } from "../domain/config/totals.ts";
import type { Limit } from "../domain/limits/limit.ts";
import { isLimit, readableJson, rowUnreadable } from "./row-damage.ts";

/** The entity or the plan, then the resource; empty: any. */
function keyOf(scope: ConfigScope): [owner: string, resource: string] {
  const owner = "planId" in scope ? scope.planId : "entityId" in scope ? scope.entityId : "";
  if ("resource" in scope) return [owner, scope.resource];
  const isTotal = scope.level === "entityTotal" || scope.level === "planTotal" || scope.level === "systemTotal";
  return [owner, isTotal ? TOTAL_RESOURCE : ""];
}

/** The scope of a row of `config`. */
export function scopeOfRow(entityId: string, resource: string): ConfigScope {
  if (entityId === "") {
    if (resource === TOTAL_RESOURCE) return { level: "systemTotal" };
    return resource === "" ? { level: "system" } : { level: "resource", resource };
  }
  if (resource === TOTAL_RESOURCE) return { level: "entityTotal", entityId };
  return resource === "" ? { level: "entityDefault", entityId } : { level: "entity", entityId, resource };
}

/** The scope of a row of `plan_config`. */
export function scopeOfPlanRow(planId: string, resource: string): ConfigScope {
  if (resource === TOTAL_RESOURCE) return { level: "planTotal", planId };
  return resource === "" ? { level: "planDefault", planId } : { level: "plan", planId, resource };
}

/** The place of a scope: whose it is, an entity's, a default's or a plan's, and of which resource; empty: any. */
type HistoryKey = readonly [of: "entity" | "plan", owner: string, resource: string];

type StintsKey = readonly [of: "stints", owner: string, resource: ""];

export function historyKey(scope: ConfigScope): HistoryKey {
  return ["planId" in scope ? "plan" : "entity", ...keyOf(scope)];
}

/** Every change of a plan touches this name: for whoever does not know the plan of an entity. */
export const ANY_PLAN = "/plans";

/** The place of the plans that an entity had. */
export function stintsKey(entityId: string): StintsKey {
  return ["stints", entityId, ""];
}

/** The limits that a text of JSON has. The same list for the same text: of many ids that go by the same limits, each would otherwise hold its own. */
export function knownLimits(text: unknown): readonly Limit[] {
  const known = byText.get(text);
  if (known !== undefined) return known;
  const found = readableJson(text, LIMITS);
  // Their schedules were checked when they were set.
  if (!Array.isArray(found) || !found.every((one) => isLimit(one, ANY_CRON))) throw rowUnreadable(text, LIMITS);
  if (byText.size >= TEXTS_MAX) byText.clear();
  byText.set(text, found);
  return found;
}

const TEXTS_MAX = 1_000;
const byText = new Map<unknown, readonly Limit[]>();

const LIMITS = { table: "config", column: "limits", of: "" };
const ANY_CRON = { problemOf: () => undefined };

/** The versions that a text has. The same text gives the same list: sets of limits are made once for a list. */
export function knownVersions(text: string): readonly LimitsVersion[] | undefined {
  let versions = versionsByText.get(text);
  if (versions === undefined) {
    versions = versionsFrom(text);
    if (versions === undefined) return undefined;
    if (versionsByText.size >= HISTORIES_MAX) versionsByText.clear();
    versionsByText.set(text, versions);
  }
  return versions;
}

const HISTORIES_MAX = 1_000;
const versionsByText = new Map<string, readonly LimitsVersion[]>();

/** The entity and those above it, upwards. One more than there may be: that there are too many is seen. */
export function lineAbove<Found>(
  id: string,
  find: (id: string) => Found | undefined,
  parentOf: (found: Found) => string | undefined,
): readonly Found[] {
  const line: Found[] = [];
  for (let next: string | undefined = id; next !== undefined && line.length <= LEVELS_MAX; ) {
    const found = find(next);
    if (found === undefined) break;
    line.push(found);
    next = parentOf(found);
  }
  return line;
}

/** Below an entity the longest line of descendants, downwards. */
export function longestBelow<Found>(
  id: string,
  childrenOf: (id: string) => readonly Found[],
  idOf: (found: Found) => string,
  levels = LEVELS_MAX + 1,
): readonly Found[] {
  let longest: readonly Found[] = [];
  if (levels === 0) return longest;
  for (const child of childrenOf(id)) {
    const line = [child, ...longestBelow(idOf(child), childrenOf, idOf, levels - 1)];
    if (line.length > longest.length) longest = line;
  }
  return longest;
}
