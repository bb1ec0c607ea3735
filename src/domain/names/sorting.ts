/** The keys that are collected and sorted in one turn; a list that has fewer is sorted at once. */
const KEYS_PER_RUN = 2_048;
/** The keys that are merged in one turn. */
const KEYS_PER_MERGE = 8_192;

/** The keys in order. Of a long list a part in each turn, so that takes, timers and signals have theirs in between. */
export function sortedByTurns<Key>(
  keys: Iterable<Key>,
  compare: (a: Key, b: Key) => number,
  nextTurn: () => Promise<void>,
): readonly Key[] | Promise<readonly Key[]> {
  const from = keys[Symbol.iterator]();
  const first = runOf(from, compare);
  return first.length < KEYS_PER_RUN ? first : sortedRuns(first, from, compare, nextTurn);
}

async function sortedRuns<Key>(
  first: Key[],
  from: Iterator<Key>,
  compare: (a: Key, b: Key) => number,
  nextTurn: () => Promise<void>,
): Promise<readonly Key[]> {
  let runs = [first];
  for (let run = first; run.length === KEYS_PER_RUN; ) {
    await nextTurn();
    run = runOf(from, compare);
    runs.push(run);
  }
  while (runs.length > 1) {
    const merged: Key[][] = [];
    for (let i = 0; i < runs.length; i += 2) {
      const [one, other] = [runs[i] as Key[], runs[i + 1]];
      merged.push(other === undefined ? one : await mergedOf(one, other, compare, nextTurn));
    }
    runs = merged;
  }
  return runs[0] as Key[];
}

function runOf<Key>(from: Iterator<Key>, compare: (a: Key, b: Key) => number): Key[] {
  const run: Key[] = [];
  while (run.length < KEYS_PER_RUN) {
    const { value, done } = from.next();
    if (done) break;
    run.push(value);
  }
  return run.sort(compare);
}

async function mergedOf<Key>(
  a: readonly Key[],
  b: readonly Key[],
  compare: (a: Key, b: Key) => number,
  nextTurn: () => Promise<void>,
): Promise<Key[]> {
  const merged: Key[] = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    const isFirst = j >= b.length || (i < a.length && compare(a[i] as Key, b[j] as Key) <= 0);
    merged.push((isFirst ? a[i++] : b[j++]) as Key);
    if (merged.length % KEYS_PER_MERGE === 0) await nextTurn();
  }
  return merged;
}
