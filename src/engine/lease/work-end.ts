/**
 * The end of work that tokens were taken for.
 *
 * - `notBegun`: nothing was sent, and neither a handler nor a tool was called.
 * - `answered`: it was done.
 * - `failed`: it answered an error: the status of a provider, a handler or a tool that threw.
 * - `abandoned`: it had begun, and was given up before its answer was whole: the caller left, its time was over, the connection broke.
 */
export type WorkEnd = "notBegun" | "answered" | "failed" | "abandoned";

/** The rule of all adapters: work that was begun is paid for. A caller who gets tokens back by hanging up is not limited. */
export function isGivenBack(end: WorkEnd): boolean {
  return end === "notBegun" || end === "failed";
}

/** The end of a request without an answer: it did not reach its server, or, in doubt, was sent and abandoned. */
export function endOfUnanswered(error: unknown): WorkEnd {
  let cause = error;
  for (let depth = 0; depth < CAUSES_MAX && typeof cause === "object" && cause !== null; depth++) {
    const { code, syscall, cause: next } = cause as { code?: unknown; syscall?: unknown; cause?: unknown };
    if (syscall === "connect" || (typeof code === "string" && NOT_CONNECTED.test(code))) return "notBegun";
    cause = next;
  }
  return "abandoned";
}

/** The end of a function that threw. `signals` are those by which its caller could stop it. */
export function endOfThrown(error: unknown, signals: readonly (AbortSignal | undefined)[]): WorkEnd {
  const { name } = (error ?? {}) as { readonly name?: unknown };
  const isGivenUp = name === "AbortError" || name === "TimeoutError" || signals.some((signal) => signal?.aborted);
  return isGivenUp ? "abandoned" : "failed";
}

/**
 * Runs the function of a tool. `withLease` gives back if it throws. But a tool that was canceled or timed out has been called, so the
 * lease is settled first.
 */
export async function paidBody<Value>(
  lease: { settle(): Promise<void> },
  signals: readonly (AbortSignal | undefined)[],
  body: () => Value | Promise<Value>,
): Promise<Value> {
  try {
    return await body();
  } catch (error) {
    // The lease has published what could not be stored.
    if (!isGivenBack(endOfThrown(error, signals))) await lease.settle().catch(() => {});
    throw error;
  }
}

const CAUSES_MAX = 8;

/** Codes of Node, of undici and of Bun: no name, no address, no connection, no certificate, no URL. */
const NOT_CONNECTED =
  /^(ECONNREFUSED|ENOTFOUND|EAI_|EHOST|ENET|EADDRNOTAVAIL|UND_ERR_CONNECT|ERR_INVALID_|ERR_TLS_|ERR_SSL_|CERT_|UNABLE_TO_|DEPTH_ZERO|SELF_SIGNED|ConnectionRefused|FailedToOpenSocket)/;
