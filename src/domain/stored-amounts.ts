import type { Amount } from "./amounts.ts";

/** The amounts that a record of an operation says, as JSON; undefined where it says none. */
export function amountsOfText(text: unknown): readonly Amount[] | undefined {
  if (typeof text !== "string") return undefined;
  try {
    const found: unknown = JSON.parse(text);
    return Array.isArray(found) && found.every(isAmount) ? found : undefined;
  } catch {
    return undefined;
  }
}

function isAmount(value: unknown): value is Amount {
  if (typeof value !== "object" || value === null) return false;
  const { limit, milli } = value as Partial<Amount>;
  return typeof limit === "string" && Number.isSafeInteger(milli);
}
