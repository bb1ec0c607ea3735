import type { Acquiring } from "../engine/acquire/acquiring.ts";
import { type Lease, settledAtOnce } from "../engine/lease/lease.ts";
import type { Lifecycle } from "../engine/limiter/lifecycle.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import { type About, tellDegraded, tellNotStored } from "./degraded.ts";
import type { CheckedOptions, RequestOutcome } from "./options.ts";

const DONE = Promise.resolve();
const LEFT: RequestOutcome = { kind: "disconnected" };

/** A request whose framework may know that its client has left. */
interface KnowsClient {
  hasLeft?(): boolean;
}

/** The lease of one request, until the first of its ends. */
export class RequestLease<In> {
  readonly lease: Lease;
  readonly #limiter: Acquiring;
  readonly #lifecycle: Lifecycle | undefined;
  readonly #about: About;
  readonly #options: CheckedOptions<In>;
  readonly #client: KnowsClient;
  #closing: Promise<void> | undefined;

  /** `lifecycle` is that of a limiter of this process. The arguments are no object: one would be made for every request. */
  constructor(
    lease: Lease,
    limiter: Acquiring,
    lifecycle: Lifecycle | undefined,
    about: About,
    options: CheckedOptions<In>,
    client: KnowsClient,
  ) {
    this.lease = lease;
    this.#limiter = limiter;
    this.#lifecycle = lifecycle;
    this.#about = about;
    this.#options = options;
    this.#client = client;
    // A limiter that is closed with `drainMs` waits for requests as it does for `withLease`.
    lifecycle?.bodyBegins();
    lease.keep();
  }

  /** Settles or gives back, by the end of the request. Only the first call does anything. It never throws. */
  readonly close = (outcome: RequestOutcome): Promise<void> => {
    this.#closing ??= this.#close(this.#endOf(outcome));
    return this.#closing;
  };

  /** A request whose client has left counts as left, whatever its handler does afterwards: work that was begun is paid for. */
  #endOf(outcome: RequestOutcome): RequestOutcome {
    // Ask only if it matters: some servers make the signal of a request when it is asked for.
    const isSettledAnyway = outcome.kind === "finished" && outcome.status < 500 && !this.#options.hearsOfLeaving;
    return !isSettledAnyway && this.#client.hasLeft?.() === true ? LEFT : outcome;
  }

  /** Closes without a wait if nothing has to be stored, as for nearly every request. */
  #close(outcome: RequestOutcome): Promise<void> {
    // The handler may have closed the lease, and the hold of a client's lease may be over.
    if (this.lease.status === "open") {
      const givesBack = this.#givesBack(outcome);
      if (givesBack !== false || !settledAtOnce(this.lease)) return this.#closeLater(givesBack, outcome);
    }
    this.#lifecycle?.bodyEnds();
    return this.#options.onClosed === undefined ? DONE : this.#tellClosed(outcome);
  }

  async #closeLater(givesBack: MaybePromise<boolean>, outcome: RequestOutcome): Promise<void> {
    const { lease } = this;
    try {
      await ((await givesBack) ? lease.rollback() : lease.settle());
    } catch (error) {
      tellNotStored(this.#limiter, this.#about, error);
    } finally {
      this.#lifecycle?.bodyEnds();
    }
    await this.#tellClosed(outcome);
  }

  async #tellClosed(outcome: RequestOutcome): Promise<void> {
    try {
      await this.#options.onClosed?.({ lease: this.lease, outcome });
    } catch (error) {
      tellDegraded(this.#limiter, this.#about, "other", "onClosed threw", error);
    }
  }

  #givesBack(outcome: RequestOutcome): MaybePromise<boolean> {
    try {
      const answer = this.#options.givesBackOn(outcome);
      return typeof answer === "boolean" ? answer : this.#givesBackLater(answer);
    } catch (error) {
      return this.#inDoubt(error);
    }
  }

  async #givesBackLater(answer: Promise<boolean>): Promise<boolean> {
    try {
      return await answer;
    } catch (error) {
      return this.#inDoubt(error);
    }
  }

  // Doubt favours the limit.
  #inDoubt(error: unknown): false {
    tellDegraded(this.#limiter, this.#about, "other", "giveBackOn threw", error);
    return false;
  }
}
