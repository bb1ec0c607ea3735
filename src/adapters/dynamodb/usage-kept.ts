import type { Attributes } from "./codec.ts";
import { USAGE_KEPT_DAYS } from "./schema.ts";

/** How long the usage of one namespace is kept, by its system configuration. */
export class UsageKept {
  #days = DAYS;

  /** In seconds. */
  get keptS(): number {
    return Math.ceil(this.#days * DAY_S);
  }

  /** Takes the system's configuration whenever it is read. */
  learn(system: Attributes | undefined): void {
    this.#days = usageKeptDaysIn(system) ?? DAYS;
  }
}

/** As the system's configuration says; undefined where it does not, or nothing that could be meant. */
export function usageKeptDaysIn(system: Attributes | undefined): number | undefined {
  const days = Number(system?.[USAGE_KEPT_DAYS]?.N);
  return Number.isFinite(days) && days > 0 ? days : undefined;
}

const DAYS = 90;
const DAY_S = 86_400;
