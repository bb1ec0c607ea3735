export const FACTORS: Readonly<Record<string, number>> = { k: 1_000, M: 1_000_000, G: 1_000_000_000 };

/** Whole tokens as people write them: digits, `_` between them, then at most one of k, M and G. Undefined: it is none. */
export function amountOfText(text: string): number | undefined {
  const match = /^(\d+(?:_\d+)*)([kMG]?)$/.exec(text);
  if (match === null) return undefined;
  return Number((match[1] as string).replaceAll("_", "")) * (FACTORS[match[2] as string] ?? 1);
}

/** With k or M where that is shorter to read. */
export function amountText(amount: number): string {
  if (amount >= 1_000_000 && amount % 1_000_000 === 0) return `${amount / 1_000_000}M`;
  return amount >= 10_000 && amount % 1_000 === 0 ? `${amount / 1_000}k` : String(amount);
}
