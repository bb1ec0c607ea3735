import type { Piece, PieceValue } from "../domain/piece.ts";

/** One step from what is there to what is declared. */
export interface Change extends Piece {
  /** What is done with the piece. */
  readonly action: "create" | "update" | "delete" | "adopt" | "release";
  /** `null`: nothing. */
  readonly before: PieceValue | null;
  /** `null`: nothing. */
  readonly after: PieceValue | null;
  /** It is not as it was last applied. */
  readonly drift: boolean;
  /** Of an apply: whether it was done. */
  readonly done?: boolean;
}
