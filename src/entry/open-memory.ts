import { openMemory as openWith } from "../adapters/memory/store.ts";
import { systemTurns } from "../adapters/system/clock.ts";
import { MEMORY_RETENTION } from "../domain/config/retention.ts";
import { KnownNames } from "../domain/names/known-names.ts";
import type { Store } from "../ports/store.ts";
import { calendar } from "./limits.ts";
import { type RetentionOptions, storeRetention } from "./retention.ts";

// Apart from the limiter in memory, for bundles that have a store and no limiter.

const RETENTION = new KnownNames<RetentionOptions>({ usage: true, auditKeepMs: true });

/**
 * A new, empty store in the memory of this process, for `RateLimiter.open({ store })`. Limiters that share it share
 * their limits and buckets.
 */
export function openMemory(options: RetentionOptions = {}): Store {
  return openWith(
    calendar,
    storeRetention(RETENTION.check(options, "The options of openMemory"), MEMORY_RETENTION),
    systemTurns,
  );
}
