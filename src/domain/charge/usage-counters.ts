/** What usage counts of each limit: a field of a snapshot. */
export type UsageCounter = "counters" | "overdrafts" | "bypassed" | "wouldRefuse" | "heldMs";

/** The counts of some windows, by what they count and then by limit. */
export type UsageCounts = Readonly<Record<UsageCounter, Readonly<Record<string, number>>>>;

/**
 * Everything that is counted by limit, in the order in which it is shown. Stores, exports and sums walk through this table; what
 * else is to be counted is one row more, and its attributes (`protocol/item/attributes.ts`). All counts are stored in thousandths:
 * tokens as millitokens, requests as 1000 each, held time as thousandths of a slot times milliseconds.
 */
const ROWS: readonly { readonly counter: UsageCounter; readonly mark: string }[] = [
  { counter: "counters", mark: "" },
  { counter: "overdrafts", mark: "od" },
  { counter: "bypassed", mark: "by" },
  { counter: "wouldRefuse", mark: "wr" },
  { counter: "heldMs", mark: "hu" },
];

export const USAGE_COUNTERS: readonly UsageCounter[] = ROWS.map(({ counter }) => counter);

/** The name under which stores keep one of a limit's counts: tokens by the limit's own; `#` cannot stand in a limit's name. */
export function countName(counter: UsageCounter, limit: string): string {
  const mark = MARKS[counter];
  return mark === "" ? limit : `${limit}#${mark}`;
}

/** Something of each counter. */
export function perCounter<T>(of: (counter: UsageCounter) => T): Record<UsageCounter, T> {
  return Object.fromEntries(USAGE_COUNTERS.map((counter) => [counter, of(counter)])) as Record<UsageCounter, T>;
}

/** Counts as stores keep them, by what they count. */
export function countersOf(counted: Iterable<readonly [name: string, count: number]>): UsageCounts {
  const sums = perCounter(() => new Map<string, number>());
  for (const [name, count] of counted) {
    const [limit = name, mark = ""] = name.split("#");
    addTo(sums[BY_MARK.get(mark) ?? "counters"], [[limit, count]]);
  }
  return perCounter((counter) => Object.fromEntries(sums[counter]));
}

// A limit may be called "constructor": sums are kept in maps, which have no inherited names.
export function addTo(sums: Map<string, number>, counts: Iterable<readonly [string, number]>): void {
  for (const [limit, count] of counts) sums.set(limit, (sums.get(limit) ?? 0) + count);
}

const MARKS = Object.fromEntries(ROWS.map(({ counter, mark }) => [counter, mark])) as Record<UsageCounter, string>;
const BY_MARK: ReadonlyMap<string, UsageCounter> = new Map(ROWS.map(({ counter, mark }) => [mark, counter]));
