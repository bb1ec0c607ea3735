import type { Tokens } from "../domain/charge/amounts.ts";
import { TOTAL_RESOURCE } from "../domain/config/totals.ts";
import { ResourceDisabled, ValidationError } from "../domain/names/errors.ts";
import type { Outcome } from "../engine/acquire/acquiring.ts";
import { refusalOfNever } from "../engine/acquire/request.ts";
import type { StoreClient } from "../engine/acquire/store-client.ts";
import type { Lease } from "../engine/lease/lease.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import { partsOf } from "../engine/limiter/limiter-parts.ts";
import type { Refusal } from "../engine/refusal/refusal.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import { InOrder } from "./in-order.ts";
import type { LoggedRequest } from "./logged-requests.ts";
import { settled } from "./settling.ts";

/** A clock that is set. */
export interface SetClock {
  nowMs: number;
}

/** The limit that stood in the way of a request. */
export interface Refused {
  readonly kind: "refused";
  /** The name of the limit; `null`: the resource is switched off. */
  readonly limit: string | null;
  /** Whose limit it is; of a resource that is switched off, the scope at which it is. */
  readonly level: string;
  /** True: the limit is one of the totals. */
  readonly total: boolean;
  readonly waitMs: number;
}

/** The decision about a request. `unlimited`: no limit counts anything of it. */
export type Decision = Refused | { readonly kind: "granted" | "unlimited" };

const GRANTED: Decision = { kind: "granted" };
const UNLIMITED: Decision = { kind: "unlimited" };

/** Work that is due at an instant of the log: the end of a lease, or the renewal of its slots. */
interface Due {
  readonly atMs: number;
  readonly lease: Lease;
  /** The end of the work that the lease is for. */
  readonly endMs: number;
  readonly actual: Tokens | undefined;
}

/** A set of limits on a store that answers at once, at the instants of a log. */
export class ReplayedLimits {
  readonly #limiter: Limiter;
  readonly #client: StoreClient;
  readonly #clock: SetClock;
  readonly #due = new InOrder<Due>();

  constructor(limiter: Limiter, clock: SetClock) {
    this.#limiter = limiter;
    this.#client = partsOf(limiter).acquirer.client;
    this.#clock = clock;
  }

  /** Decides about the next request, after what is due until then. */
  decide(logged: LoggedRequest): MaybePromise<Decision> {
    const worked = this.#workUntil(logged.atMs);
    return worked instanceof Promise ? worked.then(() => this.#decideNow(logged)) : this.#decideNow(logged);
  }

  #decideNow({ atMs, request, endMs, actual }: LoggedRequest): MaybePromise<Decision> {
    this.#clock.nowMs = atMs;
    let outcome: Outcome;
    try {
      outcome = this.#limiter.tryAcquireSync(request);
    } catch (error) {
      return decisionOf(error);
    }
    if (!outcome.ok) return refusedBy(outcome);
    const { lease } = outcome;
    if (endMs > atMs) this.#keep({ lease, endMs, actual });
    else {
      const ended = settled(this.#client, lease, actual);
      if (ended instanceof Promise) return ended.then(() => GRANTED);
    }
    return GRANTED;
  }

  #workUntil(atMs: number): MaybePromise<unknown> {
    while (this.#due.firstMs <= atMs) {
      const due = this.#due.takeFirst();
      this.#clock.nowMs = due.atMs;
      const worked = due.atMs === due.endMs ? settled(this.#client, due.lease, due.actual) : this.#renew(due);
      if (worked instanceof Promise) return worked.then(() => this.#workUntil(atMs));
    }
  }

  async #renew(due: Due): Promise<void> {
    await due.lease.renew();
    this.#keep(due);
  }

  /** Keeps a lease until the end of its work; its slots are renewed meanwhile, as a program does. */
  #keep({ lease, endMs, actual }: Omit<Due, "atMs">): void {
    const untilMs = lease.holdsUntilMs ?? endMs;
    const { nowMs } = this.#clock;
    const atMs = untilMs < endMs ? nowMs + Math.max(1, Math.floor((untilMs - nowMs) / 2)) : endMs;
    this.#due.add({ atMs, lease, endMs, actual });
  }
}

function decisionOf(error: unknown): Decision {
  if (error instanceof ResourceDisabled) {
    return { kind: "refused", limit: null, level: error.level, total: false, waitMs: Number.POSITIVE_INFINITY };
  }
  if (!(error instanceof ValidationError)) throw error;
  const refusal = refusalOfNever(error);
  if (refusal !== undefined) return { ...refusedBy(refusal), waitMs: Number.POSITIVE_INFINITY };
  if (error.code === "limits_missing" || error.code === "consume_empty") return UNLIMITED;
  throw error;
}

function refusedBy({ primary, retryAfterMs }: Refusal): Refused {
  const { limit, entityId: level, resource } = primary;
  return { kind: "refused", limit, level, total: resource === TOTAL_RESOURCE, waitMs: retryAfterMs };
}
