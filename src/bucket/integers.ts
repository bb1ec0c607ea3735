/** Floor of a / b, also for negative a; b > 0. `Math.trunc` would round a debt towards zero and mint a token. */
export function divFloor(a: number, b: number): number {
  return Math.floor(a / b);
}

/** Ceiling of a / b, also for negative a; b > 0. */
export function divCeil(a: number, b: number): number {
  return 0 - Math.floor(-a / b);
}

/**
 * min(ceiling, base + floor((a * b + carry) / d)), exact for all safe integers with a, b, carry >= 0 and d > 0, and
 * base and ceiling of any sign.
 *
 * Three ways, cheapest first: the product fits in 2^53; it does not, but it does once whole multiples of d are taken out
 * of a; neither, then BigInt. The sum may pass 2^53 only where the ceiling, itself safe, cuts it off.
 */
export function addMulDiv(base: number, a: number, b: number, carry: number, d: number, ceiling: number): number {
  const product = a * b + carry;
  if (product <= Number.MAX_SAFE_INTEGER) return Math.min(ceiling, base + Math.floor(product / d));
  const whole = Math.floor(a / d);
  const rest = (a - whole * d) * b + carry;
  const grown = whole * b;
  if (rest <= Number.MAX_SAFE_INTEGER && grown <= Number.MAX_SAFE_INTEGER) {
    return Math.min(ceiling, base + grown + Math.floor(rest / d));
  }
  const exact = BigInt(base) + (BigInt(a) * BigInt(b) + BigInt(carry)) / BigInt(d);
  return exact >= BigInt(ceiling) ? ceiling : Number(exact);
}

/** (a * b + carry) mod d, exact for non-negative safe integers, d > 0. */
export function mulMod(a: number, b: number, carry: number, d: number): number {
  const product = a * b + carry;
  if (product <= Number.MAX_SAFE_INTEGER) return product % d;
  const rest = (a % d) * b + carry;
  if (rest <= Number.MAX_SAFE_INTEGER) return rest % d;
  return Number((BigInt(a) * BigInt(b) + BigInt(carry)) % BigInt(d));
}

/** ceil((a * b - carry) / d), exact, `Infinity` above the safe integers; a, b >= 0, 0 <= carry <= a * b, d > 0. */
export function mulDivCeil(a: number, b: number, carry: number, d: number): number {
  const product = a * b;
  // The product alone must be exact: taking the carry off a rounded one can land below 2^53 again, a unit wrong.
  if (product <= Number.MAX_SAFE_INTEGER) return divCeil(product - carry, d);
  // This splits as `addMulDiv` does. The part that is taken out is a whole number, so only the rest is rounded; less the carry it may be
  // negative.
  const whole = Math.floor(a / d);
  const rest = (a - whole * d) * b;
  const grown = whole * b;
  if (rest <= Number.MAX_SAFE_INTEGER && grown <= Number.MAX_SAFE_INTEGER) {
    const sum = grown + divCeil(rest - carry, d);
    if (sum <= Number.MAX_SAFE_INTEGER) return sum;
  }
  return ceilOf(BigInt(a) * BigInt(b) - BigInt(carry), d);
}

/** ceil(((to - from) * b - carry) / d): `mulDivCeil` of a difference of two safe integers that need not be safe itself. */
export function gapMulDivCeil(to: number, from: number, b: number, carry: number, d: number): number {
  const gap = to - from;
  if (gap <= Number.MAX_SAFE_INTEGER) return mulDivCeil(gap, b, carry, d);
  return ceilOf((BigInt(to) - BigInt(from)) * BigInt(b) - BigInt(carry), d);
}

function ceilOf(numerator: bigint, d: number): number {
  const exact = (numerator + BigInt(d) - 1n) / BigInt(d);
  return exact > BigInt(Number.MAX_SAFE_INTEGER) ? Number.POSITIVE_INFINITY : Number(exact);
}

/**
 * A sum of millitokens, exact however large: a number while it is a safe integer, a bigint beyond. Usage of an hour has no other
 * bound: a soft limit and a bypass let everything through.
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
  // Divide first: as a number of millitokens it would be rounded.
  return Number(milli / 1000n) + Number(milli % 1000n) / 1000;
}

/** Reads a decimal text; undefined if it is not one. */
export function countOfText(text: string): Count | undefined {
  return /^-?\d{1,60}$/.test(text) ? exactCount(BigInt(text)) : undefined;
}
