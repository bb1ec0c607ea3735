import { openMemory as openWith } from "../adapters/memory/store.ts";
import type { Store } from "../ports/store.ts";
import { calendar } from "./limits.ts";

/** A new, empty store in this process's memory, for `RateLimiter.open({ store })`. */
export function openMemory(): Store {
  return openWith(calendar);
}
