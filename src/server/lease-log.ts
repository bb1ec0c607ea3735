import { BoundedMap } from "../domain/bounded-map.ts";
import type { LeaseView } from "../leases/lease-view.ts";
import type { Clock } from "../ports/system.ts";
import type { EventFeeds } from "./event-feeds.ts";
import type { Metrics } from "./metrics.ts";

/** Of how many leases it is remembered when they were opened. */
const KEPT = 10_000;

/** Tells of leases whose status changes, and counts them. */
export class LeaseLog {
  readonly #feeds: EventFeeds;
  readonly #metrics: Metrics;
  readonly #clock: Clock;
  readonly #openedAtMs = new BoundedMap<number>(KEPT);

  constructor(feeds: EventFeeds, metrics: Metrics, clock: Clock) {
    this.#feeds = feeds;
    this.#metrics = metrics;
    this.#clock = clock;
  }

  changed(lease: LeaseView): void {
    const { leaseId, namespace, resource, status } = lease;
    this.#feeds.tell(namespace, "lease", lease);
    if (leaseId === null) return;
    const nowMs = this.#clock.now();
    if (status === "open") {
      this.#openedAtMs.set(leaseId, nowMs);
      this.#metrics.leaseOpened(resource, namespace);
      return;
    }
    // One that another instance has opened is not among those counted here.
    const openedMs = this.#openedAtMs.get(leaseId);
    if (openedMs === undefined) return;
    this.#openedAtMs.delete(leaseId);
    this.#metrics.leaseEnded(resource, namespace, status, (nowMs - openedMs) / 1000);
  }
}
