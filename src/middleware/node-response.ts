import type { ServerResponse } from "node:http";
import type { RequestOutcome } from "./options.ts";

/** A request whose framework knows the error that its handler threw. */
interface KnowsError {
  errorOf(): { readonly error: unknown } | undefined;
}

/** Calls back when a response has ended, at the first of its events. `handled` is absent if errors are not known. */
export function onceEnded(
  response: ServerResponse,
  close: (outcome: RequestOutcome) => unknown,
  handled?: KnowsError,
): void {
  const closeBy = (thrown: { readonly error: unknown } | undefined, otherwise: RequestOutcome) =>
    close(thrown === undefined ? otherwise : { kind: "error", error: thrown.error });
  // A handler that throws after the first byte closes the connection, as a client that leaves does. Its error tells the two apart.
  const cut = () => closeBy(handled?.errorOf(), { kind: "disconnected" });
  const finished = () => {
    if (wasReset(response)) return cut();
    const { statusCode: status } = response;
    return closeBy(status >= 500 ? handled?.errorOf() : undefined, { kind: "finished", status });
  };
  // Some servers emit only one of the two events; a response that has ended already emits none.
  const ended = () => (response.writableFinished ? finished() : cut());
  if (response.writableFinished || response.destroyed) {
    ended();
    return;
  }
  // `on`, not `once`: `close` ignores further calls, and removing listeners costs more than the calls.
  response.on("finish", finished);
  response.on("close", ended);
}

/** HTTP/2 reports a response whose client left like one that was sent. */
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
