import {
  constants,
  createSecureServer,
  createServer,
  type Http2SecureServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { AddressInfo } from "node:net";
import type { TLSSocket } from "node:tls";
import { GRPC_CODES, type GrpcCode, GrpcError, messageField } from "./status.ts";

export interface GrpcCall {
  readonly headers: IncomingHttpHeaders;
  /** The names of the client's certificate, such as `URI:spiffe://…`. Empty: it showed none. */
  readonly certificateNames: readonly string[];
  /** The bytes of the one message; rejects where there is none, or it is too large. */
  message(): Promise<Buffer>;
}

/** A call whose answers are a stream. */
export interface GrpcStream {
  send(message: Buffer): void;
  end(code: GrpcCode, message: string): void;
  onClosed(listener: () => void): void;
}

/** The bytes that an answer leaves free in front of its message: a flag and the length. */
export const FRAME_BYTES = 5;

/** A method: `unary` answers a message with `FRAME_BYTES` free in front; `stream` sends some. */
export type GrpcMethod =
  | { readonly kind: "unary"; answer(call: GrpcCall): Promise<Buffer> }
  | { readonly kind: "stream"; open(call: GrpcCall, stream: GrpcStream): Promise<void> };

/** The functions and bounds that the program around a server gives it. */
interface GrpcServing {
  /** The method of a path; undefined: there is none. */
  find(path: string): GrpcMethod | undefined;
  statusOf(error: unknown): GrpcError;
  ended(path: string, code: GrpcCode): void;
  readonly bodyMax: number;
  readonly streamsMax: number;
}

interface GrpcListening {
  readonly port: number;
  renew(tls: GrpcTls): void;
  /** Tells every client to open no more calls here; calls go on until `close`. */
  goAway(): void;
  /** Takes no more calls; resolves when those under way are answered, or after `flushMs`. */
  close(flushMs: number): Promise<void>;
}

/** A certificate with its key, and the authority that certificates of clients must be of. */
export interface GrpcTls {
  readonly cert: string;
  readonly key: string;
  readonly clientCa: string | undefined;
}

/** Listens for gRPC: HTTP/2 with prior knowledge, or by ALPN where there is a certificate. */
export async function listenGrpc(
  { host, port, tls }: { readonly host: string; readonly port: number; readonly tls: GrpcTls | undefined },
  serving: GrpcServing,
): Promise<GrpcListening> {
  const settings = { maxConcurrentStreams: serving.streamsMax };
  const server: Http2Server | Http2SecureServer =
    tls === undefined
      ? createServer({ settings })
      : createSecureServer({ settings, ...secured(tls), minVersion: "TLSv1.2", allowHTTP1: false });
  const sessions = new Set<ServerHttp2Session>();
  server.on("session", (session: ServerHttp2Session) => {
    sessions.add(session);
    session.on("close", () => sessions.delete(session));
    // The client has left or breaks the protocol: its streams end with it.
    session.on("error", () => {});
  });
  server.on("sessionError", () => {});
  server.on("stream", (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => {
    stream.on("error", () => {});
    answer(stream, headers, serving);
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen({ host, port, backlog: 4096 }, () => {
      server.off("error", reject);
      resolve();
    });
  });
  return {
    port: (server.address() as AddressInfo).port,
    renew: (next) => (server as Http2SecureServer).setSecureContext(secured(next)),
    goAway: () => {
      for (const session of sessions) {
        if (!session.closed && !session.destroyed) session.goaway(constants.NGHTTP2_NO_ERROR, STREAM_ID_MAX);
      }
    },
    close: (flushMs) => closed(server, sessions, flushMs),
  };
}

/** The id that no stream is above: calls that are on their way when a client is told to go are answered. */
const STREAM_ID_MAX = 2 ** 31 - 1;

function secured({ cert, key, clientCa }: GrpcTls) {
  if (clientCa === undefined) return { cert, key };
  return { cert, key, ca: clientCa, requestCert: true, rejectUnauthorized: true };
}

async function closed(
  server: Http2Server | Http2SecureServer,
  sessions: ReadonlySet<ServerHttp2Session>,
  flushMs: number,
): Promise<void> {
  const gone = new Promise<void>((resolve) => server.close(() => resolve()));
  for (const session of sessions) session.close();
  const timer = setTimeout(() => {
    for (const session of sessions) session.destroy();
  }, flushMs);
  await gone;
  clearTimeout(timer);
}

function answer(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, serving: GrpcServing): void {
  const path = headers[":path"] ?? "";
  if (headers[":method"] !== "POST" || !/^application\/grpc(\+proto)?\s*(;|$)/.test(headers["content-type"] ?? "")) {
    // Not gRPC: pages of browsers get no answer that they may read, and no preflight that allows one.
    stream.respond({ ":status": 415 }, { endStream: true });
    return;
  }
  const method = serving.find(path);
  const call = new StreamCall(stream, headers, serving.bodyMax);
  if (method === undefined) {
    fail(stream, new GrpcError("UNIMPLEMENTED", "There is no such method here."));
    serving.ended(path, "UNIMPLEMENTED");
    return;
  }
  if (method.kind === "stream") {
    const messages = new MessageStream(stream, (code) => serving.ended(path, code));
    method.open(call, messages).catch((error: unknown) => {
      const { code, message } = serving.statusOf(error);
      messages.end(code, message);
    });
    return;
  }
  method.answer(call).then(
    (framed) => {
      succeed(stream, framed);
      serving.ended(path, "OK");
    },
    (error: unknown) => {
      const status = serving.statusOf(error);
      fail(stream, status);
      serving.ended(path, status.code);
    },
  );
}

const HEAD = { ":status": 200, "content-type": "application/grpc" };
const OK_TRAILERS = { "grpc-status": "0" };
const AWAITING_TRAILERS = { waitForTrailers: true };

function succeed(stream: ServerHttp2Stream, framed: Buffer): void {
  if (stream.destroyed || stream.closed) return;
  stream.once("wantTrailers", () => stream.sendTrailers(OK_TRAILERS));
  stream.respond(HEAD, AWAITING_TRAILERS);
  stream.end(withFrame(framed));
}

function withFrame(framed: Buffer): Buffer {
  framed[0] = 0;
  framed.writeUInt32BE(framed.length - FRAME_BYTES, 1);
  return framed;
}

function fail(stream: ServerHttp2Stream, { code, message }: GrpcError): void {
  if (stream.destroyed || stream.closed) return;
  const status = { "grpc-status": String(GRPC_CODES[code]), "grpc-message": messageField(message) };
  stream.respond({ ...HEAD, ...status }, { endStream: true });
  // The rest that the client sends is not read.
  if (!stream.readableEnded) stream.close(constants.NGHTTP2_NO_ERROR);
}

class StreamCall implements GrpcCall {
  readonly headers: IncomingHttpHeaders;
  readonly #stream: ServerHttp2Stream;
  readonly #bodyMax: number;

  constructor(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, bodyMax: number) {
    this.headers = headers;
    this.#stream = stream;
    this.#bodyMax = bodyMax;
  }

  get certificateNames(): readonly string[] {
    const { session } = this.#stream;
    return session === undefined ? [] : certificateNamesOf(session);
  }

  message(): Promise<Buffer> {
    const stream = this.#stream;
    return new Promise((resolve, reject) => {
      let first: Buffer | undefined;
      let chunks: Buffer[] | undefined;
      let length = 0;
      let isWhole = false;
      stream.on("data", (chunk: Buffer) => {
        length += chunk.length;
        if (length > this.#bodyMax + FRAME_BYTES) {
          stream.removeAllListeners("data");
          reject(new GrpcError("RESOURCE_EXHAUSTED", `The message has more than ${this.#bodyMax} bytes.`));
        } else if (first === undefined) first = chunk;
        else if (chunks === undefined) chunks = [first, chunk];
        else chunks.push(chunk);
      });
      stream.once("end", () => {
        isWhole = true;
        try {
          resolve(unframed(chunks === undefined ? first : Buffer.concat(chunks)));
        } catch (error) {
          reject(error);
        }
      });
      stream.once("close", () => {
        // Every call closes, and an error is as dear as a quarter of one.
        if (!isWhole) reject(new GrpcError("INVALID_ARGUMENT", "The call ended before its message."));
      });
    });
  }
}

/** The one message of a body. */
function unframed(bytes: Buffer | undefined): Buffer {
  if (bytes === undefined || bytes.length < FRAME_BYTES) {
    throw new GrpcError("INVALID_ARGUMENT", "The call has no message.");
  }
  if (bytes[0] !== 0) {
    if (bytes[0] === 1)
      throw new GrpcError("UNIMPLEMENTED", "Compressed messages are not read; send them as they are.");
    throw new GrpcError("INVALID_ARGUMENT", "The call has no message of gRPC.");
  }
  if (bytes.readUInt32BE(1) !== bytes.length - FRAME_BYTES) {
    throw new GrpcError("INVALID_ARGUMENT", "The call has not exactly one message.");
  }
  return bytes.subarray(FRAME_BYTES);
}

const NO_NAMES: readonly string[] = [];
const NAMES = new WeakMap<object, readonly string[]>();

function certificateNamesOf(session: NonNullable<ServerHttp2Stream["session"]>): readonly string[] {
  const known = NAMES.get(session);
  if (known !== undefined) return known;
  const socket = session.socket as TLSSocket | undefined;
  const certificate = session.encrypted === true ? socket?.getPeerCertificate() : undefined;
  const names = certificate === undefined ? NO_NAMES : namesOfCertificate(certificate.subjectaltname);
  NAMES.set(session, names);
  return names;
}

class MessageStream implements GrpcStream {
  readonly #stream: ServerHttp2Stream;
  readonly #ended: (code: GrpcCode) => void;
  #hasBegun = false;
  #isOver = false;

  constructor(stream: ServerHttp2Stream, ended: (code: GrpcCode) => void) {
    this.#stream = stream;
    this.#ended = ended;
    // A client that leaves ends the stream as it should end.
    stream.once("close", () => this.#over("OK"));
  }

  send(message: Buffer): void {
    if (this.#isOver) return;
    if (!this.#hasBegun) this.#stream.respond(HEAD, AWAITING_TRAILERS);
    this.#hasBegun = true;
    this.#stream.write(withFrame(message));
  }

  end(code: GrpcCode, message: string): void {
    if (this.#isOver) return;
    this.#over(code);
    if (!this.#hasBegun) {
      fail(this.#stream, new GrpcError(code, message));
      return;
    }
    const trailers = { "grpc-status": String(GRPC_CODES[code]), "grpc-message": messageField(message) };
    this.#stream.once("wantTrailers", () => this.#stream.sendTrailers(trailers));
    this.#stream.end();
  }

  onClosed(listener: () => void): void {
    this.#stream.once("close", listener);
  }

  #over(code: GrpcCode): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#ended(code);
  }
}

/**
 * The names in a certificate, as Node writes them in one text: `URI:spiffe://…, DNS:a.example`. A name with a comma or a quote in it
 * stands in quotes, so that nobody can write two names as one.
 */
export function namesOfCertificate(subjectAltName: string | undefined): readonly string[] {
  const names: string[] = [];
  for (const [, kind, quoted, plain] of (subjectAltName ?? "").matchAll(CERTIFICATE_NAME)) {
    names.push(`${kind}:${quoted === undefined ? plain : (JSON.parse(quoted) as string)}`);
  }
  return names;
}

const CERTIFICATE_NAME = /(?:^|, )([A-Za-z ]+):(?:("(?:[^"\\]|\\.)*")|([^,"]*))(?=$|, )/g;
