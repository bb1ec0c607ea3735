const UNITS: readonly (readonly [ms: number, name: string])[] = [
  [86_400_000, "day"],
  [3_600_000, "hour"],
  [60_000, "minute"],
  [1_000, "second"],
];

/**
 * A wait as people say it, in its two largest units: `14 days`, `14 days 19 hours`, `1 minute 5 seconds`. Rounded up to the smaller one,
 * so that nobody comes too early.
 */
export function waitWords(ms: number): string {
  const at = Math.max(
    0,
    UNITS.findIndex(([unitMs]) => ms >= unitMs),
  );
  const largest = ms < 1_000 ? UNITS.length - 1 : at;
  const [unitMs] = UNITS[largest] as (typeof UNITS)[number];
  const [smallMs] = (UNITS[largest + 1] ?? UNITS[largest]) as (typeof UNITS)[number];
  const roundedMs = Math.ceil(ms / smallMs) * smallMs;
  // 59 minutes and a half second are 60 minutes, which is an hour.
  const next = UNITS[largest - 1]?.[0];
  if (next !== undefined && roundedMs >= next) return waitWords(next);
  const whole = Math.floor(roundedMs / unitMs);
  const rest = Math.round((roundedMs - whole * unitMs) / smallMs);
  const first = counted(whole, UNITS[largest]?.[1] ?? "");
  return rest === 0 ? first : `${first} ${counted(rest, UNITS[largest + 1]?.[1] ?? "")}`;
}

function counted(count: number, name: string): string {
  return `${count} ${name}${count === 1 ? "" : "s"}`;
}
