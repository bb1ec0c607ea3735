import type { StoredConfig } from "../domain/config/config.ts";
import type { ShownConfig } from "../domain/config/overrides.ts";
import { given } from "../domain/names/given.ts";
import type { OptionRow } from "./command.ts";
import { UsageError } from "./exit-code.ts";
import { durationMs, instantMs } from "./values.ts";

/** Options of a command whose setting may have an end. */
export const END_OPTIONS = [
  ["--for <duration>", "only for so long, such as 15m or 1d; then what was set before counts again"],
  ["--until <instant>", "only until then: ISO 8601, such as 2026-11-18T15:00Z"],
] as const satisfies readonly OptionRow[];

/** The end that the options name; nothing where they name none. */
export function endOf(
  { for: length, until }: { readonly for?: string; readonly until?: string },
  nowMs: number,
): { readonly untilMs?: number } {
  if (length !== undefined && until !== undefined) {
    throw new UsageError(`--for ${length} and --until ${until} both name the end; give one of them.`);
  }
  if (length !== undefined) return { untilMs: nowMs + durationMs(length, "--for") };
  if (until === undefined) return {};
  if (/^[\d.]+[a-z]+$/i.test(until)) {
    throw new UsageError(`--until is "${until}", a duration; give --for ${until}, or an instant.`);
  }
  return { untilMs: instantMs(until, "--until", nowMs) };
}

/** `2026-11-18 15:00 UTC`; of the same day `15:00 UTC`. Seconds stand where there are any. */
export function endText(untilMs: number, nowMs = Date.now()): string {
  const [iso, today] = [untilMs, nowMs].map((ms) => new Date(ms).toISOString()) as [string, string];
  const time = iso.slice(11, untilMs % 60_000 === 0 ? 16 : 19);
  return `${iso.slice(0, 10) === today.slice(0, 10) ? "" : `${iso.slice(0, 10)} `}${time} UTC`;
}

/** Turns a configuration as it is shown into one as it is stored: limits that have an end stand beside those that they hide. */
export function storedOf({ untilMs, then, accessUntilMs: _, accessThen: __, ...shown }: ShownConfig): StoredConfig {
  if (untilMs === undefined) return shown;
  const { limits, inherit, appliesTo, ...policy } = shown;
  const override = { fromMs: 0, untilMs, limits, ...given({ inherit, appliesTo }) };
  return { ...policy, ...(then ?? { limits: [] }), override };
}
