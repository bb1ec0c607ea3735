import type { Limiter } from "../engine/limiter/limiter.ts";
import { partsOf } from "../engine/limiter/limiter-parts.ts";
import type { LeaseView } from "../leases/lease-view.ts";
import type { Published } from "../ports/events.ts";
import { type AppOptions, makeApp, type Respond } from "./app.ts";
import { LOCAL } from "./caller.ts";
import { EventFeeds } from "./event-feeds.ts";
import { Inflight } from "./inflight.ts";
import { LeaseExpiry } from "./lease-expiry.ts";
import { LeaseLog } from "./lease-log.ts";
import { Metrics } from "./metrics.ts";
import { openapiDocument } from "./openapi.ts";
import type { ServiceSettings } from "./options.ts";
import { OriginGuard } from "./origin-guard.ts";
import { Problem } from "./problem.ts";
import { Readiness } from "./readiness.ts";
import type { Gate } from "./request-context.ts";
import { routes } from "./routes.ts";
import type { ServiceParts } from "./service-parts.ts";
import { Tenants } from "./tenants.ts";
import { TokenSource } from "./token-source.ts";
import { Webhook, type WebhookResult } from "./webhook.ts";

/** Of the library's channels; the service counts and tells the leases that it keeps by itself. */
const HEARD: readonly Published[0][] = [
  ...(["acquired", "refused", "gaveBack", "charged", "unavailable", "degraded", "limitsChanged", "threshold"] as const),
  ...(["acquireEnded", "waitBegan", "waitEnded"] as const),
];

const METRICS_PATHS: ReadonlySet<string> = new Set(["/metrics", "/healthz", "/readyz"]);

/** What a service is made of besides its settings. */
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
  #isStopping = false;

  constructor({ limiter, settings, version, page }: ServiceDeps) {
    const { deps } = partsOf(limiter);
    const { clock, random, calendar, events } = deps;
    this.settings = settings;
    this.version = version;
    this.storeName = deps.store.name;
    this.#tokens = new TokenSource({ file: settings.tokenFile, tokens: settings.tokens, clock, log: settings.log });
    const tokenCount = () => this.#tokens.count;
    this.#inflight = new Inflight(settings, tokenCount);
    const instance = random.id();
    // Where a look costs, it is made less often.
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
    const readiness = new Readiness(() => limiter.isAvailable(), clock);
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
    const heard = (...published: Published) => {
      if (published[0] === "unavailable" || published[0] === "degraded") readiness.doubted();
      metrics.heard(published);
      this.#feeds.heard(published);
      if (published[0] === "threshold") this.#webhook?.heard(published[1]);
    };
    this.#unlisten = events.listen?.(HEARD, heard) ?? (() => {});
    let document: object | undefined;
    const service: ServiceParts = {
      ...{ settings, limiter, tenants, metrics, clock, random, calendar, version },
      feeds: this.#feeds,
      storeName: this.storeName,
      isReady: () => readiness.get(),
      isStopping: () => this.#isStopping,
      document: () => {
        document ??= openapiDocument(routes, version);
        return document;
      },
    };
    let requests = 0;
    this.#respond = makeApp({
      runner: { service, inflight: this.#inflight, findToken: (token) => this.#tokens.find(token) },
      inflight: this.#inflight,
      ...{ routes, page, log: settings.log, units: settings.units },
      newRequestId: () => `${instance}-${++requests}`,
    });
    this.#expiry.start();
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

  /** Takes no new requests, ends the streams, and answers what is under way: what takes longer than `drainMs` is told so. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#tokens.close();
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
    const { allowHosts, allowOrigins } = this.settings;
    return {
      guard: new OriginGuard({
        host,
        port,
        defaultPort: this.settings.tls === undefined ? 80 : 443,
        allowHosts,
        allowOrigins,
      }),
      openTo: this.isOpen && isOpen ? LOCAL : undefined,
      isFetch: true,
    };
  }
}
