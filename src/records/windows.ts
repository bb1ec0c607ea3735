import { type UsageWindow, windowEndMs, windowStartMs } from "../domain/charge/usage.ts";
import type { CountStore, Span, Sum, SumQuery } from "../ports/record-store.ts";

/** How many windows are asked about at once: what a page does not show is added up in vain. */
const WINDOWS_AT_ONCE: Readonly<Record<UsageWindow, number>> = { hourly: 48, daily: 4, monthly: 1 };
/** Questions for one page: where there is little in many windows, the rest is left to the next page. */
const QUESTIONS_MAX = 50;

interface WindowQuery extends Omit<SumQuery, "spans" | "after"> {
  readonly window: UsageWindow;
  readonly fromMs: number;
  readonly toMs: number;
  /** The window that the page begins in, and the key in it that it begins after. */
  readonly after: { readonly startMs: number; readonly key: readonly string[] } | undefined;
}

/** `nextMs`: where to go on, if it was not looked at all there is. */
interface WalkedSums {
  readonly sums: readonly Sum[];
  readonly nextMs: number | undefined;
}

/** What was counted in windows that start in [fromMs, toMs), in order, up to so many sums. Windows that have nothing are stepped over. */
export async function sumsOf(
  counts: CountStore,
  scope: string,
  { window, fromMs, toMs, after, ...asked }: WindowQuery,
): Promise<WalkedSums> {
  const sums: Sum[] = [];
  let startMs = after?.startMs ?? firstWindowMs(window, fromMs);
  let key = after?.key;
  for (let questions = 0; startMs < toMs; questions++) {
    if (questions === QUESTIONS_MAX) return { sums, nextMs: startMs };
    const spans = spansFrom(window, startMs, toMs);
    const limitMax = asked.limitMax - sums.length;
    const found = await counts.sums(scope, { ...asked, spans, after: key, limitMax });
    sums.push(...found.sums);
    if (found.nextHourMs === undefined || sums.length >= asked.limitMax) break;
    startMs = windowStartMs(window, found.nextHourMs);
    key = undefined;
  }
  return { sums, nextMs: undefined };
}

/** A window that began before is not asked for. */
function firstWindowMs(window: UsageWindow, fromMs: number): number {
  const startMs = windowStartMs(window, fromMs);
  return startMs === fromMs ? startMs : windowEndMs(window, startMs);
}

function spansFrom(window: UsageWindow, fromMs: number, toMs: number): readonly Span[] {
  const spans: Span[] = [];
  for (let startMs = fromMs; startMs < toMs && spans.length < WINDOWS_AT_ONCE[window]; ) {
    const endMs = windowEndMs(window, startMs);
    spans.push({ startMs, endMs });
    startMs = endMs;
  }
  return spans;
}
