import { HoldLost } from "../domain/names/errors.ts";
import {
  type At,
  LEASE_SECONDS,
  MetricNames,
  REQUEST_SECONDS,
  resultOfRefusal,
} from "../engine/limiter/metric-terms.ts";
import type { Published } from "../ports/events.ts";
import { Counter, Gauge, Histogram } from "./metric-families.ts";
import type { WebhookResult } from "./webhook.ts";

/** Counters of one service since it started, for Prometheus. */
export class Metrics {
  readonly #info: { readonly version: string; readonly store: string };
  readonly #names = new MetricNames();
  readonly #requests = new Counter("zae_limiter_requests_total", "Requests for tokens, by result.");
  readonly #tokens = new Counter("zae_limiter_tokens_total", "Tokens taken and given back, at every level.");
  readonly #wouldRefuse = new Counter(
    "zael_would_refuse_total",
    "Requests that a shadow limit would have refused, at every level.",
  );
  readonly #degraded = new Counter("zae_limiter_degraded_total", "Faults of the store that the limiter worked around.");
  readonly #thresholds = new Counter("zael_thresholds_total", "Percentages of limits that were reached and told.");
  readonly #webhook = new Counter(
    "zael_webhook_total",
    "Thresholds at the receiver of the webhook: delivered, dropped; attempts that failed.",
  );
  readonly #holdsLost = new Counter(
    "zael_holds_lost_total",
    "Leases whose slots were lost while they were open: not renewed in time, or reset.",
  );
  readonly #active = new Gauge(
    "zae_limiter_active_leases",
    "Open leases of this instance; a lease ended by another instance counts until its hold expires.",
  );
  readonly #queued = new Gauge("zae_limiter_queued_requests", "Requests waiting for tokens.");
  readonly #held = new Histogram("zae_limiter_lease_duration_seconds", "How long leases were open.", LEASE_SECONDS);
  readonly #waited = new Histogram(
    "zae_limiter_request_time_in_queue_seconds",
    "How long requests waited.",
    REQUEST_SECONDS,
  );
  readonly #took = new Histogram("zae_limiter_acquire_duration_seconds", "Duration of an acquire.", REQUEST_SECONDS);

  constructor(info: { readonly version: string; readonly store: string }) {
    this.#info = info;
  }

  /** Counts an event of the library. */
  heard([channel, event]: Published): void {
    const at = this.#names.at(event.resource ?? "", event.namespace);
    switch (channel) {
      case "acquired":
        this.#moved("taken", event.consumed, at);
        for (const limit of event.shadowed ?? [])
          this.#wouldRefuse.add({ limit: this.#names.limit(at, limit), ...at }, 1);
        break;
      case "charged":
        this.#moved("taken", event.amounts, at);
        break;
      case "gaveBack":
        if (event.confirmed) this.#moved("given_back", event.amounts, at);
        break;
      case "threshold":
        this.#thresholds.add({ ...this.#names.percent(at, event.limit, event.percent), ...at }, 1);
        break;
      case "refused":
        // With the limit that refused, which the end of the request does not say.
        this.#requests.add({ result: resultOfRefusal(event), ...at, ...this.#names.blamed(event, at) }, 1);
        break;
      case "acquireEnded":
        if (event.result !== "refused") {
          this.#requests.add({ result: event.result, resource: at.resource, namespace: at.namespace }, 1);
        }
        this.#took.add(
          { result: event.result, store: this.#info.store, namespace: at.namespace },
          event.durationMs / 1000,
        );
        break;
      case "waitBegan":
        this.#queued.add(at, 1);
        break;
      case "waitEnded":
        this.#queued.add(at, -1);
        this.#waited.add(at, event.waitedMs / 1000);
        break;
      case "degraded":
        if (event.cause instanceof HoldLost) {
          this.#holdsLost.add(at, 1);
          break;
        }
        this.#degraded.add({ reason: event.kind, namespace: at.namespace }, 1);
        break;
      default:
        break;
    }
  }

  webhookEnded(namespace: string, result: WebhookResult): void {
    this.#webhook.add({ result, namespace: this.#names.namespace(namespace) }, 1);
  }

  leaseOpened(resource: string, namespace: string): void {
    this.#active.add(this.#names.at(resource, namespace), 1);
  }

  leaseEnded(resource: string, namespace: string, status: string, seconds: number): void {
    const labels = this.#names.at(resource, namespace);
    this.#active.add(labels, -1);
    this.#held.add({ ...labels, status }, seconds);
  }

  /** The text format, of these namespaces; what belongs to no namespace is always there. */
  text(namespaces: readonly string[] | "*", states: Readonly<Record<string, number>>): string {
    const isShown = (labels: Readonly<Record<string, string>>) =>
      namespaces === "*" || labels.namespace === undefined || namespaces.includes(labels.namespace);
    const info = new Gauge("zae_limiter_info", "The version and the store.");
    info.add({ version: this.#info.version, store: this.#info.store }, 1);
    const tenants = new Gauge("zae_limiter_namespaces", "Namespaces in memory, by state.");
    if (namespaces === "*") for (const state in states) tenants.add({ state }, states[state] ?? 0);
    const families = [
      ...[info, tenants, this.#requests, this.#tokens, this.#active, this.#held],
      ...[this.#queued, this.#waited, this.#took, this.#degraded, this.#holdsLost],
      ...[this.#wouldRefuse, this.#thresholds, this.#webhook],
    ];
    return families.map((family) => family.text(isShown)).join("");
  }

  #moved(direction: string, amounts: Readonly<Record<string, number>>, at: At): void {
    for (const limit in amounts) {
      this.#tokens.add({ direction, limit: this.#names.limit(at, limit), ...at }, amounts[limit] ?? 0);
    }
  }
}
