import { type ConfigScope, isTotal, type LimitSource, type StoredConfig, scopesOf } from "../domain/config/config.ts";
import { TOTAL_RESOURCE } from "../domain/config/totals.ts";
import type { Limit } from "../domain/limits/limit.ts";
import { mergedLimits, sourceOf } from "../domain/limits/merged-limits.ts";
import { entityOf } from "./known.ts";
import { limitText } from "./limit-text.ts";
import { type CommandLimiter, levelsOf } from "./on-store.ts";

/** A limit of a level after the one that is set, which no longer applies on a resource. */
interface HiddenLimit {
  /** `*`: of totals. */
  readonly resource: string;
  readonly source: LimitSource;
  readonly limit: Limit;
  /** The level that is set has one of the same name. */
  readonly replaced: boolean;
}

/** At most this many resources are looked at where a level is about all of them. */
const RESOURCES_MAX = 100;

/** The limits of later levels that those of a level hide: they apply in their place, unless they inherit. */
export async function hiddenBy(
  limiter: CommandLimiter,
  scope: ConfigScope,
  { limits, inherit }: StoredConfig,
): Promise<readonly HiddenLimit[]> {
  if (limits.length === 0 || scope.level === "system" || scope.level === "systemTotal") return [];
  const levels = await levelsOf(limiter);
  const planId = await planOf(limiter, scope);
  const names = new Set(limits.map(({ name }) => name));
  const hidden: HiddenLimit[] = [];
  for (const resource of await resourcesOf(limiter, scope)) {
    const all = scopesOf("entityId" in scope ? scope.entityId : "", resource, planId).filter(
      (one) => isTotal(one) === isTotal(scope),
    );
    const later = all.slice(all.findIndex(({ level }) => level === scope.level) + 1);
    const merged = mergedLimits(await Promise.all(later.map((one) => levels.get(one))), later);
    for (const limit of merged.limits) {
      const replaced = names.has(limit.name);
      if (replaced || inherit !== true) {
        hidden.push({ resource, source: sourceOf(merged, limit.name), limit, replaced });
      }
    }
  }
  return hidden;
}

/** Everything that is hidden, a line each, for people. */
export function hiddenText(hidden: readonly HiddenLimit[]): string {
  if (hidden.length === 0) return "";
  const lines = hidden.map(
    ({ resource, source, limit, replaced }) =>
      `  ${limitText(limit)}  ${wordsOf(source, resource)}${replaced ? ", replaced" : ""}\n`,
  );
  const keeps = hidden.some(({ replaced }) => !replaced) ? "With --inherit, limits of other names stay.\n" : "";
  return `Limits that would no longer apply:\n${lines.join("")}${keeps}`;
}

/** Names the limits that were lost without being replaced; empty if there are none. */
export function lostText(hidden: readonly HiddenLimit[]): string {
  const lost = hidden.filter(({ replaced }) => !replaced);
  const [first] = lost;
  if (first === undefined) return "";
  const names = [...new Set(lost.map(({ limit }) => limit.name))].join(", ");
  const places = [...new Set(lost.map(({ source, resource }) => wordsOf(source, resource)))];
  const more = places.length > PLACES_MAX ? ` and ${places.length - PLACES_MAX} more` : "";
  return `These limits hide others: ${names} ${places.slice(0, PLACES_MAX).join(", ")}${more}. With --inherit they stay.\n`;
}

const PLACES_MAX = 3;

function wordsOf(source: LimitSource, resource: string): string {
  const on = resource === TOTAL_RESOURCE ? "" : ` on ${resource}`;
  switch (source) {
    case "resource":
      return `of the resource ${resource}`;
    case "entityDefault":
      return `of the entity${on}`;
    case "plan":
    case "planDefault":
    case "planTotal":
      return `of the plan${on}`;
    default:
      return `of the system${on}`;
  }
}

async function resourcesOf(limiter: CommandLimiter, scope: ConfigScope): Promise<readonly string[]> {
  if (isTotal(scope)) return [TOTAL_RESOURCE];
  if ("resource" in scope) return [scope.resource];
  return limiter.listResources({ limit: RESOURCES_MAX });
}

async function planOf(limiter: CommandLimiter, scope: ConfigScope): Promise<string | undefined> {
  if ("planId" in scope) return scope.planId;
  return "entityId" in scope ? (await entityOf(limiter, scope.entityId))?.planId : undefined;
}
