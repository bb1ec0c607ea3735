import { createServer, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { LimiterError, ValidationError } from "../domain/names/errors.ts";
import { isLoopback, nameInHost } from "./origin-guard.ts";
import { Problem, problemResponse } from "./problem.ts";
import { responseOf } from "./route-response.ts";
import type { ServiceCore } from "./service.ts";
import { readTls, type TlsFiles, watchTls } from "./tls-files.ts";
import { getRequestListener } from "./vendor.ts";
import { WAYS_OF_ROUTES } from "./ways.ts";

/** Bounds on slow clients. */
const HEADERS_MS = 10_000;
const REQUEST_MS = 20_000;
const LOOK_MS = 500;
/** Longer than proxies keep their connections, so that it is they who close them. */
const KEEP_ALIVE_MS = 75_000;

/** Where a service listens. */
export interface Listening {
  readonly url: string;
  readonly host: string;
  readonly port: number;
  /** Answers what is in progress; resolves when the last answer is out. `stopped` resolves when the service has given all answers. */
  close(stopped: Promise<void>): Promise<void>;
}

interface ListenSettings {
  readonly host: string;
  readonly port: number;
  readonly ownsProcess: boolean;
  /** Everything, or metrics and probes alone. */
  readonly serves: "all" | "metrics";
}

/** Listens with `node:http`, or `node:https` where there is a certificate. */
export async function listen(
  core: ServiceCore,
  { host, port, ownsProcess, serves }: ListenSettings,
): Promise<Listening> {
  if (core.isOpen) requireLoopback(host);
  // Whoever scrapes by address has no name to check a certificate against.
  const tls = serves === "all" ? core.settings.tls : undefined;
  const { server, unwatch } = serverOf(tls, core.settings.log);
  await bound(server, host, port);
  const actual = (server.address() as AddressInfo).port;
  const respond = serves === "all" ? core.listener(host, actual) : core.metricsListener(host, actual);
  const listener = getRequestListener(
    (request, { outgoing }) => respond(request, () => outgoing.destroy()),
    // The lighter Request and Response of the adapter stand in for the global ones: only where the process is ours.
    // A probe of old may send no Host: then there is an address to make a URL of, and no name that anybody asked by.
    { overrideGlobalObjects: ownsProcess, errorHandler: unreadable, hostname: "localhost" },
  );
  server.on("request", listener);
  return {
    url: `${tls === undefined ? "http" : "https"}://${nameInHost(host)}:${actual}/`,
    host,
    port: actual,
    close: (stopped) => {
      unwatch();
      return closed(server, stopped);
    },
  };
}

function serverOf(
  tls: TlsFiles | undefined,
  log: (line: string) => void,
): { readonly server: Server; readonly unwatch: () => void } {
  const options = {
    requireHostHeader: false,
    headersTimeout: HEADERS_MS,
    requestTimeout: REQUEST_MS,
    connectionsCheckingInterval: LOOK_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    noDelay: true,
  };
  if (tls === undefined) return { server: createServer(options), unwatch: () => {} };
  const server = createTlsServer({ ...options, ...readTls(tls), minVersion: "TLSv1.2" });
  return { server, unwatch: watchTls(tls, (pair) => server.setSecureContext(pair), log) };
}

/** Without tokens whoever reaches the service may do everything. */
export function requireLoopback(host: string): void {
  if (isLoopback(host)) return;
  throw new ValidationError(
    "tokens_missing",
    `Without tokens the service listens on this machine only, and host is ${host}; give a token file (--token-file), or 127.0.0.1.`,
  );
}

function bound(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const failed = (cause: NodeJS.ErrnoException) => {
      const why = cause.code === "EADDRINUSE" ? "another program uses it" : cause.message;
      reject(
        new LimiterError(
          "port_unavailable",
          `The service cannot listen on ${host}, port ${port}: ${why}. Choose another port.`,
          {
            cause,
          },
        ),
      );
    };
    server.once("error", failed);
    server.listen({ host, port, backlog: 4096 }, () => {
      server.off("error", failed);
      resolve();
    });
  });
}

/** A request line or a Host that no URL can be made of. */
function unreadable(error: unknown): Response {
  const isHost = error instanceof Error && /host/i.test(error.message);
  const problem = isHost
    ? new Problem("host_unknown", "The Host of the request is not a name of this service.")
    : new Problem("request_invalid", "The request cannot be read.", { members: { errors: [] } });
  const answer = problemResponse(problem, "-", WAYS_OF_ROUTES);
  return responseOf(answer ?? { status: 400 }, { "x-request-id": "-" });
}

/** What is left of a connection after the last answer. */
const FLUSH_MS = 1_000;

/** Until the last answer is given, whoever comes anew is told that the service stops: probes by a 503, too. */
async function closed(server: Server, stopped: Promise<void>): Promise<void> {
  await stopped;
  const gone = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  const timer = setTimeout(() => server.closeAllConnections(), FLUSH_MS);
  await gone;
  clearTimeout(timer);
}
