import type { LimitExplanation } from "../entry/index.ts";
import type { CommandLimiter } from "./command-limiter.ts";

/** One limit of one bucket in one sample. */
export interface WatchedBucket {
  readonly atMs: number;
  readonly entityId: string;
  readonly resource: string;
  readonly limit: string;
  readonly available: number;
  readonly capacity: number;
  /** Since the sample before; 0 at the first. */
  readonly takenPerSecond: number;
  /** A request of one token, or of `-c`, would be refused now. */
  readonly blocked: boolean;
  readonly retryAfterMs: number;
}

export interface WatchSample {
  readonly atMs: number;
  readonly items: readonly WatchedBucket[];
}

/** What every bucket that was asked for holds now. Reads only. */
export async function takeSample(
  limiter: CommandLimiter,
  about: {
    readonly query: { readonly entityId?: string; readonly resource?: string };
    readonly consume: Readonly<Record<string, number>>;
    readonly before: WatchSample | undefined;
  },
): Promise<WatchSample> {
  const atMs = Date.now();
  const earlier = new Map((about.before?.items ?? []).map((item) => [keyOf(item), item]));
  const items: WatchedBucket[] = [];
  for await (const { entityId, resource, limits } of limiter.listBuckets(about.query)) {
    const { levels, outcome } = await limiter.explain({ entityId, resource });
    const defined = new Map((levels[0]?.limits ?? []).map((each) => [each.limit, each]));
    for (const { limit, counts, available, capacity } of limits) {
      const known = defined.get(limit);
      if (known === undefined) continue;
      // Of this measure alone: the request itself is no part of the question.
      const asked = { requests: 0, [counts]: about.consume[counts] ?? 1 };
      const retryAfterMs =
        outcome === "disabled"
          ? Number.POSITIVE_INFINITY
          : await limiter.timeUntilAvailable({ entityId, resource, consume: asked });
      const seen = { entityId, resource, limit, available, capacity };
      const takenPerSecond = takenSince(earlier.get(keyOf(seen)), { ...seen, atMs }, known);
      items.push({ atMs, ...seen, takenPerSecond, blocked: retryAfterMs > 0, retryAfterMs });
    }
  }
  return { atMs, items };
}

/** How late a bucket may be read after a sample began. */
const BLUR_MS = 50;

function keyOf({ entityId, resource, limit }: { entityId: string; resource: string; limit: string }): string {
  return `${entityId}\n${resource}\n${limit}`;
}

/** What is gone beyond what dripped in meanwhile; a reset in between counts as nothing taken. */
function takenSince(
  before: WatchedBucket | undefined,
  now: { readonly atMs: number; readonly available: number; readonly capacity: number },
  { kind, definition }: LimitExplanation,
): number {
  const elapsedMs = before === undefined ? 0 : now.atMs - before.atMs;
  if (before === undefined || elapsedMs <= 0) return 0;
  const drippedIn = kind === "drip" ? (definition.refillAmount * elapsedMs) / definition.refillPeriodMs : 0;
  const expected = Math.min(now.capacity, before.available + drippedIn);
  const perSecond = (expected - now.available) / (elapsedMs / 1000);
  // Whole tokens are seen, a little after the reading of the clock: so little between two looks may be nothing.
  const blur = 1 + (kind === "drip" ? (definition.refillAmount * BLUR_MS) / definition.refillPeriodMs : 0);
  return expected - now.available < blur ? 0 : Math.round(perSecond * 10) / 10;
}
