/** An instant as records have it: UTC, to the millisecond where there are any. */
export function instantText(atMs: number): string {
  return new Date(atMs).toISOString().replace(".000Z", "Z");
}

/** The instant that a record says; 0 where it cannot be read. */
export function instantOf(text: string | undefined): number {
  // Python's isoformat says +00:00 or nothing where we say Z, and goes on to microseconds.
  const atMs = Date.parse(text === undefined || /(Z|[+-]\d\d:?\d\d)$/.test(text) ? (text ?? "") : `${text}Z`);
  return Number.isNaN(atMs) ? 0 : atMs;
}
