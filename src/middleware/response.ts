import type { Answer } from "./answer.ts";
import type { RequestOutcome } from "./options.ts";

type Close = (outcome: RequestOutcome) => Promise<void>;

/** The way a response of the web platform is sent. */
interface Sending {
  readonly isHead: boolean;
  /** Header fields that the response gets unless it has them. */
  readonly headers: Readonly<Record<string, string>>;
}

/** Adds header fields to a response; `close` is called when its body was read to the end, or was left. */
export function limitedResponse(response: Response, { isHead, headers }: Sending, close: Close | undefined): Response {
  const { status, body } = response;
  // The response is an upgrade or a network error, and no response can be made of it again.
  if (status < 200 || status > 599) {
    close?.({ kind: "finished", status });
    return response;
  }
  // Servers drop the body of an answer to HEAD unread.
  if (close !== undefined && (body === null || isHead)) close({ kind: "finished", status });
  const watched = close === undefined || body === null || isHead ? body : watchedBody(body, status, close);
  if (watched === body && hasFields(response, headers)) return response;
  const answer = new Response(watched, response);
  for (const [name, value] of Object.entries(headers)) if (!answer.headers.has(name)) answer.headers.set(name, value);
  return answer;
}

/** The answer to a request that did not get through. */
export function problemResponse({ status, headers, problem }: Answer): Response {
  return new Response(JSON.stringify(problem), { status, headers });
}

/** The answer to a client that has left; servers that log statuses know this one. */
export function goneResponse(): Response {
  return new Response(null, { status: 499 });
}

function hasFields(response: Response, headers: Readonly<Record<string, string>>): boolean {
  return Object.keys(headers).every((name) => response.headers.has(name));
}

/** Servers begin to read at once. A body that is not read was put aside, as for an answer of 304, and its lease would be held for ever. */
const UNREAD_MS = 30_000;

/** Passes every chunk on as it is and when it is asked for. */
function watchedBody(body: ReadableStream, status: number, close: Close): ReadableStream {
  const reader = body.getReader();
  const unread = setTimeout(() => close({ kind: "finished", status }), UNREAD_MS);
  // The timer must not keep the process alive. In browsers and workers it is a number, which has no `unref`.
  (unread as { unref?(): void }).unref?.();
  return new ReadableStream(
    {
      async pull(controller) {
        clearTimeout(unread);
        try {
          const { done, value } = await reader.read();
          if (!done) return controller.enqueue(value);
          close({ kind: "finished", status });
          controller.close();
        } catch (error) {
          close({ kind: "error", error });
          controller.error(error);
        }
      },
      cancel(reason) {
        clearTimeout(unread);
        close({ kind: "disconnected" });
        return reader.cancel(reason);
      },
    },
    // Nothing is read ahead of the reader.
    { highWaterMark: 0 },
  );
}
