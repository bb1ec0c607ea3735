import type { Amount } from "../../src/domain/charge/amounts.ts";
import type { Item, TracePart, WriteTrace } from "../../src/ports/item-store.ts";
import { namesOf } from "../../src/protocol/item/attributes.ts";
import { takenOf } from "../kit/model-shadow.ts";
import type { ReadItem } from "./item-reader.ts";

/** A part of a write with what passed by shadows apart from what was taken. */
export function passedApart(part: TracePart): TracePart & { readonly passed?: readonly Amount[] } {
  const { kind, amounts, shadowed = [] } = part;
  if (kind !== "take" || shadowed.length === 0) return part;
  const passed = amounts.filter(({ limit }) => shadowed.includes(limit));
  return { ...part, amounts: takenOf(amounts, shadowed), passed };
}

/** What a shadow would have refused is counted by the write that passed by, and taken back by the one that undoes it. */
export function passedCountProblems(
  names: readonly string[],
  { parts }: WriteTrace,
  before: Item | undefined,
  after: Item,
): string[] {
  return names.flatMap((name) => {
    const { wr, wv } = namesOf(name);
    const isRolled = before !== undefined && before.uh !== after.uh;
    if (isRolled && before.uh !== undefined && Number(after[wv] ?? 0) !== Number(before[wr] ?? 0)) {
      return [`what ${name} would have refused was ${before[wr]}, and ${after[wv]} is beside the new count`];
    }
    const is = Number(after[wr] ?? 0) - (isRolled ? 0 : Number(before?.[wr] ?? 0));
    let due = 0;
    for (const { kind, shadowed, undoes } of parts) {
      if (!shadowed?.includes(name)) continue;
      if (kind === "take") due += 1000;
      else if (kind === "credit" && undoes !== undefined) due -= 1000;
    }
    return is === due ? [] : [`what ${name} would have refused went up by ${is}, not by ${due}`];
  });
}

/**
 * A shadow decides by the whole bucket: none that goes by one is split, and nothing is taken from a shadow in shards. Those that were there
 * before are told of it, and joined. `taken`: by which limits a write took; absent: it split the bucket.
 */
export function splitProblems({ state, shardCount }: ReadItem, taken?: readonly string[]): string[] {
  if (shardCount === 1) return [];
  const own = state.limits.filter(({ configured, limit }) => configured && limit.shadow);
  return own
    .filter(({ name }) => taken?.includes(name) ?? true)
    .map(({ name }) => `the shadow ${name} is on one of ${shardCount} shards`);
}
