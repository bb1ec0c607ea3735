import type { Amount } from "../charge/amounts.ts";

/** What a record of an operation says. */
export interface Operated {
  /** What was asked. Absent: nobody compares it. */
  readonly asks?: string | undefined;
  /** What each limit gained. */
  readonly amounts: readonly Amount[];
}

/** The text of a record of an operation. */
export function operatedText({ asks, amounts }: Operated): string {
  return JSON.stringify(asks === undefined ? amounts : { asks, amounts });
}

/** What is remembered of an operation. */
export function operated(amounts: readonly Amount[], asks: string | undefined): Operated {
  return asks === undefined ? { amounts } : { asks, amounts };
}

/** What the text of a record of an operation says; undefined where it says nothing. */
export function operatedOfText(text: unknown): Operated | undefined {
  if (typeof text !== "string") return undefined;
  try {
    const found: unknown = JSON.parse(text);
    const { asks, amounts } = (Array.isArray(found) ? { amounts: found } : found) as Partial<Operated>;
    const isText = asks === undefined || typeof asks === "string";
    return isText && Array.isArray(amounts) && amounts.every(isAmount) ? operated(amounts, asks) : undefined;
  } catch {
    return undefined;
  }
}

function isAmount(value: unknown): value is Amount {
  if (typeof value !== "object" || value === null) return false;
  const { limit, milli } = value as Partial<Amount>;
  return typeof limit === "string" && Number.isSafeInteger(milli);
}
