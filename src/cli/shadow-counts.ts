import { HOUR_MS, hourOf } from "../domain/charge/usage.ts";
import { TOTAL_RESOURCE } from "../domain/config/totals.ts";
import { LimiterError } from "../domain/names/errors.ts";
import type { LevelExplanation } from "../entry/index.ts";
import type { CommandLimiter } from "./command-limiter.ts";

/** What the shadows of a chain would have refused in this hour, a line each: `tpm of key-1: shadow, would have refused 12 of 340 this hour`. */
export async function shadowLines(
  limiter: Pick<CommandLimiter, "usageSummary">,
  levels: readonly LevelExplanation[],
  resource: string,
  nowMs: number,
): Promise<string> {
  const lines: string[] = [];
  for (const { entityId, limits, totals } of levels) {
    for (const [on, some] of [[resource, limits] as const, [TOTAL_RESOURCE, totals] as const]) {
      const shadows = some.filter(({ shadow }) => shadow);
      if (shadows.length === 0) continue;
      const counted = await countsOf(limiter, { entityId, resource: on }, nowMs);
      for (const { limit } of shadows) {
        const name = on === TOTAL_RESOURCE ? `*/${limit}` : limit;
        const told =
          counted === undefined
            ? "refuses nothing"
            : `would have refused ${counted.wouldRefuse[limit] ?? 0} of ${counted.requests} this hour`;
        lines.push(`${name} of ${entityId}  shadow  ${told}\n`);
      }
    }
  }
  return lines.join("");
}

/** Undefined where no usage is kept. */
async function countsOf(
  limiter: Pick<CommandLimiter, "usageSummary">,
  of: { readonly entityId: string; readonly resource: string },
  nowMs: number,
) {
  const fromMs = hourOf(nowMs);
  try {
    return await limiter.usageSummary({ ...of, window: "hourly", fromMs, toMs: fromMs + HOUR_MS });
  } catch (error) {
    if (error instanceof LimiterError && error.code === "usage_not_kept") return undefined;
    throw error;
  }
}
