/**
 * The shortest list that still fails, found by leaving out more and more of it: halves first, single ones last. What is
 * left fails, and fails no longer when any one of its entries is left out.
 */
export async function shrunk<Entry>(
  entries: readonly Entry[],
  fails: (some: readonly Entry[]) => Promise<boolean>,
): Promise<readonly Entry[]> {
  let left = entries;
  let size = Math.ceil(left.length / 2);
  while (size >= 1 && left.length > 0) {
    let isShorter = false;
    for (let from = 0; from < left.length; ) {
      const without = [...left.slice(0, from), ...left.slice(from + size)];
      if (await fails(without)) {
        left = without;
        isShorter = true;
      } else from += size;
    }
    if (size > 1) size = Math.ceil(size / 2);
    else if (!isShorter) break;
  }
  return left;
}
