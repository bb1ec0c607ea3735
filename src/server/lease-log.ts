import type { LeaseView } from "../leases/lease-view.ts";
import type { Events } from "../ports/events.ts";
import type { Clock } from "../ports/system.ts";
import type { EventFeeds } from "./event-feeds.ts";
import type { Metrics } from "./metrics.ts";

/** Of how many open leases it is remembered when they were opened; more are not counted among those that are open. */
const KEPT = 100_000;

interface LeaseLogDeps {
  readonly feeds: EventFeeds;
  readonly metrics: Metrics;
  readonly clock: Clock;
  /** What the library publishes of its own leases, this publishes of those in the store. */
  readonly events: Pick<Events, "leaseOpened" | "leaseEnded">;
}

/** Tells of leases whose status changes, and counts them. */
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
    if (this.#openedAtMs.size >= KEPT) return;
    this.#openedAtMs.set(leaseId, clock.now());
    metrics.leaseOpened(resource, namespace);
    if (events.leaseOpened.active) events.leaseOpened.publish({ namespace, entityId, resource, lease: leaseId });
  }

  /** A lease is no longer open, whoever has ended it. */
  closed({ leaseId, namespace, entityId, resource, status }: LeaseView): void {
    // One that another instance has opened is not among those counted here.
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
