import type { EntryText } from "../../edge/template.ts";
import { FRAME_BYTES, type GrpcMethod, type GrpcStream, type GrpcTls, listenGrpc } from "../../grpc/listen-grpc.ts";
import { type Health, readHealthRequest, writeHealthResponse } from "../../grpc/messages.ts";
import { GrpcError } from "../../grpc/status.ts";
import { type Listening, portUnavailable, requireLoopback } from "../listening.ts";
import type { GrpcSettings } from "../options.ts";
import { nameInHost } from "../origin-guard.ts";
import type { ServiceParts } from "../route.ts";
import { readPem, readTls, watchTls } from "../tls-files.ts";
import { type CallerSource, type EdgeParts, edgeMethods, statusOf } from "./grpc-methods.ts";

/** Milliseconds that connections have left after the last answer. */
const FLUSH_MS = 1_000;

export async function serveGrpc(
  parts: EdgeParts,
  { host, port, clientCa }: GrpcSettings,
  callers: CallerSource,
): Promise<Listening> {
  const { settings, metrics } = parts.service;
  if (callers.openTo !== undefined) requireLoopback(host);
  const health = new HealthMethods(parts.service);
  const methods = new Map([...edgeMethods(parts, callers), ...health.methods]);
  const tls = tlsOf(settings.tls, clientCa);
  const onBug = (error: unknown) =>
    settings.log(
      `A call over gRPC failed because of a bug in the service: ${error instanceof Error ? error.stack : String(error)}`,
    );
  const serving = {
    find: (path: string) => methods.get(path),
    statusOf: (error: unknown) => statusOf(error, onBug),
    // A path that is no method is whatever a client sends: it is no label.
    ended: (path: string, code: string) => metrics.grpcEnded(methods.has(path) ? methodIn(path) : "other", code),
    bodyMax: settings.bodyMax,
    streamsMax: STREAMS_MAX,
  };
  const listening = await listenGrpc({ host, port, tls }, serving).catch((cause: NodeJS.ErrnoException) => {
    throw portUnavailable(host, port, cause);
  });
  const files = settings.tls;
  const renew = () => listening.renew(tlsOf(files, clientCa) as GrpcTls);
  const unwatch = files === undefined ? () => {} : watchTls(files, renew, settings.log);
  return {
    url: `${tls === undefined ? "grpc" : "grpcs"}://${nameInHost(host)}:${listening.port}`,
    host,
    port: listening.port,
    close: async (stopped) => {
      unwatch();
      health.tell();
      listening.goAway();
      await stopped;
      health.close();
      await listening.close(FLUSH_MS);
    },
  };
}

/** The most calls of one connection at once; how many are worked on is bounded for all together. */
const STREAMS_MAX = 10_000;

function methodIn(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

function tlsOf(files: Parameters<typeof readTls>[0] | undefined, clientCa: string | undefined): GrpcTls | undefined {
  return (
    files && { ...readTls(files), clientCa: clientCa === undefined ? undefined : readPem("grpcClientCa", clientCa) }
  );
}

const HEALTH_SERVICE = "/grpc.health.v1.Health/";

/** The services whose health is told; the empty name stands for all. */
const SERVICES_KNOWN: ReadonlySet<EntryText> = new Set([
  "",
  "envoy.service.ratelimit.v3.RateLimitService",
  "kuadrant.service.ratelimit.v1.RateLimitService",
]);

/** How often the health of the service is looked at for those who watch it. */
const LOOK_MS = 500;

type Service = Pick<ServiceParts, "isReady" | "isStopping" | "settings">;

/** The methods of `grpc.health.v1`. Nobody is asked for a token. */
class HealthMethods {
  readonly #service: Service;
  readonly #watchers = new Set<Watcher>();
  #timer: NodeJS.Timeout | undefined;

  constructor(service: Service) {
    this.#service = service;
  }

  get methods(): readonly (readonly [path: string, method: GrpcMethod])[] {
    return [
      [`${HEALTH_SERVICE}Check`, { kind: "unary", answer: async (call) => this.#check(await call.message()) }],
      [
        `${HEALTH_SERVICE}Watch`,
        { kind: "stream", open: async (call, stream) => this.#watch(await call.message(), stream) },
      ],
    ];
  }

  /** Tells those who watch that the service stops, at once. */
  tell(): void {
    for (const watcher of this.#watchers) void this.#look(watcher);
  }

  close(): void {
    clearInterval(this.#timer);
    for (const { stream } of this.#watchers) stream.end("UNAVAILABLE", "The service has stopped.");
  }

  async #check(message: Buffer): Promise<Buffer> {
    if (!SERVICES_KNOWN.has(readHealthRequest(message)))
      throw new GrpcError("NOT_FOUND", "There is no such service here.");
    return writeHealthResponse(await this.#health(), FRAME_BYTES);
  }

  #watch(message: Buffer, stream: GrpcStream): void {
    const watcher: Watcher = { stream, isKnown: SERVICES_KNOWN.has(readHealthRequest(message)), last: undefined };
    if (this.#watchers.size >= this.#service.settings.streamsMax) {
      throw new GrpcError("RESOURCE_EXHAUSTED", `${this.#watchers.size} streams are open, the maximum.`);
    }
    this.#watchers.add(watcher);
    stream.onClosed(() => this.#watchers.delete(watcher));
    this.#timer ??= setInterval(() => this.tell(), LOOK_MS).unref();
    void this.#look(watcher);
  }

  /** Sends the health where it is another than the last that was sent. */
  async #look(watcher: Watcher): Promise<void> {
    const health = watcher.isKnown ? await this.#health() : "SERVICE_UNKNOWN";
    if (health === watcher.last) return;
    watcher.last = health;
    watcher.stream.send(writeHealthResponse(health, FRAME_BYTES));
  }

  async #health(): Promise<Health> {
    const { isStopping, isReady } = this.#service;
    return !isStopping() && (await isReady()) ? "SERVING" : "NOT_SERVING";
  }
}

interface Watcher {
  readonly stream: GrpcStream;
  readonly isKnown: boolean;
  last: Health | undefined;
}
