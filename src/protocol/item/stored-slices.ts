import { NO_SLICES, type Slice } from "../../domain/bucket/holds.ts";
import type { Item, ItemValue } from "../../ports/item-store.ts";
import { type LimitNames, namesOf } from "./attributes.ts";

/** The open slices of a limit as an item has them, by place. */
export function slicesIn(item: Item, { ends, held }: LimitNames): readonly Slice[] {
  let slices: Slice[] | undefined;
  for (let place = 0; place < ends.length; place++) {
    const endMs = item[ends[place] as string];
    if (typeof endMs !== "number") continue;
    slices ??= [];
    slices.push({ place, endMs, heldMilli: Number(item[held[place] as string] ?? 0) });
  }
  return slices ?? NO_SLICES;
}

/** The same slices with what another image of the item, of the same epoch, says to be held in them. */
export function slicesAgain(slices: readonly Slice[], item: Item, limit: string): readonly Slice[] {
  if (slices.length === 0) return slices;
  const { held } = namesOf(limit);
  return slices.map(({ place, endMs }) => ({ place, endMs, heldMilli: Number(item[held[place] as string] ?? 0) }));
}

/** When the slices end, as attributes: they are opened and closed together with the epoch only. */
export function storeEnds(item: Record<string, ItemValue>, { ends }: LimitNames, slices: readonly Slice[]): void {
  for (const { place, endMs } of slices) item[ends[place] as string] = endMs;
}

/** What is held in them, of a new item: any other is written by what is added or taken away. */
export function storeHeld(item: Record<string, ItemValue>, limit: string, slices: readonly Slice[]): void {
  for (const { place, heldMilli } of slices) item[namesOf(limit).held[place] as string] = heldMilli;
}
