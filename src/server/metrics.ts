import { BoundedMap } from "../domain/names/bounded-map.ts";
import { HoldLost } from "../domain/names/errors.ts";
import {
  type At,
  LEASE_SECONDS,
  MetricNames,
  REQUEST_SECONDS,
  resultOfRefusal,
} from "../engine/limiter/metric-terms.ts";
import type { OverviewDegraded } from "../engine/overview/overview.ts";
import type { DegradedEvent, Published, UnavailableEvent } from "../ports/events.ts";
import type { Clock } from "../ports/system.ts";
import type { WebhookResult } from "./webhook.ts";

type Labels = Readonly<Record<string, string>>;
type IsShown = (labels: Labels) => boolean;

interface Series<Value> {
  readonly labels: Labels;
  value: Value;
}

/** A tree of series by the values of their labels, so that finding one makes no text. */
interface Branch<Value> {
  readonly next: Map<string, Branch<Value>>;
  series: Series<Value> | undefined;
}

/** The series of one metric. */
abstract class Family<Value> {
  readonly name: string;
  readonly #heading: string;
  readonly #series: Series<Value>[] = [];
  readonly #root: Branch<Value> = { next: new Map(), series: undefined };

  constructor(type: "counter" | "gauge" | "histogram", name: string, help: string) {
    this.name = name;
    this.#heading = `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`;
  }

  text(isShown: IsShown): string {
    const lines = this.#series.filter(({ labels }) => isShown(labels)).flatMap((one) => this.lines(one));
    return this.#heading + lines.map((line) => `${line}\n`).join("");
  }

  protected abstract lines(one: Readonly<Series<Value>>): string[];

  protected abstract first(): Value;

  protected of(labels: Labels): Series<Value> {
    let branch = this.#root;
    for (const name in labels) {
      const value = labels[name] as string;
      let next = branch.next.get(value);
      if (next === undefined) {
        next = { next: new Map(), series: undefined };
        branch.next.set(value, next);
      }
      branch = next;
    }
    if (branch.series === undefined) {
      branch.series = { labels, value: this.first() };
      this.#series.push(branch.series);
    }
    return branch.series;
  }
}

class Numbers extends Family<number> {
  add(labels: Labels, amount: number): void {
    this.of(labels).value += amount;
  }

  protected first(): number {
    return 0;
  }

  protected lines({ labels, value }: Readonly<Series<number>>): string[] {
    return [`${this.name}${shown(labels)} ${value}`];
  }
}

const counter = (name: string, help: string) => new Numbers("counter", name, help);
const gauge = (name: string, help: string) => new Numbers("gauge", name, help);

interface Distribution {
  /** The number of values in each bound and above the one before. */
  readonly counts: number[];
  sum: number;
  count: number;
}

class Histogram extends Family<Distribution> {
  readonly #bounds: readonly number[];

  constructor(name: string, help: string, bounds: readonly number[]) {
    super("histogram", name, help);
    this.#bounds = bounds;
  }

  add(labels: Labels, value: number): void {
    const { value: distribution } = this.of(labels);
    const at = this.#bounds.findIndex((bound) => value <= bound);
    if (at >= 0) distribution.counts[at] = (distribution.counts[at] ?? 0) + 1;
    distribution.sum += value;
    distribution.count += 1;
  }

  protected first(): Distribution {
    return { counts: this.#bounds.map(() => 0), sum: 0, count: 0 };
  }

  protected lines({ labels, value }: Readonly<Series<Distribution>>): string[] {
    let below = 0;
    const buckets = this.#bounds.map((bound, i) => {
      below += value.counts[i] ?? 0;
      return `${this.name}_bucket${shown({ ...labels, le: String(bound) })} ${below}`;
    });
    return [
      ...buckets,
      `${this.name}_bucket${shown({ ...labels, le: "+Inf" })} ${value.count}`,
      `${this.name}_sum${shown(labels)} ${value.sum}`,
      `${this.name}_count${shown(labels)} ${value.count}`,
    ];
  }
}

function shown(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value)}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

function escaped(value: string): string {
  return value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}

/** The channels of the library that metrics are made of. */
export const METRIC_CHANNELS: readonly Published[0][] = [
  ...(["acquired", "charged", "gaveBack", "threshold", "refused", "acquireEnded", "waitBegan"] as const),
  ...(["waitEnded", "degraded"] as const),
];

/** Counters of one service since it started, for Prometheus. */
export class Metrics {
  readonly #info: { readonly version: string; readonly store: string };
  readonly #names = new MetricNames();
  readonly #requests = counter("zae_limiter_requests_total", "Requests for tokens, by result.");
  readonly #tokens = counter("zae_limiter_tokens_total", "Tokens taken and given back, at every level.");
  readonly #wouldRefuse = counter(
    "zael_would_refuse_total",
    "Requests that a shadow limit would have refused, at every level.",
  );
  readonly #degraded = counter("zae_limiter_degraded_total", "Faults of the store that the limiter worked around.");
  readonly #thresholds = counter("zael_thresholds_total", "Percentages of limits that were reached and told.");
  readonly #webhook = counter(
    "zael_webhook_total",
    "Thresholds at the receiver of the webhook: delivered, dropped; attempts that failed.",
  );
  readonly #holdsLost = counter(
    "zael_holds_lost_total",
    "Leases whose slots were lost while they were open: not renewed in time, or reset.",
  );
  readonly #grpc = counter("zae_limiter_grpc_requests_total", "Calls over gRPC, by method and code.");
  readonly #edgeIgnored = counter(
    "zae_limiter_edge_ignored_total",
    "Fields of calls of the edge that are left out, such as limits in descriptors.",
  );
  readonly #active = gauge(
    "zae_limiter_active_leases",
    "Open leases of this instance; a lease ended by another instance counts until its hold expires.",
  );
  readonly #queued = gauge("zae_limiter_queued_requests", "Requests waiting for tokens.");
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
        // The end of the request does not name the limit that refused.
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
        if (event.cause instanceof HoldLost) this.#holdsLost.add(at, 1);
        else this.#degraded.add({ reason: event.kind, namespace: at.namespace }, 1);
        break;
    }
  }

  webhookEnded(namespace: string, result: WebhookResult): void {
    this.#webhook.add({ result, namespace: this.#names.namespace(namespace) }, 1);
  }

  grpcEnded(method: string, code: string): void {
    this.#grpc.add({ method, code }, 1);
  }

  edgeIgnored(field: string, count: number): void {
    this.#edgeIgnored.add({ field }, count);
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
    const isShown: IsShown = (labels) =>
      namespaces === "*" || labels.namespace === undefined || namespaces.includes(labels.namespace);
    const info = gauge("zae_limiter_info", "The version and the store.");
    info.add({ version: this.#info.version, store: this.#info.store }, 1);
    const tenants = gauge("zae_limiter_namespaces", "Namespaces in memory, by state.");
    if (namespaces === "*") for (const state in states) tenants.add({ state }, states[state] ?? 0);
    const families = [
      ...[info, tenants, this.#requests, this.#tokens, this.#active, this.#held],
      ...[this.#queued, this.#waited, this.#took, this.#degraded, this.#holdsLost],
      ...[this.#wouldRefuse, this.#thresholds, this.#webhook, this.#grpc, this.#edgeIgnored],
    ];
    return families.map((family) => family.text(isShown)).join("");
  }

  #moved(direction: string, amounts: Readonly<Record<string, number>>, at: At): void {
    for (const limit in amounts) {
      this.#tokens.add({ direction, limit: this.#names.limit(at, limit), ...at }, amounts[limit] ?? 0);
    }
  }
}

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
