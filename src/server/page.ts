import type { RouteResponse } from "./route-response.ts";
import { z } from "./vendor.ts";

/** Where a page of a list begins, for the library: the service's default is 100. */
export function pageOf({
  limit,
  cursor,
}: {
  readonly limit?: number | undefined;
  readonly cursor?: string | undefined;
}) {
  return { limit: limit ?? 100, ...(cursor === undefined ? {} : { cursor }) };
}

/** A page of a list as an answer. */
export function pageResponse<Item>(page: readonly Item[] & { readonly cursor?: string }): RouteResponse {
  const { cursor } = page;
  return { status: 200, body: { items: [...page], ...(cursor === undefined ? {} : { cursor }) } };
}

/** The schema of such an answer. */
export function listOf(item: z.ZodType) {
  return z.object({ items: z.array(item), cursor: z.string().optional() });
}

/** The object without the names whose value is undefined: the library takes a name that is there for one that is meant. */
export function given<Value extends object>(value: Value): { [Name in keyof Value]: Exclude<Value[Name], undefined> } {
  const entries = Object.entries(value).filter(([, each]) => each !== undefined);
  return Object.fromEntries(entries) as { [Name in keyof Value]: Exclude<Value[Name], undefined> };
}
