import { openMemory as openWith } from "../adapters/memory/store.ts";
import { MEMORY_RETENTION } from "../domain/retention.ts";
import type { Store } from "../ports/store.ts";
import { calendar } from "./limits.ts";
import { type RetentionOptions, retentionOf } from "./retention.ts";

export type { RetentionOptions } from "./retention.ts";

/** A new, empty store in this process's memory, for `RateLimiter.open({ store })`. */
export function openMemory(options: RetentionOptions = {}): Store {
  return openWith(calendar, retentionOf(options, MEMORY_RETENTION));
}
