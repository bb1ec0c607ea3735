import { UsageError } from "./exit-code.ts";

const UNITS_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** An instant as options give it, in ms: ISO 8601 (without a zone: UTC), or a duration: so long ago. */
export function instantOf(text: string, option: string, nowMs: number): number {
  const [, count, unit] = /^(\d+)(ms|s|m|h|d)$/.exec(text) ?? [];
  if (count !== undefined && unit !== undefined) return nowMs - Number(count) * (UNITS_MS[unit] ?? 0);
  const isDate = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?$/.test(text);
  // A date alone is UTC already; one with a time is local unless it says otherwise.
  const zoned = /T/.test(text) && !/(Z|[+-]\d\d:?\d\d)$/.test(text) ? `${text}Z` : text;
  const atMs = isDate ? Date.parse(zoned) : Number.NaN;
  if (!Number.isNaN(atMs)) return atMs;
  throw new UsageError(`${option} is "${text}"; give an instant such as 2026-03-01, or a duration such as 7d.`);
}
