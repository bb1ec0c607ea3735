import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { bound, type Listening, requireLoopback, serverWith } from "./listening.ts";
import { nameInHost } from "./origin-guard.ts";
import { Problem, problemResponse, responseOf } from "./problem.ts";
import type { ServiceCore } from "./service.ts";
import { getRequestListener } from "./vendor.ts";
import { WAYS_OF_ROUTES } from "./ways.ts";

/** Bounds on slow clients. */
const HEADERS_MS = 10_000;
const REQUEST_MS = 20_000;
const LOOK_MS = 500;
/** Longer than proxies keep their connections, so that it is they who close them. */
const KEEP_ALIVE_MS = 75_000;

const SERVER_OPTIONS = {
  requireHostHeader: false,
  headersTimeout: HEADERS_MS,
  requestTimeout: REQUEST_MS,
  connectionsCheckingInterval: LOOK_MS,
  keepAliveTimeout: KEEP_ALIVE_MS,
  noDelay: true,
};

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
  // Metrics are read by address, and a certificate is for a name.
  const tls = serves === "all" ? core.settings.tls : undefined;
  const { server, unwatch } = serverWith(SERVER_OPTIONS, tls, core.settings.log);
  await bound(server, host, port);
  const actual = (server.address() as AddressInfo).port;
  const respond = serves === "all" ? core.listener(host, actual) : core.metricsListener(host, actual);
  const sendTogether = endOfTurn<Response>();
  const listener = getRequestListener(
    (request, { outgoing }) => respond(request, () => outgoing.destroy()).then(sendTogether),
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

/**
 * Delays values to the end of a turn of the event loop: all answers that are ready by then are sent together. An answer that is sent by
 * itself wakes its reader, which costs the kernel as much as the request; a store in memory would answer each so.
 */
function endOfTurn<Value>(): (value: Value) => Promise<Value> {
  let waiting: (() => void)[] = [];
  const flush = () => {
    const ready = waiting;
    waiting = [];
    for (const resolve of ready) resolve();
  };
  return (value) =>
    new Promise((resolve) => {
      if (waiting.length === 0) setImmediate(flush);
      waiting.push(() => resolve(value));
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

/** Milliseconds that connections have left after the last answer. */
const FLUSH_MS = 1_000;

/** New requests get a 503 until the last answer is given, probes too. */
async function closed(server: Server, stopped: Promise<void>): Promise<void> {
  await stopped;
  const gone = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  const timer = setTimeout(() => server.closeAllConnections(), FLUSH_MS);
  await gone;
  clearTimeout(timer);
}
