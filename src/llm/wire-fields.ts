// Providers and servers that imitate them send anything. A field of the wrong type counts as missing.

export type Params = Readonly<Record<string, unknown>>;

export function isRecord(value: unknown): value is Params {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function fieldOf(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? (value as Params)[name] : undefined;
}

export function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** A whole number that is not negative. */
export function wholeOf(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : undefined;
}

/** Subtracts parts from a total, at least to 0: some providers report parts that exceed it. */
export function less(total: number, parts: number): number {
  return Math.max(0, total - parts);
}

export function choicesOf(data: unknown): readonly unknown[] {
  const choices = fieldOf(data, "choices");
  return Array.isArray(choices) ? choices : [];
}

/** True for a provider that refuses one caller (429), or all of them (529 of Anthropic). */
export function isThrottled(status: number | undefined): boolean {
  return status === 429 || status === 529;
}

/**
 * Reads how long a provider wants to be left alone, in ms: `retry-after-ms`, or `retry-after` in seconds or as a date, which is compared
 * with the date of the answer. Undefined: it does not say.
 */
export function retryAfterMsOf(header: (name: string) => string | null | undefined): number | undefined {
  const ms = numberOf(header("retry-after-ms"));
  if (ms !== undefined) return Math.ceil(ms);
  const told = header("retry-after");
  const seconds = numberOf(told);
  if (seconds !== undefined) return Math.ceil(seconds * 1000);
  const waitMs = Date.parse(told ?? "") - Date.parse(header("date") ?? "");
  return Number.isNaN(waitMs) ? undefined : Math.max(0, waitMs);
}

function numberOf(text: string | null | undefined): number | undefined {
  if (text === null || text === undefined || !/^\s*\d+(\.\d+)?\s*$/.test(text)) return undefined;
  return Number(text);
}
