import type { LimitsFrom, SetOrigin } from "../../domain/limits/limit-set.ts";

/** Origins that say the same become one object, as long as they come one after the other: of many ids, each would otherwise hold its own. */
export class SharedOrigins {
  #last: SetOrigin | undefined;

  shared(origin: SetOrigin): SetOrigin {
    const last = this.#last;
    const hasSameChanges = last !== undefined && isSame(last.changes, origin.changes);
    if (hasSameChanges && isAlike(last, origin)) return last;
    // Of another instant, most often.
    this.#last = hasSameChanges && last.changes !== undefined ? { ...origin, changes: last.changes } : origin;
    return this.#last;
  }
}

/** In all but the changes. */
function isAlike(a: SetOrigin, b: SetOrigin): boolean {
  if (a.asOfMs !== b.asOfMs || a.generation !== b.generation || a.reading !== b.reading) return false;
  return a.given === b.given && a.own === b.own && a.changeNumber === b.changeNumber;
}

function isSame(a: readonly LimitsFrom[] | undefined, b: readonly LimitsFrom[] | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return a.length === b.length && a.every(({ number, set }, i) => number === b[i]?.number && set === b[i]?.set);
}
