import { RateLimiter as Limiter } from "../../src/entry/rate-limiter.ts";

export * from "../../src/entry/aggregator.ts";
export { createTable, deleteTable, prepareTable } from "../../src/entry/dynamodb.ts";
export { RateLimiter } from "../../src/entry/rate-limiter.ts";

interface Way {
  readonly stack: string;
  readonly region: string;
  readonly endpoint: string;
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string };
}

/** A limiter on a table. */
export function limiterOn({ stack, ...way }: Way, clock?: { now(): number }): Promise<Limiter> {
  return Limiter.open({
    store: `dynamodb:${stack}`,
    timeoutMs: 60_000,
    ...way,
    ...(clock === undefined ? {} : { clock }),
  });
}
