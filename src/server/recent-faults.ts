import { BoundedMap } from "../domain/names/bounded-map.ts";
import type { OverviewDegraded } from "../engine/overview/overview.ts";
import type { DegradedEvent, UnavailableEvent } from "../ports/events.ts";
import type { Clock } from "../ports/system.ts";

const KEPT_MS = 3_600_000;
/** A fault that goes on is kept once a minute: enough to see since when it lasts. */
const APART_MS = 60_000;
/** A namespace has at most this many; 60 of one reason are a whole hour. */
const FAULTS_MAX = 240;
const NAMESPACES_MAX = 256;

/** Remembers the faults of the last hour, by namespace, as this service saw them. */
export class RecentFaults {
  readonly #clock: Clock;
  /** Oldest first. */
  readonly #faults = new BoundedMap<OverviewDegraded[]>(NAMESPACES_MAX);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  add({ namespace, reason }: DegradedEvent | UnavailableEvent): void {
    const atMs = this.#clock.now();
    const recent = this.#recent(namespace, atMs);
    const isKnown = recent.some((fault) => fault.reason === reason && fault.atMs > atMs - APART_MS);
    if (isKnown || recent.length >= FAULTS_MAX) return;
    recent.push({ atMs, reason });
    this.#faults.set(namespace, recent);
  }

  /** Newest first. */
  of(namespace: string): readonly OverviewDegraded[] {
    return this.#recent(namespace, this.#clock.now()).toReversed();
  }

  #recent(namespace: string, nowMs: number): OverviewDegraded[] {
    return (this.#faults.get(namespace) ?? []).filter(({ atMs }) => atMs > nowMs - KEPT_MS);
  }
}
