import { Agent as HttpAgent, type IncomingMessage, request as requestHttp } from "node:http";
import { Agent as HttpsAgent, request as requestHttps } from "node:https";
import { endOfUnanswered, type WorkEnd } from "../engine/lease/work-end.ts";

/** A provider that did not answer. */
export class ProviderFault extends Error {
  readonly status: 502 | 504;
  readonly code: "provider_unreachable" | "provider_timeout";
  /** The end of the call, as the adapters judge it: given back if nothing was sent, and otherwise paid for. */
  readonly end: WorkEnd;

  constructor(fault: Pick<ProviderFault, "status" | "code" | "end">, message: string, cause?: unknown) {
    super(message, cause === undefined ? {} : { cause });
    this.status = fault.status;
    this.code = fault.code;
    this.end = fault.end;
  }
}

interface ProviderRequest {
  readonly target: URL;
  readonly method: string;
  readonly fields: Headers;
  readonly body: string | Uint8Array | undefined;
  /** Aborted when the caller leaves. */
  readonly signal: AbortSignal;
}

/** Statuses of which a `Response` must have no body. */
const WITHOUT_BODY: ReadonlySet<number> = new Set([204, 205, 304]);

/** Connections to providers, which are kept for the next request. */
export class ProviderConnections {
  readonly #timeoutMs: number;
  readonly #http = new HttpAgent({ keepAlive: true });
  readonly #https = new HttpsAgent({ keepAlive: true });

  /** `timeoutMs`: the longest time until the first byte of an answer. */
  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  /** Sends a request with exactly these fields. Throws a `ProviderFault`, or the reason of the signal. */
  send({ target, method, fields, body, signal }: ProviderRequest): Promise<Response> {
    const isTls = target.protocol === "https:";
    const sent = (isTls ? requestHttps : requestHttp)(target, {
      method,
      agent: isTls ? this.#https : this.#http,
      headers: {
        ...Object.fromEntries(fields),
        ...(body === undefined ? {} : { "content-length": Buffer.byteLength(body) }),
      },
      signal,
    });
    const timer = setTimeout(() => {
      const message = `The provider sent nothing for ${this.#timeoutMs / 1_000} s.`;
      const end = sent.socket?.connecting === false ? "abandoned" : "notBegun";
      sent.destroy(new ProviderFault({ status: 504, code: "provider_timeout", end }, message));
    }, this.#timeoutMs);
    return new Promise((resolve, reject) => {
      sent.on("error", (error: Error) => {
        clearTimeout(timer);
        if (signal.aborted) return reject(signal.reason);
        if (error instanceof ProviderFault) return reject(error);
        const end = endOfUnanswered(error);
        const message =
          end === "notBegun"
            ? "The provider cannot be reached."
            : "The provider ended the connection before it answered.";
        reject(new ProviderFault({ status: 502, code: "provider_unreachable", end }, message, error));
      });
      sent.on("response", (answer) => {
        clearTimeout(timer);
        resolve(responseOf(answer));
      });
      sent.end(body);
    });
  }

  close(): void {
    this.#http.destroy();
    this.#https.destroy();
  }
}

function responseOf(answer: IncomingMessage): Response {
  const headers = new Headers();
  for (const [name, values] of Object.entries(answer.headersDistinct)) {
    for (const value of values ?? []) headers.append(name, value);
  }
  const status = answer.statusCode ?? 502;
  if (WITHOUT_BODY.has(status)) answer.resume();
  return new Response(WITHOUT_BODY.has(status) ? null : bytesOf(answer), { status, headers });
}

/** Streams the bytes of an answer, each chunk when it is asked for: the provider waits for a reader that is slow. */
function bytesOf(answer: IncomingMessage): ReadableStream<Uint8Array> {
  const chunks = answer[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>;
  return new ReadableStream(
    {
      async pull(controller) {
        const { done, value } = await chunks.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel() {
        answer.destroy();
      },
    },
    { highWaterMark: 0 },
  );
}
