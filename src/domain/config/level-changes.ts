import type { Limit } from "../limits/limit.ts";
import type { LimitSet, SetOrigin } from "../limits/limit-set.ts";
import type { LevelConfig } from "./config.ts";

const NONE = Object.freeze({});

/** The changes of a level's limits as a claim carries them. */
export function changesIn(
  { changes }: Pick<LevelConfig, "changes">,
  setOf: (limits: readonly Limit[]) => LimitSet,
): Pick<SetOrigin, "changes" | "changeNumber"> {
  const newest = changes?.at(-1);
  if (changes === undefined || newest === undefined) return NONE;
  const sets = changes.map(({ fromMs, number, limits }) => ({ fromMs, number, set: setOf(limits) }));
  return { changeNumber: newest.number, changes: sets };
}
