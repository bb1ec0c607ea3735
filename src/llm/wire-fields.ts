// What providers and their imitations send is not to be trusted: each field is what it should be, or it is missing.

export type Params = Readonly<Record<string, unknown>>;

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

/** What is left of a total without its parts; some providers report parts that exceed it. */
export function less(total: number, parts: number): number {
  return Math.max(0, total - parts);
}

export function choicesOf(data: unknown): readonly unknown[] {
  const choices = fieldOf(data, "choices");
  return Array.isArray(choices) ? choices : [];
}
