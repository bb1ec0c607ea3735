import type { ItemAnswer } from "../../ports/item-store.ts";
import { showsNonce } from "../decide/take-answer.ts";
import type { Ambiguous, Later } from "../decide/take-phase.ts";
import type { Sent } from "./job.ts";

/**
 * The answers that come too late to a take whose outcome was reported as unknown. `applied` says that this sending landed. A
 * failed one whose item shows the nonce says that another sending of the same take did: of the two answers, whichever comes
 * first, one landing is told.
 */
export class LateWatch {
  readonly #phase: Ambiguous;
  readonly #landed: (sent: Sent) => void;
  /** A landing was told by its nonce alone; its own answer may still come. */
  #isPresumed = false;
  #isTold = false;

  constructor(phase: Ambiguous, landed: (sent: Sent) => void) {
    this.#phase = phase;
    this.#landed = landed;
  }

  on({ sent }: Later, answer: ItemAnswer): void {
    if (answer.kind === "applied") {
      if (this.#isPresumed) this.#isPresumed = false;
      else this.#tell(sent);
    } else if (answer.kind === "failed" && !this.#isTold && showsNonce(answer.item, sent.intent)) {
      this.#isPresumed = true;
      this.#tell(this.#otherThan(sent));
    }
  }

  #tell(sent: Sent): void {
    this.#isTold = true;
    this.#landed(sent);
  }

  #otherThan(sent: Sent): Sent {
    return this.#phase.lost.find((other) => other !== sent) ?? sent;
  }
}
