import { type Api, ApiError, type Query } from "./api.ts";
import { matches, shortestFirst, wordsOf } from "./bucket-rows.ts";
import type { BucketListing, Listed } from "./shapes.ts";

/** The buckets that a filter found, and the way they were found. With a `cursor` there may be more. */
export interface Found {
  readonly by: "all" | "exact" | "part" | "shortest";
  readonly items: readonly BucketListing[];
  readonly cursor?: string;
  /** The number of buckets that were searched. */
  readonly searched: number;
  /** There are more buckets than can be searched. */
  readonly isCut?: boolean;
}

/** By name, or those first that have the least left of their capacity. */
export type Order = "name" | "shortest";

export const PAGE_SIZE = 100;
const SCAN_SIZE = 1_000;
/** The shortest are found among this many buckets. */
const SHORTEST_OF = 5_000;

interface Search {
  readonly filter: string;
  readonly cursor: string | undefined;
  /** Search for a part of the names, even if one matches exactly. */
  readonly byPart: boolean;
  readonly order: Order;
}

/**
 * The service finds an entity or a resource by its exact name. Where there is none of that name, buckets are read a thousand
 * at a time and those are kept whose names contain the filter.
 */
export async function findBuckets(api: Api, path: string, search: Search, signal: AbortSignal): Promise<Found> {
  const { filter, cursor, byPart } = search;
  const list = (query: Query) => api.get<Listed<BucketListing>>(`${path}/buckets`, query, signal);
  if (search.order === "shortest") return shortest(api, path, filter);
  const words = wordsOf(filter);
  if (words.length === 0) return { by: "all", searched: 0, ...(await list({ limit: PAGE_SIZE, cursor })) };
  if (!byPart) {
    for (const query of exactQueries(words)) {
      const found = await list({ ...query, limit: PAGE_SIZE, cursor }).catch(unlessInvalid);
      if (found !== undefined && found.items.length > 0) return { by: "exact", searched: 0, ...found };
    }
  }
  const { items, cursor: next } = await list({ limit: SCAN_SIZE, cursor });
  const found = items.filter((item) => matches(item, filter));
  return { by: "part", items: found, searched: items.length, ...(next === undefined ? {} : { cursor: next }) };
}

async function shortest(api: Api, path: string, filter: string): Promise<Found> {
  const { items, more } = await api.all<BucketListing>(`${path}/buckets`, {}, SHORTEST_OF);
  const found = shortestFirst(items.filter((item) => matches(item, filter)));
  return { by: "shortest", items: found.slice(0, PAGE_SIZE), searched: items.length, isCut: more };
}

function exactQueries([first, second, ...others]: readonly string[]): Query[] {
  if (others.length > 0) return [];
  return second === undefined ? [{ entityId: first }, { resource: first }] : [{ entityId: first, resource: second }];
}

/** A text that is no valid name matches no bucket exactly. */
function unlessInvalid(error: unknown): undefined {
  if (error instanceof ApiError && (error.status === 400 || error.status === 404)) return undefined;
  throw error;
}
