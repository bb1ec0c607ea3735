import { createServer, type Server, type ServerOptions } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { LimiterError, ValidationError } from "../domain/names/errors.ts";
import { isLoopback } from "./origin-guard.ts";
import { readTls, type TlsFiles, watchTls } from "./tls-files.ts";

export interface Listening {
  readonly url: string;
  readonly host: string;
  readonly port: number;
  /** Answers what is in progress; resolves when the last answer is out. `stopped` resolves when the service has given all answers. */
  close(stopped: Promise<void>): Promise<void>;
}

/** Throws for other hosts: without tokens, every caller may do everything. */
export function requireLoopback(host: string): void {
  if (isLoopback(host)) return;
  throw new ValidationError(
    "tokens_missing",
    `Without tokens the service listens on this machine only, and host is ${host}; give a token file (--token-file), or 127.0.0.1.`,
  );
}

export function portUnavailable(host: string, port: number, cause: NodeJS.ErrnoException): LimiterError {
  const why = cause.code === "EADDRINUSE" ? "another program uses it" : cause.message;
  const message = `The service cannot listen on ${host}, port ${port}: ${why}. Choose another port.`;
  return new LimiterError("port_unavailable", message, { cause });
}

/** A server of `node:http`, or of `node:https` where there is a certificate. `unwatch` ends the watch on the files of that. */
export function serverWith(
  options: ServerOptions,
  tls: TlsFiles | undefined,
  log: (line: string) => void,
): { readonly server: Server; readonly unwatch: () => void } {
  if (tls === undefined) return { server: createServer(options), unwatch: () => {} };
  const server = createTlsServer({ ...options, ...readTls(tls), minVersion: "TLSv1.2" });
  return { server, unwatch: watchTls(tls, (pair) => server.setSecureContext(pair), log) };
}

/** Resolves when the server accepts connections there. */
export function bound(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const failed = (cause: NodeJS.ErrnoException) => reject(portUnavailable(host, port, cause));
    server.once("error", failed);
    server.listen({ host, port, backlog: 4096 }, () => {
      server.off("error", failed);
      resolve();
    });
  });
}
