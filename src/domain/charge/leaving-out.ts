/** What becomes of measures that nothing counts: they are left out silently, or as `unnamedLimits` says. */
export type Uncounted = "ignore" | "report";

/**
 * Of a request whose measures are left out where nothing counts them, as those of an adapter are: a key without a budget is not limited by
 * one. No name that a caller could give.
 */
const UNCOUNTED: unique symbol = Symbol("uncounted");

/** The request, so that measures that nothing counts are left out. */
export function leavingOut<Request extends object>(
  request: Request,
  how: Uncounted,
): Request & { readonly [UNCOUNTED]: Uncounted } {
  return { ...request, [UNCOUNTED]: how };
}

/** How a request leaves out what nothing counts; undefined: it is an error there. */
export function howLeavingOut(request: object): Uncounted | undefined {
  return (request as { readonly [UNCOUNTED]?: Uncounted })[UNCOUNTED];
}
