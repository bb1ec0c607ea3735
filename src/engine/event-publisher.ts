import { RateLimiterUnavailable } from "../domain/errors.ts";
import type { Refusal } from "./refusal.ts";
import type { EngineDeps, Settings } from "./settings.ts";

interface About {
  readonly entityId: string;
  readonly resource: string;
  readonly requestId?: string;
}

/** Publishes what became of requests. A channel without subscribers costs one look at `active`. */
export class EventPublisher {
  readonly #events: EngineDeps["events"];
  readonly #acquired: EngineDeps["events"]["acquired"];
  readonly #namespace: string;

  constructor(events: EngineDeps["events"], settings: Settings) {
    this.#events = events;
    this.#acquired = events.acquired;
    this.#namespace = settings.namespace;
  }

  acquired(about: About, lease: { readonly consumed: Readonly<Record<string, number>> }): void {
    if (this.#acquired.active) this.#acquired.publish({ ...this.#on(about), consumed: lease.consumed });
  }

  refused(about: About, { statuses, retryAfterMs }: Refusal, remembered: boolean): void {
    if (this.#events.refused.active) {
      this.#events.refused.publish({ ...this.#on(about), statuses, retryAfterMs, remembered });
    }
  }

  degraded({ entityId, resource }: About, reason: string, cause: unknown): void {
    if (this.#events.degraded.active) {
      this.#events.degraded.publish({ namespace: this.#namespace, entityId, resource, reason, cause });
    }
  }

  #on({ entityId, resource, requestId }: About) {
    return { namespace: this.#namespace, entityId, resource, ...(requestId === undefined ? {} : { requestId }) };
  }
}

/** One line about a fault, for messages. */
export function reasonOf(cause: unknown): string {
  if (cause instanceof RateLimiterUnavailable && cause.cause !== undefined) return reasonOf(cause.cause);
  const reason = cause instanceof Error ? cause.message : String(cause);
  // It goes on in a sentence.
  return reason.replace(/\.$/, "");
}
