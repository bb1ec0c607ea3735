/** Decimals of a dollar that are whole micro-dollars. */
export const DECIMALS = 6;

/** Whether a limit of this name counts micro-dollars: one that is called `usd`, or ends in `_usd`. */
export function isMoney(limit: string): boolean {
  return limit === "usd" || limit.endsWith("_usd");
}

/** An amount of a limit as people read it: dollars where its name says so, else what `plainly` makes of the tokens. */
export function amountShown(limit: string, tokens: number, plainly: (tokens: number) => string): string {
  return isMoney(limit) && Number.isSafeInteger(tokens) ? dollarsText(tokens) : plainly(tokens);
}

/** Whole micro-dollars as dollars, with two decimals or as many as it needs. */
export function dollarsText(micro: number): string {
  const digits = String(Math.abs(micro)).padStart(DECIMALS + 1, "0");
  const decimals = digits.slice(-DECIMALS).replace(/0{1,4}$/, "");
  return `${micro < 0 ? "-" : ""}$${digits.slice(0, -DECIMALS)}.${decimals}`;
}
