import type { ItemWrite } from "../../ports/item-store.ts";
import { namesOf, RQ, SHARD_COUNT, TTL, UH } from "../item/attributes.ts";
import { type Image, numberOf } from "../item/codec.ts";
import { SPARE_S } from "../item/ttl.ts";
import { fullAfter } from "../take/expiry.ts";
import type { Env } from "../take/intent.ts";
import { relativeTo } from "../take/moves.ts";
import { closedNames, counterNames } from "./hours.ts";

/** Nothing is counted on it: it may go when its tokens are full. Undefined where it may already, or may not at all. */
export function shortenExpiry(image: Image, nowMs: number, env: Env): ItemWrite | undefined {
  const { item, state, key, hourEndMs } = image;
  const ttl = numberOf(item, TTL);
  const fullS = ttl === undefined ? undefined : fullAfter(state, nowMs, env.calendar);
  // Nor before its hour is over, where a clock that was ahead opened it: made anew earlier, it would count in hours on sheets.
  const untilS = fullS === undefined ? undefined : Math.max(fullS + SPARE_S, hourEndMs / 1000);
  const isLess = ttl !== undefined && untilS !== undefined && untilS < ttl;
  const beside = closedNames(item);
  if (!isLess && beside.length === 0) return undefined;
  const builder = relativeTo(image).asSeen(UH, item).asSeen(TTL, item);
  builder.asSeen(SHARD_COUNT, item).asSeen(RQ, item);
  // With fewer tokens it would be full later.
  for (const { name, tokensMilli } of state.limits) builder.where(namesOf(name).tk, ">=", tokensMilli);
  for (const name of counterNames(item, state)) builder.asSeen(name, item);
  if (isLess) builder.set(TTL, untilS);
  for (const name of beside) builder.remove(name);
  return builder.update(key, "exists", { form: "take", readingMs: nowMs, parts: [], spare: [] });
}
