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
    const days = Number(system?.[USAGE_KEPT_DAYS]?.N ?? DAYS);
    this.#days = Number.isFinite(days) && days > 0 ? days : DAYS;
  }
}

const DAYS = 90;
const DAY_S = 86_400;
