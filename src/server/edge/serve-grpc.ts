import { readFileSync } from "node:fs";
import { ValidationError } from "../../domain/names/errors.ts";
import { type GrpcTls, listenGrpc } from "../../grpc/listen-grpc.ts";
import { type Listening, portUnavailable, requireLoopback } from "../listening.ts";
import type { GrpcSettings } from "../options.ts";
import { nameInHost } from "../origin-guard.ts";
import { readTls, watchTls } from "../tls-files.ts";
import { type CallerSource, type EdgeParts, edgeMethods, statusOf } from "./grpc-methods.ts";
import { HealthMethods } from "./health.ts";

/** Milliseconds that connections have left after the last answer. */
const FLUSH_MS = 1_000;

/** Listens for gRPC. */
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
  return files && { ...readTls(files), clientCa: clientCa === undefined ? undefined : readClientCa(clientCa) };
}

/** Reads the authority of clients' certificates. */
export function readClientCa(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new ValidationError("option_invalid", `grpcClientCa ${file} cannot be read: ${(error as Error).message}.`, {
      cause: error,
    });
  }
}
