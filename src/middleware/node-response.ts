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
  const finished = () => {
    const { statusCode: status } = response;
    const thrown = status >= 500 ? handled?.errorOf() : undefined;
    close(thrown === undefined ? { kind: "finished", status } : { kind: "error", error: thrown.error });
  };
  // Some servers emit only one of the two; a response that ended before anybody listened emits none.
  const ended = () => (response.writableFinished ? finished() : close({ kind: "disconnected" }));
  if (response.writableFinished || response.destroyed) {
    ended();
    return;
  }
  // Not by `once`: `close` counts the first call only, and taking listeners off costs more than the calls.
  response.on("finish", finished);
  response.on("close", ended);
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
