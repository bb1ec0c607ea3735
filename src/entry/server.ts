import { ValidationError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import { partsOf } from "../engine/limiter/limiter-parts.ts";
import { dashboard, noDashboard } from "../server/dashboard-page.ts";
import { readEdge } from "../server/edge/edge-source.ts";
import { listen } from "../server/listen.ts";
import { type Listening, requireLoopback } from "../server/listening.ts";
import { type ServiceBehaviour, settingsOf, text, whole } from "../server/options.ts";
import { ServiceCore } from "../server/service.ts";
import { readPem, readTls } from "../server/tls-files.ts";
import { checkTokens, readTokens } from "../server/tokens.ts";
import { packageVersion } from "./package-version.ts";
import { RateLimiter } from "./rate-limiter.ts";
import type { OpenOptions } from "./store-kinds.ts";

export type { ServiceBehaviour } from "../server/options.ts";
export type { Scope, TokenEntry } from "../server/tokens.ts";

/** Options of `createService`: a store to open, or a limiter; and how the service behaves. Every one may be left out. */
export interface ServiceOptions
  extends ServiceBehaviour,
    Pick<
      OpenOptions,
      "store" | "region" | "endpoint" | "sharedTable" | "durability" | "unknownEntities" | "unnamedLimits" | "strict"
    > {
  /** A limiter to serve, in place of a store. Closing the service leaves it open. Default: the service opens a store. */
  readonly limiter?: RateLimiter;
}

/** Where to listen, if not where the options of the service say. */
export interface ListenOptions {
  /** The host. Default: that of the service, else `127.0.0.1`. */
  readonly host?: string;
  /** The port; 0 takes a free one. Default: that of the service, else 4780. */
  readonly port?: number;
}

/** A service that listens. */
export interface ListeningService {
  /** Its address with the port, such as `http://127.0.0.1:4780/`. */
  readonly url: string;
  /** The host, as it was given. */
  readonly host: string;
  /** The port that it listens on. */
  readonly port: number;
  /** The address of the metrics, if they have a port of their own. */
  readonly metricsUrl?: string;
  /** The address of gRPC, such as `grpc://127.0.0.1:43128`, if the service has it. */
  readonly grpcUrl?: string;
  /**
   * Stops the service. It answers requests under way, for at most `drainMs`, ends event streams, and closes the store
   * that it opened.
   */
  close(): Promise<void>;
}

/** Limits over HTTP. */
export interface Service {
  /** Listens with `node:http`. */
  listen(options?: ListenOptions): Promise<ListeningService>;
  /**
   * Answers one request, on any host that runs web-standard handlers. Without tokens it answers 401, unless the
   * service has `open: true`.
   */
  fetch(request: Request): Promise<Response>;
  /** Stops the service, as SIGTERM stops `zae-limiter serve`. */
  close(): Promise<void>;
}

/**
 * Puts a limiter behind HTTP.
 *
 * ```ts
 * const service = await createService({ store: "sqlite:limits.db", tokenFile: "tokens.json" });
 * const { url, close } = await service.listen({ port: 0 });
 * ```
 */
export function createService(options: ServiceOptions = {}): Promise<Service> {
  return startService(options, false);
}

/** @internal Throws for options that no service can be made with. Nothing is opened. */
export function checkService(behaviour: ServiceBehaviour): void {
  const { tokenFile, tokens, host, tls, edge, grpc } = settingsOf(behaviour);
  if (tls !== undefined) readTls(tls);
  if (edge !== undefined) readEdge(edge);
  if (grpc?.clientCa !== undefined) readPem("grpcClientCa", grpc.clientCa);
  if (tokenFile !== undefined) readTokens(tokenFile);
  else if (tokens !== undefined) checkTokens(tokens, "the tokens given");
  else for (const one of grpc === undefined ? [host] : [host, grpc.host]) requireLoopback(one);
}

/** @internal With `ownsProcess` the web server may put lighter objects in place of the global Request and Response. */
export async function startService(options: ServiceOptions, ownsProcess: boolean): Promise<Service> {
  const { store, region, endpoint, sharedTable, durability, limiter: ownLimiter, ...rest } = options;
  const { unknownEntities, unnamedLimits, strict, ...behaviour } = rest;
  const place = { store, region, endpoint, sharedTable, durability, unknownEntities, unnamedLimits, strict };
  const settings = settingsOf(behaviour);
  if (settings.tokenFile !== undefined) readTokens(settings.tokenFile);
  const named = Object.entries(place).filter(([, value]) => value !== undefined);
  if (ownLimiter !== undefined && named.length > 0) {
    throw new ValidationError("option_invalid", `limiter and ${named[0]?.[0]} are both given; give one of them.`);
  }
  const limiter =
    ownLimiter ?? (await RateLimiter.open({ ...(Object.fromEntries(named) as OpenOptions), namespace: "default" }));
  try {
    partsOf(limiter);
    const page = settings.dashboard ? dashboard() : noDashboard();
    const core = new ServiceCore({ limiter, settings, version: packageVersion(), page });
    return serviceOf(core, async () => (ownLimiter === undefined ? limiter.close() : undefined), ownsProcess);
  } catch (error) {
    if (ownLimiter === undefined) await limiter.close();
    throw error;
  }
}

function serviceOf(core: ServiceCore, closeStore: () => Promise<void>, ownsProcess: boolean): Service {
  const listening: Listening[] = [];
  let closing: Promise<void> | undefined;
  const close = () => {
    closing ??= (async () => {
      const stopped = core.stop();
      await Promise.all([stopped, ...listening.map((one) => one.close(stopped))]);
      await closeStore();
    })();
    return closing;
  };
  return {
    fetch: (request) => core.fetch(request),
    close,
    listen: async (options = {}) => {
      const host = text("host", options.host ?? core.settings.host);
      const port = whole("port", options.port ?? core.settings.port, { least: 0, most: 65_535 });
      const one = await listen(core, { host, port, ownsProcess, serves: "all" });
      const { metricsPort, metricsHost, grpc } = core.settings;
      const opened = [one];
      // All ports or none.
      const also = async (further: Promise<Listening>): Promise<Listening> => {
        const listener = await further.catch(async (error: unknown) => {
          await Promise.all(opened.map((before) => before.close(Promise.resolve())));
          throw error;
        });
        opened.push(listener);
        return listener;
      };
      const own = { host: metricsHost, port: metricsPort ?? 0, ownsProcess, serves: "metrics" } as const;
      const metrics = metricsPort === undefined ? undefined : await also(listen(core, own));
      const grpcListener = grpc && (await also(core.grpcListener(grpc)));
      listening.push(...opened);
      const urls = { metricsUrl: metrics && `${metrics.url}metrics`, grpcUrl: grpcListener?.url };
      return { url: one.url, host: one.host, port: one.port, ...given(urls), close };
    },
  };
}
