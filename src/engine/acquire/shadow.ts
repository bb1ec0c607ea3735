// Not a member of the request: who may refuse is the business of the middleware that asks, and a store never hears of it.
const IN_SHADOW = new WeakSet<object>();

/** Marks a request whose refusal is only told: it goes on all the same. */
export function inShadow<Request extends object>(request: Request): Request {
  IN_SHADOW.add(request);
  return request;
}

export function isInShadow(request: object): boolean {
  return IN_SHADOW.has(request);
}
