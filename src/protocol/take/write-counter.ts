import { namesOf, WCU, WCU_MILLI } from "../item/attributes.ts";
import { type Image, numberOf } from "../item/codec.ts";
import type { WriteBuilder } from "../item/write-builder.ts";
import type { Env, Move } from "./intent.ts";
import { moveTokens } from "./moves.ts";
import { cutAt, pieceFor } from "./piece.ts";

/** This implementation does not go by the tokens of the counter, so where the original does not write it is simply full again. */
export function writeWcu(builder: WriteBuilder, { item, state }: Image, atMs: number, { dialect }: Env): void {
  const { tk, cp, ra, rp } = namesOf(WCU);
  const stored = numberOf(item, tk);
  if (!dialect.readsWriteCounter || stored === undefined || !(cp in item)) {
    const full = { [cp]: WCU_MILLI, [ra]: WCU_MILLI, [rp]: 1000 };
    builder.diffAttributes(item, [cp, ra, rp], full).set(tk, WCU_MILLI - 1000);
    return;
  }
  const rise = Math.min(WCU_MILLI * 2, (atMs - state.epochMs) * 1000);
  const [below, over] = cutAt(WCU_MILLI - rise);
  const piece = pieceFor(
    [
      { ...below, milli: rise },
      { ...over, milli: WCU_MILLI },
    ],
    stored,
  );
  const move: Move = { limit: WCU, milli: 1000, whenShort: "owe" };
  moveTokens(builder, tk, { piece, move, neededMilli: 0, refilledMilli: 0 });
}
