import { crc32 } from "node:zlib";
import type { Dispatcher } from "undici";
import type { DynamoAnswer, DynamoCall, DynamoOperation } from "./client.ts";
import type { Credentials } from "./credentials.ts";
import { noneInTime, Unreachable } from "./retry-policy.ts";

interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly bytes: Buffer;
}

/** Reads an answer. An answer that was damaged, or that DynamoDB did not write, counts as lost. */
function readAnswer({ status, headers, bytes }: HttpAnswer, readItem: DynamoCall["readItem"]): DynamoAnswer {
  const crc = headers["x-amz-crc32"];
  if (crc !== undefined && Number(crc) !== crc32(bytes)) {
    return lost(status, `its checksum should be ${crc} and is ${crc32(bytes)}`);
  }
  const text = bytes.toString("utf8");
  const item = status === 200 ? readItem?.(text) : undefined;
  if (item !== undefined) return { kind: "answered", body: NOTHING, item };
  const body = parsed(text);
  if (status === 200)
    return body === undefined ? lost(status, "its body is not a JSON object") : { kind: "answered", body };
  const code = codeOf(body?.__type ?? headers["x-amzn-errortype"]);
  // A gateway may answer 502 or 504 after it passed the request on.
  if (code === undefined && status >= 500) return lost(status, "it names no exception of DynamoDB");
  return {
    kind: "failed",
    status,
    code: code ?? `Http${status}`,
    message: String(body?.message ?? body?.Message ?? ""),
    body: body ?? {},
  };
}

const NOTHING = Object.freeze({});

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

/** `com.amazonaws.dynamodb.v20120810#ThrottlingException:http://...` is ThrottlingException. */
function codeOf(type: unknown): string | undefined {
  if (typeof type !== "string") return undefined;
  const code = type.slice(type.indexOf("#") + 1).split(":", 1)[0];
  return code === "" ? undefined : code;
}

function lost(status: number, why: string): DynamoAnswer {
  return { kind: "lost", cause: new Error(`The response with HTTP status ${status} is invalid: ${why}.`) };
}

export interface ExchangeHost {
  readonly graceMs: number;
  /** The endpoint, for messages. */
  readonly origin: string;
  /** Called before the request is written; its result is passed to `dated`. */
  stamp(): unknown;
  /** Returns the date in ms, NaN if it cannot be read. */
  dated(dateText: string, sent: unknown): number;
  /** True if the request was certainly not processed and can be signed better now. */
  mayRepeat(exchange: Exchange, code: string): boolean;
  repeat(exchange: Exchange): void;
  settled(): void;
}

interface ExchangeInit {
  readonly operation: DynamoOperation;
  readonly body: string;
  readonly timeoutMs: number;
  readonly readItem: DynamoCall["readItem"];
  readonly resolve: (answer: DynamoAnswer) => void;
}

/**
 * - queued: it has no socket yet, or none any more. Whatever goes wrong, the service has not seen it: `unsent`.
 * - written: from `onRequestStart` on. Whatever goes wrong, the outcome is unknown: `lost`.
 * - late: its time is over and the caller has been told `lost`; the socket is kept for a while, for `later`.
 * - dropped: the caller was told `unsent` while it was queued, so it must not be written any more.
 * - answered: the caller has its final answer.
 */
type ExchangeState = "queued" | "written" | "late" | "dropped" | "answered";

/** One request and its answer, driven by undici's callbacks. There is one object per call, and little else. */
export class Exchange implements Dispatcher.DispatchHandler {
  readonly operation: DynamoOperation;
  readonly body: string;
  attempts = 0;
  credentials: Credentials | undefined;
  signedMs = 0;
  /** The server's time in the last answer; NaN without one. */
  dateMs = Number.NaN;
  readonly #host: ExchangeHost;
  readonly #readItem: DynamoCall["readItem"];
  #resolve: (answer: DynamoAnswer) => void;
  #timer: NodeJS.Timeout;
  #state: ExchangeState = "queued";
  #controller: Dispatcher.DispatchController | undefined;
  #sent: unknown;
  #status = 0;
  #headers: Readonly<Record<string, string | string[] | undefined>> = NO_HEADERS;
  #bytes: Buffer | undefined;

