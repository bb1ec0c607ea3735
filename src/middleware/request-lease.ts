import { renewWhileOpen } from "../domain/lease-renewal.ts";
import type { Acquiring } from "../engine/acquiring.ts";
import type { Lease } from "../engine/lease.ts";
import { partsIfLimiter } from "../engine/limiter-parts.ts";
import { type About, tellDegraded, tellNotStored } from "./degraded.ts";
import type { CheckedOptions, RequestOutcome } from "./options.ts";

/** The lease of one request, until the first of its ends. */
export class RequestLease<In> {
  readonly lease: Lease;
  readonly #limiter: Acquiring;
  readonly #about: About;
  readonly #options: CheckedOptions<In>;
  #closing: Promise<void> | undefined;

  constructor(lease: Lease, limiter: Acquiring, about: About, options: CheckedOptions<In>) {
    this.lease = lease;
    this.#limiter = limiter;
    this.#about = about;
    this.#options = options;
    // A limiter that is closed with `drainMs` waits for requests as it does for `withLease`.
    partsIfLimiter(limiter)?.acquirer.listeners.lifecycle.bodyBegins();
    renewWhileOpen(lease);
  }

  /** Settles or gives back, by how the request ended. Only the first call does anything. It never throws. */
  readonly close = (outcome: RequestOutcome): Promise<void> => {
    this.#closing ??= this.#close(outcome);
    return this.#closing;
  };

  async #close(outcome: RequestOutcome): Promise<void> {
    const { lease } = this;
    try {
      // The handler may have closed it.
      if (lease.status === "open") await ((await this.#givesBack(outcome)) ? lease.rollback() : lease.settle());
    } catch (error) {
      tellNotStored(this.#limiter, this.#about, error);
    } finally {
      partsIfLimiter(this.#limiter)?.acquirer.listeners.lifecycle.bodyEnds();
    }
    try {
      await this.#options.onClosed?.({ lease, outcome });
    } catch (error) {
      tellDegraded(this.#limiter, this.#about, "onClosed threw", error);
    }
  }

  async #givesBack(outcome: RequestOutcome): Promise<boolean> {
    try {
      return await this.#options.givesBackOn(outcome);
    } catch (error) {
      // Doubt favours the limit.
      tellDegraded(this.#limiter, this.#about, "giveBackOn threw", error);
      return false;
    }
  }
}
