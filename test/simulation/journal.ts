import type { SetOrigin } from "../../src/domain/limits/limit-set.ts";

/** What happened, step by step, and what should not have. Only the last steps are kept. */
export class Journal {
  readonly violations: string[] = [];
  /** How often what happened: a world in which nothing happens proves nothing. */
  readonly tally: Record<string, number> = {};
  readonly #steps: string[] = [];
  readonly #verbose: boolean;
  #step = 0;

  constructor(verbose: boolean) {
    this.#verbose = verbose;
  }

  /** The last steps, oldest first. */
  get steps(): readonly string[] {
    return this.#steps;
  }

  count(what: string): void {
    this.tally[what] = (this.tally[what] ?? 0) + 1;
  }

  /** How many changes of stored limits a bucket meets now that met others last; one after the other, or several at once. */
  countMet({ changes = [] }: Pick<SetOrigin, "changes">, metNumber: number): number {
    const since = changes.filter(({ number }) => number > metNumber).length;
    if (since > 0) this.count(since > 1 ? "changes met together" : "changes met");
    return since;
  }

  note(text: string): void {
    const line = `${String(++this.#step).padStart(5)}  ${text}`;
    if (this.#verbose) console.log(line);
    this.#steps.push(line);
    if (this.#steps.length > STEPS_KEPT) this.#steps.shift();
  }

  /** Reported only where there is a listener: there are many of these. */
  detail(text: () => string): void {
    if (this.#verbose) this.note(text());
  }

  violation(text: string): void {
    this.note(`VIOLATION ${text}`);
    this.violations.push(text);
  }
}

const STEPS_KEPT = 25;
