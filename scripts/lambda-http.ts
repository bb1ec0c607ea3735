import { Agent, type ClientRequest, request as send } from "node:http";
import { connect as connectPlain, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import type { buildConnector as BuildConnector, Dispatcher, Pool as UndiciPool } from "undici";

// Stands in for undici in the code of the stack's functions, over what Node has: undici is two thirds of such a function's code and
// is worth it where every microsecond of a request counts. Only what `adapters/dynamodb/transport.ts` asks of it is here.

type ServerAddress = Pick<BuildConnector.Options, "hostname" | "port" | "protocol">;
type Connected = (error: Error | null, socket?: Socket) => void;
type Connect = (place: ServerAddress, connected: Connected) => void;

/** Opens connections; told when one is there, TLS and all. */
export function buildConnector({ timeout, ca }: { readonly timeout: number; readonly ca?: string }): Connect {
  return ({ hostname, port, protocol }, connected) => {
    const at = { host: hostname, port: Number(port) };
    const isTls = protocol === "https:";
    const socket = isTls
      ? connectTls({ ...at, servername: hostname, ...(ca === undefined ? {} : { ca }) })
      : connectPlain(at);
    const late = () => socket.destroy(new Error(`No connection to ${hostname}:${port} within ${timeout} ms.`));
    const timer = setTimeout(late, timeout);
    const end = (error: Error | null) => {
      clearTimeout(timer);
      socket.off("error", end);
      if (error === null) connected(null, socket);
      else connected(error);
    };
    socket.once("error", end);
    socket.once(isTls ? "secureConnect" : "connect", () => end(null));
  };
}

interface PoolOptions {
  readonly connect: Connect;
  readonly connections: number;
  readonly keepAliveTimeout: number;
}

type Handler = Required<
  Pick<
    Dispatcher.DispatchHandler,
    "onRequestStart" | "onResponseStart" | "onResponseData" | "onResponseEnd" | "onResponseError"
  >
>;

/** A request at a time on each of some connections; those that wait are sent in order. */
export class Pool implements Pick<UndiciPool, "dispatch"> {
  readonly #place: ServerAddress;
  readonly #agent: Agent;
  readonly #connections: number;
  readonly #open = new Set<ClientRequest>();
  readonly #waiting: (() => void)[] = [];

  constructor(origin: string, { connect, connections, keepAliveTimeout }: PoolOptions) {
    const { protocol, hostname, port } = new URL(origin);
    this.#place = { protocol, hostname, port: port || (protocol === "https:" ? "443" : "80") };
    this.#connections = connections;
    this.#agent = new Agent({ keepAlive: true, timeout: keepAliveTimeout });
    Object.assign(this.#agent, {
      protocol,
      createConnection: (_: unknown, connected: Connected) => connect(this.#place, connected),
    });
  }

  dispatch(options: Dispatcher.DispatchOptions, handler: Handler): boolean {
    // Counted here: the agent counts a connection only when it is there.
    if (this.#open.size < this.#connections) this.#send(options, handler);
    else this.#waiting.push(() => this.#send(options, handler));
    return true;
  }

  async destroy(cause: Error): Promise<void> {
    this.#waiting.length = 0;
    for (const request of this.#open) request.destroy(cause);
    this.#agent.destroy();
  }

  #send({ method, path, headers, body }: Dispatcher.DispatchOptions, handler: Handler): void {
    const request = send({ ...this.#place, method, path, headers: fieldsOf(headers as string[]), agent: this.#agent });
    this.#open.add(request);
    const abort = (reason: Error) => void request.destroy(reason);
    const controller = { abort } as unknown as Dispatcher.DispatchController;
    let isOver = false;
    const end = (tell: () => void) => {
      if (isOver) return;
      isOver = true;
      tell();
    };
    const failed = (cause: Error) => end(() => handler.onResponseError(controller, cause));
    request.on("error", failed);
    request.once("close", () => {
      failed(new Error("The connection was closed."));
      // By then its connection is free.
      setImmediate(() => {
        this.#open.delete(request);
        this.#waiting.shift()?.();
      });
    });
    // The connection is there and nothing has been written: the last moment to give it up.
    request.once("socket", () => {
      try {
        handler.onRequestStart(controller, undefined);
      } catch {
        end(() => {});
        request.destroy();
        return;
      }
      request.end(body);
    });
    request.once("response", (response) => {
      handler.onResponseStart(controller, response.statusCode ?? 0, response.headers, response.statusMessage);
      response.on("data", (chunk: Buffer) => handler.onResponseData(controller, chunk));
      response.once("end", () => end(() => handler.onResponseEnd(controller, {})));
      response.on("error", failed);
    });
  }
}

/** Names and values in turn, as an object. */
function fieldsOf(headers: readonly string[]): Record<string, string> {
  return Object.fromEntries(headers.flatMap((name, i) => (i % 2 === 0 ? [[name, headers[i + 1] ?? ""]] : [])));
}
