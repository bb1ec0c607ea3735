import type { ServerResponse } from "node:http";
import type { RequestOutcome } from "./options.ts";

/** Who knows what the handler of a request threw, if anything. */
interface KnowsError {
  errorOf(): { readonly error: unknown } | undefined;
}

/** Calls back when a response has ended, whichever of its events comes first. `handled`: absent where errors are not known. */
export function onceEnded(
  response: ServerResponse,
  close: (outcome: RequestOutcome) => unknown,
  handled?: KnowsError,
): void {
  const closeBy = (thrown: { readonly error: unknown } | undefined, otherwise: RequestOutcome) =>
    close(thrown === undefined ? otherwise : { kind: "error", error: thrown.error });
  // A handler that throws after the first byte closes the connection, as a client that leaves does: but then it has thrown before.
  const cut = () => closeBy(handled?.errorOf(), { kind: "disconnected" });
  const finished = () => {
    if (wasReset(response)) return cut();
    const { statusCode: status } = response;
    return closeBy(status >= 500 ? handled?.errorOf() : undefined, { kind: "finished", status });
  };
  // Some servers emit only one of the two; a response that ended before anybody listened emits none.
  const ended = () => (response.writableFinished ? finished() : cut());
  if (response.writableFinished || response.destroyed) {
    ended();
    return;
  }
  // Not by `once`: `close` counts the first call only, and taking listeners off costs more than the calls.
  response.on("finish", finished);
  response.on("close", ended);
}

/** HTTP/2 tells of a response whose client left as of one that was sent. */
function wasReset(response: ServerResponse): boolean {
  const { stream } = response as { readonly stream?: { readonly rstCode?: number } };
  return stream !== undefined && (!response.writableEnded || (stream.rstCode ?? 0) !== 0);
}

/** A signal that is aborted when the client leaves before the response has ended. */
export function signalOf(response: ServerResponse): AbortSignal {
  const left = new AbortController();
  if (response.destroyed) left.abort();
  response.once("close", () => {
    if (!response.writableFinished) left.abort();
  });
  return left.signal;
}
