/**
 * A sum of millitokens, exact however large: a number while it is a safe integer, a bigint beyond. Of what was used in an hour
 * there is no bound but this: a soft limit and a bypass let through whatever is asked for.
 */
export type Count = number | bigint;

function exactCount(value: bigint): Count {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

export function plus(a: Count, b: Count): Count {
  if (typeof a === "number" && typeof b === "number") {
    const sum = a + b;
    if (Number.isSafeInteger(sum)) return sum;
  }
  return exactCount(BigInt(a) + BigInt(b));
}

/** The product of two safe integers. */
export function times(a: number, b: number): Count {
  const product = a * b;
  return Number.isSafeInteger(product) ? product : exactCount(BigInt(a) * BigInt(b));
}

export function minus(count: Count): Count {
  return count === 0 ? 0 : -count;
}

/** The count in tokens, exact up to 2^53 - 1 whole ones; beyond that the nearest number. */
export function tokensOfCount(milli: Count): number {
  if (typeof milli === "number") return milli / 1000;
  // Divided first: as a number of millitokens it would be rounded.
  return Number(milli / 1000n) + Number(milli % 1000n) / 1000;
}

/** The count that a decimal text says; undefined where it says none. */
export function countOfText(text: string): Count | undefined {
  return /^-?\d{1,60}$/.test(text) ? exactCount(BigInt(text)) : undefined;
}
