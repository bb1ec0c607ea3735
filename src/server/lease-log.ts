import type { LeaseView } from "../leases/lease-view.ts";
import type { Events } from "../ports/events.ts";
import type { Clock } from "../ports/system.ts";
import type { EventFeeds } from "./event-feeds.ts";
import type { Metrics } from "./metrics.ts";

/** The log remembers the opening time of at most this many leases. Metrics leave out the rest. */
const OPEN_LEASES_TRACKED_MAX = 100_000;

interface LeaseLogDeps {
  readonly feeds: EventFeeds;
  readonly metrics: Metrics;
  readonly clock: Clock;
  /** Channels for stored leases; the library publishes its own leases there. */
  readonly events: Pick<Events, "leaseOpened" | "leaseEnded">;
}

/** Publishes and counts changes of the status of leases. */
export class LeaseLog {
  readonly #deps: LeaseLogDeps;
  readonly #openedAtMs = new Map<string, number>();

  constructor(deps: LeaseLogDeps) {
    this.#deps = deps;
  }

  changed(lease: LeaseView): void {
    const { leaseId, namespace, entityId, resource, status } = lease;
    const { feeds, metrics, clock, events } = this.#deps;
    feeds.tell(namespace, "lease", lease);
    if (leaseId === null) return;
    if (status !== "open") {
      this.closed(lease);
      return;
    }
    if (this.#openedAtMs.size >= OPEN_LEASES_TRACKED_MAX) return;
    this.#openedAtMs.set(leaseId, clock.now());
    metrics.leaseOpened(resource, namespace);
    if (events.leaseOpened.active) events.leaseOpened.publish({ namespace, entityId, resource, lease: leaseId });
  }

  /** A lease was ended, by this instance or another. */
  closed({ leaseId, namespace, entityId, resource, status }: LeaseView): void {
    // Leases that another instance opened are not counted here.
    const openedMs = leaseId === null ? undefined : this.#openedAtMs.get(leaseId);
    if (leaseId === null || openedMs === undefined || status === "open") return;
    this.#openedAtMs.delete(leaseId);
    const { metrics, clock, events } = this.#deps;
    const heldMs = Math.max(0, clock.now() - openedMs);
    metrics.leaseEnded(resource, namespace, status, heldMs / 1000);
    if (!events.leaseEnded.active) return;
    events.leaseEnded.publish({ namespace, entityId, resource, lease: leaseId, status, heldMs });
  }
}
