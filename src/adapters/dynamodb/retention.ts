import type { Attributes } from "./codec.ts";

/** The retention of usage or of audit events in one namespace, from its system configuration; 90 days by default. */
export class Retention {
  readonly #attribute: string;
  #keptS = RETENTION_DAYS * DAY_S;
  #isKnown = false;

  constructor(attribute: string) {
    this.#attribute = attribute;
  }

  get keptS(): number {
    return this.#keptS;
  }

  /** False until the configuration was read. */
  get isKnown(): boolean {
    return this.#isKnown;
  }

  /** Called with the system's configuration whenever it is read. */
  learn(system: Attributes | undefined): void {
    this.#keptS = Math.ceil((daysIn(system, this.#attribute) ?? RETENTION_DAYS) * DAY_S);
    this.#isKnown = true;
  }
}

/** The configured days; undefined where the value is missing or not a positive number. */
export function daysIn(system: Attributes | undefined, attribute: string): number | undefined {
  const days = Number(system?.[attribute]?.N);
  return Number.isFinite(days) && days > 0 ? days : undefined;
}

const RETENTION_DAYS = 90;
const DAY_S = 86_400;
