import type { Piece, PieceValue } from "../domain/config/piece.ts";

/** One change of a plan. */
export interface Change extends Piece {
  /** What is done with the piece. */
  readonly action: "create" | "update" | "delete" | "adopt" | "release";
  /** The value before; `null`: none. */
  readonly before: PieceValue | null;
  /** The value after; `null`: none. */
  readonly after: PieceValue | null;
  /** Whether the stored value differs from the one that was last applied. */
  readonly drift: boolean;
  /** After an apply: whether the change was made. */
  readonly done?: boolean;
}
