import type { Limiter } from "../engine/limiter/limiter.ts";
import { partsOf } from "../engine/limiter/limiter-parts.ts";
import type { LeaseView } from "../leases/lease-view.ts";
import type { Events, Published } from "../ports/events.ts";
import type { Clock } from "../ports/system.ts";
import { type AppOptions, makeApp, type Respond } from "./app.ts";
import { LOCAL } from "./caller.ts";
import { EdgeSource } from "./edge/edge-source.ts";
import type { EdgeParts } from "./edge/grpc-methods.ts";
import { serveGrpc } from "./edge/serve-grpc.ts";
import { EventFeeds } from "./event-feeds.ts";
import { Inflight } from "./inflight.ts";
import { LeaseExpiry } from "./lease-expiry.ts";
import type { Listening } from "./listening.ts";
import { METRIC_CHANNELS, Metrics, RecentFaults } from "./metrics.ts";
import { openapiDocument } from "./openapi.ts";
import type { GrpcSettings, ServiceSettings } from "./options.ts";
import { OriginGuard } from "./origin-guard.ts";
import { Problem } from "./problem.ts";
import type { ServiceParts } from "./route.ts";
import { routes } from "./routes.ts";
import type { Gate } from "./run-route.ts";
import { Tenants } from "./tenants.ts";
import { TokenSource } from "./tokens.ts";
import { Webhook, type WebhookResult } from "./webhook.ts";

/** How long an answer of the store counts. */
const READINESS_KEPT_MS = 1_000;

/** Whether the store answers. Anybody may ask the service, so the store is asked once at a time and once a second. */
function readinessOf(ask: () => Promise<boolean>, clock: Clock) {
  let known: { readonly isReady: boolean; readonly untilMs: number } | undefined;
  let asking: Promise<boolean> | undefined;
  const look = async () => {
    const isReady = await ask();
    known = { isReady, untilMs: clock.now() + READINESS_KEPT_MS };
    return isReady;
  };
  return {
    get: (): Promise<boolean> => {
      if (known !== undefined && clock.now() < known.untilMs) return Promise.resolve(known.isReady);
      asking ??= look().finally(() => {
        asking = undefined;
      });
      return asking;
    },
    /** Forgets the last answer: a request has just found that the store does not respond. */
    doubt: () => {
      known = undefined;
    },
  };
}

/** The channels of the library that the service listens to. It publishes events of its stored leases itself. */
const HEARD: readonly Published[0][] = [...METRIC_CHANNELS, "unavailable", "limitsChanged"];

const METRICS_PATHS: ReadonlySet<string> = new Set(["/metrics", "/healthz", "/readyz"]);

interface ServiceDeps {
  readonly limiter: Limiter;
  readonly settings: ServiceSettings;
  readonly version: string;
  readonly page: AppOptions["page"];
}

/** The service without a socket: answers requests, and stops. */
export class ServiceCore {
  readonly settings: ServiceSettings;
  readonly version: string;
  readonly storeName: string;
  readonly #respond: Respond;
  readonly #inflight: Inflight;
  readonly #feeds: EventFeeds;
  readonly #tokens: TokenSource;
  readonly #expiry: LeaseExpiry;
  readonly #unlisten: () => void;
  readonly #webhook: Webhook | undefined;
  /** Undefined: the service has no edge file. */
  readonly #edge: EdgeParts | undefined;
  #isStopping = false;

