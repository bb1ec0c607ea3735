import type { ConfigScope, StoredConfig } from "../domain/config/config.ts";
import type { OwnedPiece, Piece } from "../domain/config/piece.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import type { MaybePromise } from "./bucket-store.ts";

/** An owner of declared pieces, and its last apply. */
export interface OwnerRecord {
  readonly owner: string;
  /** The apply that may write now; whoever has another is too late. */
  readonly run: string;
  /** When it began, or ended. */
  readonly appliedAtMs: number;
}

/** `superseded`: another apply of the same owner has begun since. Nothing was written but by `entered` and `struck`. */
export type EnterReply =
  | { readonly kind: "entered" }
  | { readonly kind: "ownedByOther"; readonly owner: string }
  | { readonly kind: "superseded" };

export type StrikeReply = { readonly kind: "struck" } | { readonly kind: "superseded" };

/** By which right something is entered or struck out. */
export interface OwnerRight {
  /** Only while this is the run of the owner. Undefined: whatever the run. */
  readonly run: string | undefined;
  /** Also what another owns. */
  readonly takeOver: boolean;
}

/** Who owns which pieces of one namespace by declaring them. A piece has one owner. Nothing here is audited. */
export interface ManifestStore {
  /** Records an apply, its begin or its end: only its own writes are accepted from now on. */
  setRun(record: OwnerRecord): MaybePromise<void>;
  getRun(owner: string): MaybePromise<OwnerRecord | undefined>;
  /** Enters or replaces a piece, if nobody else owns it. */
  enter(owned: OwnedPiece, right: OwnerRight): MaybePromise<EnterReply>;
  /** Strikes out a piece of the owner; another's stays. */
  strike(piece: Piece, owner: string, right: Pick<OwnerRight, "run">): MaybePromise<StrikeReply>;
  /** Of all owners, in no particular order; as good as now. */
  list(page: PageRequest): MaybePromise<Page<OwnedPiece>>;
  /** Every stored configuration, also one that has only a policy; of one entity, or of all. A page may be somewhat longer. */
  listConfigs(
    filter: { readonly entityId?: string },
    page: PageRequest,
  ): MaybePromise<Page<{ readonly scope: ConfigScope; readonly config: StoredConfig }>>;
}
