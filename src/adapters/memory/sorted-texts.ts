/** By code units, as the other stores do. */
export function compareTexts(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** The index of the first key after this one. */
export function placeAfter<Key>(keys: readonly Key[], key: Key, compare: (a: Key, b: Key) => number): number {
  let from = 0;
  let to = keys.length;
  while (from < to) {
    const middle = (from + to) >> 1;
    if (compare(keys[middle] as Key, key) <= 0) from = middle + 1;
    else to = middle;
  }
  return from;
}
