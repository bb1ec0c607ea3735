import { wholeOf } from "../../domain/bucket/bucket-state.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { ListedBucket } from "../../ports/bucket-store.ts";
import type { ProtocolContext } from "../context.ts";
import { TTL } from "../item/attributes.ts";
import { readWhole, withoutDeadline } from "../shards/whole.ts";

/** The buckets of a resource, by entity id, each as a whole. */
export async function bucketsOn(
  context: ProtocolContext,
  resource: string,
  page: PageRequest,
): Promise<Page<ListedBucket>> {
  const { items: keys, ...rest } = await context.items.listBuckets(resource, page);
  const wholes = await readWhole(context, keys, withoutDeadline(context.clock.now()));
  const { calendar, dialect } = context.env;
  const items = wholes.flatMap(({ cache: { key }, images }): ListedBucket[] => {
    if (images.length === 0) return [];
    const states = images.map(({ state }) => state);
    const expires = dialect.countsByHour && images.every(({ item }) => TTL in item);
    return [{ key, state: wholeOf(states, calendar), ...(expires ? { expires } : {}) }];
  });
  return { ...rest, items };
}
