import type { ItemKey } from "../../ports/item-store.ts";

/** Whether a key is that of a shard itself, not of a record or a sheet that is kept beside it. */
export function isShardKey({ operation, sheet }: ItemKey): boolean {
  return operation === undefined && sheet === undefined;
}
