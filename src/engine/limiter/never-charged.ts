import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { USAGE_COUNTERS } from "../../domain/charge/usage-counters.ts";
import { BoundedMap } from "../../domain/names/bounded-map.ts";
import { LimiterError } from "../../domain/names/errors.ts";
import type { ScopedStore } from "../../ports/store.ts";

const NAMES_MAX = 10_000;
const PAGE = 100;

/** What was once found charged stays so: who looks again and again asks only about the rest. */
const CHARGED = new WeakMap<ScopedStore, BoundedMap<true>>();

/**
 * Those of a bucket's limits to which nothing was ever charged, as far as usage is kept. Only limits that are full are asked about: of any
 * other it is seen. None where usage cannot be known: it is not kept, the original's aggregator does not store it, or this client may take
 * tokens and not read usage.
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
      const page = await scope.usage.query(query, { limit: PAGE, ...(cursor === undefined ? {} : { cursor }) });
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
