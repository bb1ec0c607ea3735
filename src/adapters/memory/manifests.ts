import type { ConfigScope, StoredConfig } from "../../domain/config.ts";
import type { Page, PageRequest } from "../../domain/paging.ts";
import { type OwnedPiece, type Piece, pieceKey } from "../../domain/piece.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import type { EnterReply, ManifestStore, OwnerRecord, OwnerRight, StrikeReply } from "../../ports/manifest-store.ts";
import { InNamespace } from "./in-namespace.ts";
import { textList } from "./list-orders.ts";

export class MemoryManifests extends InNamespace implements ManifestStore {
  setRun(record: OwnerRecord): void {
    this.requireActive();
    this.data.owners.set(record.owner, record);
  }

  getRun(owner: string): OwnerRecord | undefined {
    return this.data.owners.get(owner);
  }

  enter(owned: OwnedPiece, { run, takeOver }: OwnerRight): EnterReply {
    this.requireActive();
    const key = pieceKey(owned.piece);
    const known = this.data.owned.get(key)?.owner ?? owned.owner;
    if (known !== owned.owner && !takeOver) return { kind: "ownedByOther", owner: known };
    if (!this.#isRun(owned.owner, run)) return { kind: "superseded" };
    this.data.owned.set(key, owned);
    return { kind: "entered" };
  }

  strike(piece: Piece, owner: string, { run }: Pick<OwnerRight, "run">): StrikeReply {
    this.requireActive();
    if (!this.#isRun(owner, run)) return { kind: "superseded" };
    const key = pieceKey(piece);
    if (this.data.owned.get(key)?.owner === owner) this.data.owned.delete(key);
    return { kind: "struck" };
  }

  list(page: PageRequest): MaybePromise<Page<OwnedPiece>> {
    const { owned, orders } = this.data;
    return orders.pageByTurns(
      textList(
        "owned",
        () => owned.keys(),
        (key) => owned.get(key),
      ),
      page,
    );
  }

  listConfigs(
    { entityId }: { readonly entityId?: string },
    page: PageRequest,
  ): MaybePromise<Page<{ readonly scope: ConfigScope; readonly config: StoredConfig }>> {
    const { configs, orders } = this.data;
    const isWanted = (scope: ConfigScope) =>
      entityId === undefined || ("entityId" in scope && scope.entityId === entityId);
    const keys = function* () {
      for (const [key, { scope }] of configs) if (isWanted(scope)) yield key;
    };
    return orders.pageByTurns(
      textList(`configs ${entityId ?? ""}`, keys, (key) => configs.get(key)),
      page,
    );
  }

  #isRun(owner: string, run: string | undefined): boolean {
    return run === undefined || this.data.owners.get(owner)?.run === run;
  }
}
