import type { LevelConfig, LimitSource } from "../../domain/config/config.ts";
import { changesIn } from "../../domain/config/config-versions.ts";
import type { Limit } from "../../domain/limits/limit.ts";
import type { LimitSet, LimitsFrom, SetOrigin } from "../../domain/limits/limit-set.ts";

/** A read of configuration, as the origin of its limits tells of it. */
interface OriginRead {
  readonly nowMs: number;
  readonly generation: number | undefined;
  /** It contains every change that was confirmed before it began. */
  readonly isConsistent: boolean;
}

/** Origins of limits by the reads that found them. Equal ones that follow each other share one object: many ids would each hold their own. */
export class LinkOrigins {
  #last: SetOrigin | undefined;

  of(config: LevelConfig, read: OriginRead, setOf: (limits: readonly Limit[]) => LimitSet): SetOrigin {
    const { nowMs, generation, isConsistent } = read;
    return this.shared({
      // The time of this read, even if nothing changed: limits that another process gave in a request would otherwise stay on the
      // bucket for good.
      asOfMs: nowMs,
      generation: generation ?? null,
      ...(config.reading === undefined ? {} : { reading: isConsistent ? config.reading : 0 }),
      // By what follows an override, a bucket may be full long after it is by the override.
      ...(OWN.has(config.source) || config.next !== undefined ? { own: true } : {}),
      ...changesIn(config, setOf),
    });
  }

  shared(origin: SetOrigin): SetOrigin {
    // Overrides are few, and each end is another one.
    if (origin.ends !== undefined || origin.ended !== undefined) return origin;
    const last = this.#last;
    const hasSameChanges = last !== undefined && isSame(last.changes, origin.changes);
    if (hasSameChanges && isAlike(last, origin)) return last;
    // Most often only the instant differs.
    this.#last = hasSameChanges && last.changes !== undefined ? { ...origin, changes: last.changes } : origin;
    return this.#last;
  }
}

/** Compares all but the changes. */
function isAlike(a: SetOrigin, b: SetOrigin): boolean {
  if (a.asOfMs !== b.asOfMs || a.generation !== b.generation || a.reading !== b.reading) return false;
  return a.given === b.given && a.own === b.own && a.changeNumber === b.changeNumber;
}

function isSame(a: readonly LimitsFrom[] | undefined, b: readonly LimitsFrom[] | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return a.length === b.length && a.every(({ number, set }, i) => number === b[i]?.number && set === b[i]?.set);
}

/** Levels that belong to one entity. */
const OWN: ReadonlySet<LimitSource> = new Set(["entity", "entityDefault", "entityTotal"]);
