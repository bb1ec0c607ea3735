import { type ClientHttp2Session, connect, type SecureClientSessionOptions } from "node:http2";
import type { TestContext } from "node:test";
import { Limit, type OpenOptions, RateLimiter } from "../../src/entry/index.ts";
import { createService, type ServiceOptions } from "../../src/entry/server.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { EDGE_FILE, tempFile } from "./kit.ts";
import { decoded, encoded } from "./protos.ts";

/** An answer over gRPC. */
export interface GrpcAnswer {
  /** The number of the status; -1: the connection ended without one. */
  readonly code: number;
  readonly message: string;
  /** Undefined: there is none. */
  readonly bytes: Buffer | undefined;
}

type Fields = Readonly<Record<string, string>>;

/** A client of gRPC on `node:http2` alone. */
export class GrpcClient {
  readonly session: ClientHttp2Session;

  constructor(url: string, options: SecureClientSessionOptions = {}) {
    this.session = connect(url.replace(/^grpc/, "http"), options);
    this.session.on("error", () => {});
  }

  /** Sends bytes as the body of a call. */
  raw(path: string, body: Buffer | undefined, headers: Fields = {}): Promise<GrpcAnswer> {
    const all = { ":method": "POST", ":path": path, "content-type": "application/grpc", te: "trailers", ...headers };
    return new Promise((resolve) => {
      const stream = this.session.request(all);
      const chunks: Buffer[] = [];
      let told: Record<string, unknown> = {};
      const hear = (fields: Record<string, unknown>) => {
        told = { ...told, ...fields };
      };
      stream.on("response", hear);
      stream.on("trailers", hear);
      stream.on("data", (chunk: Buffer) => chunks.push(chunk));
      stream.on("error", () => {});
      stream.on("close", () => {
        const all = Buffer.concat(chunks);
        const code = told["grpc-status"] === undefined ? -1 : Number(told["grpc-status"]);
        const message = decodeURIComponent(String(told["grpc-message"] ?? ""));
        resolve({ code, message, bytes: all.length < 5 ? undefined : all.subarray(5) });
      });
      if (body === undefined) stream.end();
      else stream.end(body);
    });
  }

  /** Sends one message. */
  call(path: string, message: Buffer, headers: Fields = {}): Promise<GrpcAnswer> {
    return this.raw(path, framed(message), headers);
  }

  /** Calls `ShouldRateLimit`, or another method that has its messages. */
  async limit(request: RateLimitCall, headers: Fields = {}, path = SHOULD) {
    const answer = await this.call(path, rateLimitRequest(request), headers);
    // Without a message it is one without fields.
    const response = decoded("RateLimitResponse", answer.bytes ?? Buffer.alloc(0));
    const pairs = response.responseHeadersToAdd.map(({ key, value }: { key: string; value: string }) => [key, value]);
    return {
      ...answer,
      response,
      overall: response.overallCode as number,
      codes: response.statuses.map(({ code }: { code: number }) => code) as number[],
      metadata: (response.dynamicMetadata ?? {}) as Readonly<Record<string, string | number | null>>,
      headers: Object.fromEntries(pairs) as Fields,
    };
  }

  close(): void {
    this.session.destroy();
  }
}

export const SHOULD = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
export const KUADRANT = "/kuadrant.service.ratelimit.v1.RateLimitService/";
export const HEALTH = "/grpc.health.v1.Health/";

export function framed(message: Buffer, flag = 0): Buffer {
  const head = Buffer.alloc(5, flag);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

/** A descriptor as tests write it: its entries, and what else it has. */
export interface DescriptorCall {
  readonly of: Readonly<Record<string, string>>;
  readonly hits?: number;
  readonly negative?: true;
  readonly limit?: object;
}

interface RateLimitCall {
  readonly domain?: string;
  readonly descriptors: readonly DescriptorCall[];
  readonly hits?: number;
}

export function descriptorsOf(descriptors: readonly DescriptorCall[]): object[] {
  return descriptors.map(({ of, hits, negative, limit }) => ({
    entries: Object.entries(of).map(([key, value]) => ({ key, value })),
    hitsAddend: hits === undefined ? undefined : BigInt(hits),
    isNegativeHits: negative === true,
    limit,
  }));
}

function rateLimitRequest({ domain = "envoy", descriptors, hits = 0 }: RateLimitCall): Buffer {
  return encoded("RateLimitRequest", { domain, descriptors: descriptorsOf(descriptors), hitsAddend: hits });
}

interface EdgeKitOptions extends Omit<ServiceOptions, "open"> {
  /** The edge file. */
  readonly text?: string;
  /** How the limiter is opened. */
  readonly open?: Partial<OpenOptions>;
}

/** A service with gRPC in this process, on memory and a simulated clock; gone with its test. */
export async function edgeOf(t: TestContext, { text = EDGE_FILE, open = {}, ...options }: EdgeKitOptions = {}) {
  const clock = new SimulatedClock(1_800_000_000_000);
  const limiter = await RateLimiter.open({ store: "memory", clock, ...open });
  await limiter.setResourceDefaults("gpt-5", [
    Limit.perMinute("rpm", 10, { counts: "requests" }),
    Limit.perMinute("tpm", 100),
  ]);
  await limiter.setResourceDefaults("http", [Limit.perSecond("rps", 5, { counts: "requests" })]);
  await limiter.setResourceDefaults("tokens", [Limit.perDay("tpd", 1_000, { counts: "tpm" })]);
  const log: string[] = [];
  const edge = tempFile(t, "edge.yaml", text);
  const service = await createService({ limiter, log: (line) => log.push(line), edge, grpcPort: 0, ...options });
  const { url, grpcUrl = "", close } = await service.listen({ port: 0 });
  const client = new GrpcClient(grpcUrl);
  t.after(async () => {
    client.close();
    await close();
    await limiter.close();
  });
  const left = async (entityId: string, resource: string) =>
    Object.fromEntries(
      (await limiter.available({ entityId, resource })).map(({ limit, available }) => [limit, available]),
    );
  return { clock, limiter, service, client, url, grpcUrl, close, log, edge, left };
}
