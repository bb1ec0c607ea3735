import type { BucketListing, BucketName } from "./shapes.ts";

/** A bucket as it was read at an instant of this page's own clock. */
export interface BucketRow extends BucketListing {
  readonly key: string;
  readonly readAtMs: number;
}

export function keyOf({ entityId, resource }: BucketName): string {
  // Neither can contain a space.
  return `${entityId} ${resource}`;
}

export function rowOf({ entityId, resource, limits }: BucketListing, readAtMs: number): BucketRow {
  return { entityId, resource, limits, readAtMs, key: keyOf({ entityId, resource }) };
}

/** Updates rows by a list that was read again. Rows keep their places and new ones come last, so that nothing jumps. */
export function reread(rows: readonly BucketRow[], items: readonly BucketListing[], readAtMs: number): BucketRow[] {
  const left = new Map(items.map((item) => [keyOf(item), rowOf(item, readAtMs)]));
  const kept = rows.flatMap(({ key }) => {
    const row = left.get(key);
    left.delete(key);
    return row === undefined ? [] : [row];
  });
  return [...kept, ...left.values()];
}

/** Updates the row of one bucket. Undefined if it has no row. */
export function corrected(rows: readonly BucketRow[], item: BucketListing, readAtMs: number): BucketRow[] | undefined {
  const key = keyOf(item);
  const index = rows.findIndex((row) => row.key === key);
  return index === -1 ? undefined : rows.with(index, rowOf(item, readAtMs));
}

/**
 * Updates rows by buckets that an explanation has read. It reads only those limits of a parent that the request takes from, and a row
 * has one time for all limits, so a row changes only if all of its limits were read.
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

/** True if a bucket without a row belongs between the rows, which are sorted by entity and then by resource. */
export function isBetween(rows: readonly BucketRow[], item: BucketListing, isFirstPage: boolean): boolean {
  const [first, last] = [rows[0], rows.at(-1)];
  if (first === undefined || last === undefined) return false;
  return (isFirstPage || isBefore(first, item)) && isBefore(item, last);
}

function isBefore(one: BucketName, other: BucketName): boolean {
  return one.entityId === other.entityId ? one.resource < other.resource : one.entityId < other.entityId;
}

/** True if every word of the filter is in the entity's id or the resource. */
export function matches({ entityId, resource }: BucketName, filter: string): boolean {
  const name = `${entityId} ${resource}`.toLowerCase();
  return wordsOf(filter).every((word) => name.includes(word.toLowerCase()));
}

export function wordsOf(filter: string): string[] {
  return filter.split(/\s+/).filter((word) => word !== "");
}

/** Sorts by the smallest share that a hard limit has left; the deepest debt comes first. */
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
