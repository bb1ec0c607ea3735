import type { LevelConfig } from "./config.ts";

export { TOTAL_RESOURCE } from "../bucket/bucket-key.ts";

/** The totals of an entity as limits on the resource `"*"`. */
export function asTotals(config: LevelConfig): LevelConfig {
  const {
    sources: _,
    forEveryone: __,
    changes: ___,
    next,
    totalsSources,
    totalsForEveryone,
    totalsChanges,
    ...rest
  } = config;
  return {
    ...rest,
    limits: config.totals,
    source: config.totalsSource,
    ...(totalsSources === undefined ? {} : { sources: totalsSources }),
    ...(totalsForEveryone === undefined ? {} : { forEveryone: totalsForEveryone }),
    ...(totalsChanges === undefined ? {} : { changes: totalsChanges }),
    ...(next === undefined ? {} : { next: { atMs: next.atMs, level: asTotals(next.level) } }),
    totals: NONE,
    totalsSource: "none",
  };
}

const NONE: LevelConfig["totals"] = Object.freeze([]);
