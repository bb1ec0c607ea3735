import type { BucketListing } from "./shapes.ts";

/** A bucket as it was read at an instant of this page's own clock. */
export interface BucketRow extends BucketListing {
  readonly key: string;
  readonly readAtMs: number;
}

export function keyOf({ entityId, resource }: Pick<BucketListing, "entityId" | "resource">): string {
  // Neither can contain a space.
  return `${entityId} ${resource}`;
}

export function rowOf({ entityId, resource, limits }: BucketListing, readAtMs: number): BucketRow {
  return { entityId, resource, limits, readAtMs, key: keyOf({ entityId, resource }) };
}

/** A list that was read again: who was there keeps the place, who is new stands at the end, so that nothing jumps. */
export function reread(rows: readonly BucketRow[], items: readonly BucketListing[], readAtMs: number): BucketRow[] {
  const left = new Map(items.map((item) => [keyOf(item), rowOf(item, readAtMs)]));
  const kept = rows.flatMap(({ key }) => {
    const row = left.get(key);
    left.delete(key);
    return row === undefined ? [] : [row];
  });
  return [...kept, ...left.values()];
}

/** One bucket changed. Undefined: it is not in the list. */
export function corrected(rows: readonly BucketRow[], item: BucketListing, readAtMs: number): BucketRow[] | undefined {
  const key = keyOf(item);
  const index = rows.findIndex((row) => row.key === key);
  return index === -1 ? undefined : rows.with(index, rowOf(item, readAtMs));
}

/**
 * What was read of buckets on the way, without the list: rows of which every limit was read take it over. Of a parent only those limits
 * are read that a request from below takes of; a row keeps one time for all of its limits.
 */
export function alsoRead(
  rows: readonly BucketRow[],
  items: readonly BucketListing[],
  readAtMs: number,
): readonly BucketRow[] {
  return items.reduce((now: readonly BucketRow[], item) => {
    const row = now.find(({ key }) => key === keyOf(item));
    if (row === undefined) return now;
    const limits = row.limits.map(({ limit }) => item.limits.find((each) => each.limit === limit));
    if (limits.includes(undefined)) return now;
    return corrected(now, { ...item, limits: limits as BucketListing["limits"] }, readAtMs) ?? now;
  }, rows);
}

/** Whether a bucket that is not in the list belongs between its rows: lists are by entity, then by resource. */
export function isBetween(rows: readonly BucketRow[], item: BucketListing, isFirstPage: boolean): boolean {
  const [first, last] = [rows[0], rows.at(-1)];
  if (first === undefined || last === undefined) return false;
  return (isFirstPage || isBefore(first, item)) && isBefore(item, last);
}

function isBefore(
  one: Pick<BucketListing, "entityId" | "resource">,
  other: Pick<BucketListing, "entityId" | "resource">,
): boolean {
  return one.entityId === other.entityId ? one.resource < other.resource : one.entityId < other.entityId;
}

/** Whether every word of the filter is in the entity's id or the resource. */
export function matches({ entityId, resource }: Pick<BucketListing, "entityId" | "resource">, filter: string): boolean {
  const name = `${entityId} ${resource}`.toLowerCase();
  return wordsOf(filter).every((word) => name.includes(word.toLowerCase()));
}

export function wordsOf(filter: string): string[] {
  return filter.split(/\s+/).filter((word) => word !== "");
}

/** Those first of which the least part is left in a limit that refuses; who owes most leads. */
export function shortestFirst<Item extends BucketListing>(items: readonly Item[]): Item[] {
  const left = new Map(items.map((item) => [item, leftOf(item)]));
  return items.toSorted((a, b) => (left.get(a) as number) - (left.get(b) as number) || (isBefore(a, b) ? -1 : 1));
}

function leftOf({ limits }: BucketListing): number {
  const hard = limits.filter(({ soft, shadow }) => !soft && !shadow);
  return Math.min(
    ...hard.map(({ available, capacity }) => (capacity === 0 ? 0 : available / capacity)),
    Number.MAX_VALUE,
  );
}
