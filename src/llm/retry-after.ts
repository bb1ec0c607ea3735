/**
 * When a provider wants to be asked again, in ms, by `retry-after-ms` or `retry-after` (seconds, or a date beside the answer's
 * own). Undefined: it does not say.
 */
export function retryAfterMsOf(header: (name: string) => string | null | undefined): number | undefined {
  const ms = numberOf(header("retry-after-ms"));
  if (ms !== undefined) return Math.ceil(ms);
  const told = header("retry-after");
  const seconds = numberOf(told);
  if (seconds !== undefined) return Math.ceil(seconds * 1000);
  // By the provider's own clock.
  const waitMs = Date.parse(told ?? "") - Date.parse(header("date") ?? "");
  return Number.isNaN(waitMs) ? undefined : Math.max(0, waitMs);
}

function numberOf(text: string | null | undefined): number | undefined {
  if (text === null || text === undefined || !/^\s*\d+(\.\d+)?\s*$/.test(text)) return undefined;
  return Number(text);
}
