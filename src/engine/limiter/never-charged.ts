import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { USAGE_COUNTERS } from "../../domain/charge/usage.ts";
import { BoundedMap } from "../../domain/names/bounded-map.ts";
import { LimiterError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import type { ScopedStore } from "../../ports/store.ts";

const NAMES_MAX = 10_000;
const PAGE = 100;

/** Limits that were found charged stay charged, so repeated questions read only the rest. */
const CHARGED = new WeakMap<ScopedStore, BoundedMap<true>>();

/**
 * The limits of a bucket to which nothing was ever charged, as far as usage is kept. `full` are the candidates: a limit that is not full
 * was charged. Empty if usage is unknown: it is not kept, not aggregated, or this client may not read it.
 */
export async function neverCharged(
  scope: ScopedStore,
  { id, entityId, resource }: BucketKey,
  full: readonly string[],
): Promise<ReadonlySet<string>> {
  let charged = CHARGED.get(scope);
  if (charged === undefined) {
    charged = new BoundedMap(NAMES_MAX);
    CHARGED.set(scope, charged);
  }
  const keyOf = (limit: string) => `${id}\n${limit}`;
  const left = new Set(full.filter((limit) => charged.get(keyOf(limit)) === undefined));
  const query = { entityId, resource, window: "monthly", fromMs: 0, toMs: Number.MAX_SAFE_INTEGER } as const;
  let cursor: string | undefined;
  try {
    while (left.size > 0) {
      const page = await scope.usage.query(query, { limit: PAGE, ...given({ cursor }) });
      for (const snapshot of page.items) {
        for (const limit of left) {
          if (!USAGE_COUNTERS.some((counter) => Object.hasOwn(snapshot[counter], limit))) continue;
          left.delete(limit);
          charged.set(keyOf(limit), true);
        }
      }
      if (page.cursor === undefined) break;
      cursor = page.cursor;
    }
  } catch (error) {
    if (error instanceof LimiterError && UNKNOWN.has(error.code)) return NONE;
    throw error;
  }
  return left;
}

const UNKNOWN: ReadonlySet<string> = new Set(["usage_not_kept", "usage_not_aggregated", "access_denied"]);
const NONE: ReadonlySet<string> = new Set();

/** Marks the limits to which nothing was ever charged. */
export async function withNeverCharged<Shown extends ShownLimit>(
  scope: ScopedStore,
  bucket: BucketKey,
  limits: readonly Shown[],
): Promise<readonly (Shown & { readonly neverCharged?: true })[]> {
  const full = limits.filter(({ available, capacity }) => available === capacity).map(({ limit }) => limit);
  const never = await neverCharged(scope, bucket, full);
  return limits.map((one) => (never.has(one.limit) ? { ...one, neverCharged: true as const } : one));
}

interface ShownLimit {
  readonly limit: string;
  readonly available: number;
  readonly capacity: number;
}
