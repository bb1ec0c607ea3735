import { given } from "../domain/names/given.ts";
import type { RouteResponse } from "./route-response.ts";
import { z } from "./vendor.ts";

export { given };

/** Where a page of a list begins, for the library: the service's default is 100. */
export function pageOf({
  limit,
  cursor,
}: {
  readonly limit?: number | undefined;
  readonly cursor?: string | undefined;
}) {
  return { limit: limit ?? 100, ...given({ cursor }) };
}

/** A page of a list as an answer. */
export function pageResponse<Item>(page: readonly Item[] & { readonly cursor?: string }): RouteResponse {
  const { cursor } = page;
  return { status: 200, body: { items: [...page], ...given({ cursor }) } };
}

/** The schema of such an answer. */
export function listOf(item: z.ZodType) {
  return z.object({ items: z.array(item), cursor: z.string().optional() });
}