  constructor(host: ExchangeHost, { operation, body, timeoutMs, readItem, resolve }: ExchangeInit) {
    this.#host = host;
    this.operation = operation;
    this.body = body;
    this.#readItem = readItem;
    this.#resolve = resolve;
    this.#timer = setTimeout(onTime, timeoutMs, this, timeoutMs);
  }

  get isDropped(): boolean {
    return this.#state === "dropped";
  }

  /** Called before each attempt. */
  begin(credentials: Credentials, signedMs: number): void {
    this.attempts++;
    this.credentials = credentials;
    this.signedMs = signedMs;
    this.#state = "queued";
    this.#controller = undefined;
    this.#bytes = undefined;
  }

  /** The request never reached a socket. */
  unsent(cause: unknown): void {
    if (!this.isDropped) this.#settle({ kind: "unsent", cause });
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    // Throw instead of aborting: an abort would close the unused socket.
    if (this.isDropped) throw DROPPED;
    this.#controller = controller;
    this.#state = "written";
    this.#sent = this.#host.stamp();
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Readonly<Record<string, string | string[] | undefined>>,
  ): void {
    this.#status = status;
    this.#headers = headers;
    const { date } = headers;
    this.dateMs = typeof date === "string" ? this.#host.dated(date, this.#sent) : Number.NaN;
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#bytes = this.#bytes === undefined ? chunk : Buffer.concat([this.#bytes, chunk]);
  }

  onResponseEnd(): void {
    const whole = { status: this.#status, headers: this.#headers, bytes: this.#bytes ?? NO_BYTES };
    const answer = readAnswer(whole, this.#readItem);
    if (answer.kind === "failed" && this.#state === "written" && this.#host.mayRepeat(this, answer.code)) {
      this.#state = "queued";
      this.#host.repeat(this);
    } else this.#settle(answer);
  }

  onResponseError(_controller: Dispatcher.DispatchController, cause: Error): void {
    if (this.#state === "queued") {
      this.#settle({ kind: "unsent", cause: new Unreachable(this.#host.origin, cause) });
    } else if (this.#state === "written" || this.#state === "late") this.#settle({ kind: "lost", cause });
  }

  /** Called when the caller's time is over, and again when the grace period is. */
  timeIsOver(ms: number): void {
    if (this.#state === "late") {
      // Close the socket, because the next bytes on it would be this answer.
      this.#controller?.abort(new Error(`No response from DynamoDB ${ms} ms after the timeout either.`));
    } else if (this.#state === "written") {
      this.#state = "late";
      const tell = this.#resolve;
      const later = new Promise<DynamoAnswer>((resolve) => {
        this.#resolve = resolve;
      });
      tell({
        kind: "lost",
        cause: new Error(`No response from DynamoDB at ${this.#host.origin} within ${ms} ms.`),
        later,
      });
      this.#timer = setTimeout(onTime, this.#host.graceMs, this, this.#host.graceMs);
      this.#host.settled();
    } else {
      const missing = noneInTime(this.attempts === 0 ? "credentials" : "connection", ms);
      this.unsent(new Unreachable(this.#host.origin, missing));
    }
  }

  #settle(answer: DynamoAnswer): void {
    clearTimeout(this.#timer);
    const before = this.#state;
    this.#state = before === "queued" ? "dropped" : "answered";
    this.#resolve(answer);
    // The caller of a late exchange was answered before.
    if (before !== "late") this.#host.settled();
  }
}

function onTime(exchange: Exchange, ms: number): void {
  exchange.timeIsOver(ms);
}

const NO_BYTES = Buffer.alloc(0);
const NO_HEADERS = {};
const DROPPED = new Error("Cancelled before it was sent.");
