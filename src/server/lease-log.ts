import type { LeaseView } from "../leases/lease-view.ts";
import type { Clock } from "../ports/system.ts";
import type { EventFeeds } from "./event-feeds.ts";
import type { Metrics } from "./metrics.ts";

/** Of how many open leases it is remembered when they were opened; more are not counted among those that are open. */
const KEPT = 100_000;

/** Tells of leases whose status changes, and counts them. */
export class LeaseLog {
  readonly #feeds: EventFeeds;
  readonly #metrics: Metrics;
  readonly #clock: Clock;
  readonly #openedAtMs = new Map<string, number>();

  constructor(feeds: EventFeeds, metrics: Metrics, clock: Clock) {
    this.#feeds = feeds;
    this.#metrics = metrics;
    this.#clock = clock;
  }

  changed(lease: LeaseView): void {
    const { leaseId, namespace, resource, status } = lease;
    this.#feeds.tell(namespace, "lease", lease);
    if (leaseId === null) return;
    if (status !== "open") {
      this.closed(lease);
      return;
    }
    if (this.#openedAtMs.size >= KEPT) return;
    this.#openedAtMs.set(leaseId, this.#clock.now());
    this.#metrics.leaseOpened(resource, namespace);
  }

  /** A lease is no longer open, whoever has ended it. */
  closed({ leaseId, namespace, resource, status }: LeaseView): void {
    // One that another instance has opened is not among those counted here.
    const openedMs = leaseId === null ? undefined : this.#openedAtMs.get(leaseId);
    if (leaseId === null || openedMs === undefined) return;
    this.#openedAtMs.delete(leaseId);
    this.#metrics.leaseEnded(resource, namespace, status, (this.#clock.now() - openedMs) / 1000);
  }
}
