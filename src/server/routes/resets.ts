import { cronOfReset, cronProblem } from "../../domain/limits/reset-names.ts";
import { TZ_DEFAULT } from "../../domain/limits/schedule.ts";
import type { Limiter } from "../../engine/limiter/limiter.ts";
import { partsOf } from "../../engine/limiter/limiter-parts.ts";

const SHOWN = 3;

/** When a quota with such a reset would be full again. What is wrong with it is an answer, too: whoever types is not done yet. */
export function nextResets(
  limiter: Limiter,
  { cron: given, tz = TZ_DEFAULT }: { readonly cron: string; readonly tz?: string | undefined },
) {
  const { calendar, clock } = partsOf(limiter).deps;
  const cron = cronOfReset(given);
  const problem = cronProblem({ cron, tz }, "reset", calendar);
  if (problem !== undefined) return { cron, tz, problem, nextMs: [] };
  const nextMs: number[] = [];
  let atMs = clock.now();
  while (nextMs.length < SHOWN) {
    atMs = calendar.nextReset(cron, tz, atMs);
    if (!Number.isFinite(atMs)) break;
    nextMs.push(atMs);
  }
  return { cron, tz, nextMs };
}
