export const FACTORS: Readonly<Record<string, number>> = { k: 1_000, M: 1_000_000, G: 1_000_000_000 };

/** Whole tokens as people write them: digits, `_` between them, then at most one of k, M and G. Undefined: it is none. */
export function amountOfText(text: string): number | undefined {
  const match = /^(\d+(?:_\d+)*)([kMG]?)$/.exec(text);
  if (match === null) return undefined;
  return Number((match[1] as string).replaceAll("_", "")) * (FACTORS[match[2] as string] ?? 1);
}