  constructor({ limiter, settings, version, page }: ServiceDeps) {
    const { deps } = partsOf(limiter);
    const { clock, random, calendar, events } = deps;
    this.settings = settings;
    this.version = version;
    this.storeName = deps.store.name;
    const edge = settings.edge === undefined ? undefined : new EdgeSource(settings.edge, settings.log);
    this.#tokens = new TokenSource({ file: settings.tokenFile, tokens: settings.tokens, clock, log: settings.log });
    const tokenCount = () => this.#tokens.count;
    this.#inflight = new Inflight(settings, tokenCount);
    const instance = random.id();
    // Reads of a remote store cost money: make fewer.
    const isRemote = this.storeName.startsWith("dynamodb");
    const metrics = new Metrics({ version, store: this.storeName });
    this.#feeds = new EventFeeds({
      ...{ instance, clock, tokenCount, streamsMax: settings.streamsMax },
      tenants: () => tenants,
      lookSeconds: isRemote ? 3 : 1,
    });
    const leaseLog = new LeaseLog({ feeds: this.#feeds, metrics, clock, events });
    const { holdMs, holdMaxMs, onExpiry } = settings;
    const onChange = (lease: LeaseView) => {
      leaseLog.changed(lease);
      this.#expiry.changed(lease);
    };
    const tenants = new Tenants(limiter, { holdMs, holdMaxMs, onExpiry, onChange }, (gone) => this.#feeds.ended(gone));
    const readiness = readinessOf(() => limiter.isAvailable(), clock);
    this.#expiry = new LeaseExpiry({
      ...{ limiter, tenants, namespaces: deps.store.namespaces, log: settings.log },
      named: () => this.#tokens.namespaces,
      now: () => clock.now(),
      lookEveryMs: isRemote ? 60_000 : 0,
      visitsAll: isRemote,
      onClosed: (lease) => leaseLog.closed(lease),
    });
    const { webhook, log } = settings;
    const ended = (namespace: string, result: WebhookResult) => metrics.webhookEnded(namespace, result);
    this.#webhook = webhook && new Webhook(webhook, { clock, log, ended });
    const faults = new RecentFaults(clock);
    const heard = (...published: Published) => {
      if (published[0] === "unavailable" || published[0] === "degraded") {
        readiness.doubt();
        faults.add(published[1]);
      }
      metrics.heard(published);
      this.#feeds.heard(published);
      if (published[0] === "threshold") this.#webhook?.heard(published[1]);
    };
    this.#unlisten = events.listen?.(HEARD, heard) ?? (() => {});
    let document: object | undefined;
    const service: ServiceParts = {
      ...{ settings, limiter, tenants, metrics, faults, clock, random, calendar, version },
      feeds: this.#feeds,
      storeName: this.storeName,
      isReady: readiness.get,
      isStopping: () => this.#isStopping,
      document: () => {
        document ??= openapiDocument(routes, version);
        return document;
      },
    };
    this.#edge = edge && { service, edge, inflight: this.#inflight };
    const findToken = (token: string) => this.#tokens.find(token);
    let requests = 0;
    this.#respond = makeApp({
      runner: { service, inflight: this.#inflight, findToken },
      forwardAuth: this.#edge && { ...this.#edge, findToken },
      inflight: this.#inflight,
      ...{ routes, page, log: settings.log, units: settings.units },
      newRequestId: () => `${instance}-${++requests}`,
    });
    this.#expiry.start();
    edge?.watch();
    this.#tokens.watch(() =>
      this.#feeds.endWhere((token, namespace) => token !== undefined && !this.#tokens.mayRead(token, namespace)),
    );
  }

  /** Whether nobody is asked for a token. */
  get isOpen(): boolean {
    return this.#tokens.isOpen;
  }

  /** A request that another program received: it cannot be seen from where. */
  fetch(request: Request): Promise<Response> {
    return this.#respond(request, this.#gate(undefined, this.settings.open), undefined);
  }

  /** Answers what a listener on that port receives. */
  listener(host: string, port: number): (request: Request, cutOff: () => void) => Promise<Response> {
    const gate = { ...this.#gate(port, true, host), isFetch: false };
    return (request, cutOff) => this.#respond(request, gate, cutOff);
  }

  /** Answers metrics and probes alone, for those who reach the service by its address: with tokens, by any name. */
  metricsListener(host: string, port: number): (request: Request, cutOff: () => void) => Promise<Response> {
    const own = { isFetch: false, anyHost: !this.isOpen, onlyPaths: METRICS_PATHS };
    const gate = { ...this.#gate(port, true, host), ...own };
    return (request, cutOff) => this.#respond(request, gate, cutOff);
  }

  grpcListener(settings: GrpcSettings): Promise<Listening> {
    // Options without an edge file are refused.
    const parts = this.#edge as EdgeParts;
    return serveGrpc(parts, settings, {
      openTo: this.isOpen ? LOCAL : undefined,
      findToken: (token) => this.#tokens.find(token),
      findName: (names) => this.#tokens.findName(names),
    });
  }

  /** Takes no new requests, ends the streams, and answers what is under way: what takes longer than `drainMs` is told so. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#tokens.close();
    this.#edge?.edge.close();
    this.#feeds.close();
    const over = new AbortController();
    const timer = setTimeout(() => over.abort(), this.settings.drainMs);
    const late = new Promise<void>((resolve) => over.signal.addEventListener("abort", () => resolve()));
    await Promise.race([this.#inflight.idle(), late]);
    await this.#webhook?.stop(late);
    clearTimeout(timer);
    this.#inflight.failAll(new Problem("stopping", "The service is stopping; try another instance, or later."));
    this.#inflight.close();
    await this.#expiry.stop();
    this.#unlisten();
  }

  #gate(port: number | undefined, isOpen: boolean, host: string = this.settings.host): Gate {
    const { allowHosts, allowOrigins, tls } = this.settings;
    const defaultPort = tls === undefined ? 80 : 443;
    return {
      guard: new OriginGuard({ host, port, defaultPort, allowHosts, allowOrigins }),
      openTo: this.isOpen && isOpen ? LOCAL : undefined,
      isFetch: true,
    };
  }
}

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
class LeaseLog {
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
