import type { EntryText } from "../../edge/template.ts";
import { FRAME_BYTES, type GrpcMethod, type GrpcStream } from "../../grpc/listen-grpc.ts";
import { type Health, readHealthRequest, writeHealthResponse } from "../../grpc/messages.ts";
import { GrpcError } from "../../grpc/status.ts";
import type { ServiceParts } from "../route.ts";

const SERVICE = "/grpc.health.v1.Health/";

/** The services whose health is told; the empty name stands for all. */
const KNOWN: ReadonlySet<EntryText> = new Set([
  "",
  "envoy.service.ratelimit.v3.RateLimitService",
  "kuadrant.service.ratelimit.v1.RateLimitService",
]);

/** How often the health of the service is looked at for those who watch it. */
const LOOK_MS = 500;

type Service = Pick<ServiceParts, "isReady" | "isStopping" | "settings">;

/** The methods of `grpc.health.v1`. Nobody is asked for a token. */
export class HealthMethods {
  readonly #service: Service;
  readonly #watchers = new Set<Watcher>();
  #timer: NodeJS.Timeout | undefined;

  constructor(service: Service) {
    this.#service = service;
  }

  get methods(): readonly (readonly [path: string, method: GrpcMethod])[] {
    return [
      [`${SERVICE}Check`, { kind: "unary", answer: async (call) => this.#check(await call.message()) }],
      [`${SERVICE}Watch`, { kind: "stream", open: async (call, stream) => this.#watch(await call.message(), stream) }],
    ];
  }

  /** Tells those who watch that the service stops, at once. */
  tell(): void {
    for (const watcher of this.#watchers) void this.#look(watcher);
  }

  /** Ends all streams. */
  close(): void {
    clearInterval(this.#timer);
    for (const { stream } of this.#watchers) stream.end("UNAVAILABLE", "The service has stopped.");
  }

  async #check(message: Buffer): Promise<Buffer> {
    if (!KNOWN.has(readHealthRequest(message))) throw new GrpcError("NOT_FOUND", "There is no such service here.");
    return writeHealthResponse(await this.#health(), FRAME_BYTES);
  }

  #watch(message: Buffer, stream: GrpcStream): void {
    const watcher: Watcher = { stream, isKnown: KNOWN.has(readHealthRequest(message)), last: undefined };
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
