/** A number as the decimal that it is written as: `units` / 10^`scale`. So 0.1 is a tenth, which no float is. */
export interface Decimal {
  readonly units: bigint;
  readonly scale: number;
}

/** The decimal of a finite number that is not negative: the shortest one that reads back as the number, which is how it was written. */
export function decimalOf(value: number): Decimal {
  const [digits = "", exponent = "0"] = String(value).split("e");
  const [whole = "", fraction = ""] = digits.split(".");
  const scale = fraction.length - Number(exponent);
  const units = BigInt(whole + fraction);
  return scale < 0 ? { units: units * 10n ** BigInt(-scale), scale: 0 } : { units, scale };
}

/** The decimal in units of 10^-`scale`, which is not coarser than its own. */
export function wholeUnits({ units, scale: own }: Decimal, scale: number): bigint {
  return units * 10n ** BigInt(scale - own);
}

/** The decimal times a power of ten, as the number that it is written as: the point is moved, nothing is multiplied. */
export function timesTenTo({ units, scale }: Decimal, power: number): number {
  return Number(`${units}e${power - scale}`);
}

/** A product that goes into a sum. */
interface Term {
  readonly weight: Decimal;
  /** A whole number, not negative. */
  readonly count: number;
}

/** The sum of products, exact, rounded up once at its end. */
export function sumRoundedUp(terms: readonly Term[]): number {
  const scale = terms.reduce((most, { weight }) => Math.max(most, weight.scale), 0);
  const units = terms.reduce((sum, { weight, count }) => sum + wholeUnits(weight, scale) * BigInt(count), 0n);
  const one = 10n ** BigInt(scale);
  return Number((units + one - 1n) / one);
}
