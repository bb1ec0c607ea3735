import type { Dispatcher } from "undici";
import type { DynamoAnswer, DynamoCall, DynamoOperation } from "./client.ts";
import type { Credentials } from "./credentials.ts";
import { readAnswer } from "./transport-answer.ts";
import { noneInTime, Unreachable } from "./unreachable.ts";

/** What an exchange asks of the transport that it belongs to. */
export interface ExchangeHost {
  readonly graceMs: number;
  /** Where the service is, for messages. */
  readonly origin: string;
  /** About to be written; what it returns comes back in `dated`. */
  stamp(): unknown;
  /** Returns the date in ms, NaN if it cannot be read. */
  dated(dateText: string, sent: unknown): number;
  /** Certainly not processed, and by now there is a better signature? */
  mayRepeat(exchange: Exchange, code: string): boolean;
  repeat(exchange: Exchange): void;
  /** The caller has its answer. */
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
 * - written: from `onRequestStart` on. Whatever goes wrong, nobody knows: `lost`.
 * - late: its time is over and the caller has been told `lost`; the socket is kept for a while, for `later`.
 * - dropped: the caller was told `unsent` while it was queued, so it must not be written any more.
 * - answered: the caller has all that there is to be had.
 */
type ExchangeState = "queued" | "written" | "late" | "dropped" | "answered";

/** One request and its answer, told by undici's calls. An object for each call, and little else. */
export class Exchange implements Dispatcher.DispatchHandler {
  readonly operation: DynamoOperation;
  readonly body: string;
  attempts = 0;
  /** What the last attempt was signed with. */
  credentials: Credentials | undefined;
  signedMs = 0;
  /** The server's time in the last answer; NaN if it said none. */
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

  /** Before it is given to undici, for the first time or again. */
  begin(credentials: Credentials, signedMs: number): void {
    this.attempts++;
    this.credentials = credentials;
    this.signedMs = signedMs;
    this.#state = "queued";
    this.#controller = undefined;
    this.#bytes = undefined;
  }

  /** Never got as far as a socket. */
  unsent(cause: unknown): void {
    if (!this.isDropped) this.#settle({ kind: "unsent", cause });
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    // Thrown rather than aborted: an abort would cost the socket, which has done nothing.
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

  /** The time given by the caller is over, or, if that has been so before, the grace. */
  timeIsOver(ms: number): void {
    if (this.#state === "late") {
      // The socket goes: what came next on it would be this answer.
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
    // Of one that is late the caller was told before.
    if (before !== "late") this.#host.settled();
  }
}

function onTime(exchange: Exchange, ms: number): void {
  exchange.timeIsOver(ms);
}

const NO_BYTES = Buffer.alloc(0);
const NO_HEADERS = {};
const DROPPED = new Error("Cancelled before it was sent.");
