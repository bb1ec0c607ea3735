import type { ConfigScope, StoredConfig } from "../domain/config/config.ts";
import { type OwnedPiece, type Piece, pieceKey, pieceOfKey } from "../domain/config/piece.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import type { EnterReply, ManifestStore, OwnerRecord, OwnerRight, StrikeReply } from "../ports/manifest-store.ts";
import type { ListedRecord, RecordList, StoredRecord } from "../ports/record-store.ts";
import { scopeOfPlanRow, scopeOfRow } from "../stored/config-keys.ts";
import { configOf, objectIn } from "./bodies.ts";
import type { Decision } from "./changes.ts";
import { ownedKey, ownerKey } from "./keys.ts";
import type { RecordParts } from "./parts.ts";

/** Records of owners change no configuration: they are written without an audit event and without a new generation. */
export class RecordManifests implements ManifestStore {
  readonly #parts: RecordParts;
  readonly #namespaceId: string;

  constructor(parts: RecordParts, namespaceId: string) {
    this.#parts = parts;
    this.#namespaceId = namespaceId;
  }

  setRun(record: OwnerRecord): MaybePromise<void> {
    const put = { kind: "owner", key: [record.owner], by: {}, body: record } as const;
    return this.#parts.changes.write(this.#namespaceId, [ownerKey(record.owner)], "active", () => ({
      reply: undefined,
      write: { puts: [put] },
    }));
  }

  getRun(owner: string): MaybePromise<OwnerRecord | undefined> {
    return this.#parts.lists.one(this.#namespaceId, ownerKey(owner), objectIn<OwnerRecord>);
  }

  enter(owned: OwnedPiece, { run, takeOver }: OwnerRight): MaybePromise<EnterReply> {
    const { piece, owner, ...entry } = owned;
    const key = pieceKey(piece);
    const put = { kind: "owned", key: [key], by: {}, body: { owner, ...entry } } as const;
    const keys = [ownedKey(key), ownerKey(owner)];
    return this.#parts.changes.write(this.#namespaceId, keys, "active", ([record, last]): Decision<EnterReply> => {
      const known = record === undefined ? owner : ownerOf(record);
      if (known !== owner && !takeOver) return { reply: { kind: "ownedByOther", owner: known } };
      if (!isRun(last, run)) return { reply: { kind: "superseded" } };
      return { reply: { kind: "entered" }, write: { puts: [put] } };
    });
  }

  strike(piece: Piece, owner: string, { run }: Pick<OwnerRight, "run">): MaybePromise<StrikeReply> {
    const key = ownedKey(pieceKey(piece));
    const keys = [key, ownerKey(owner)];
    return this.#parts.changes.write(this.#namespaceId, keys, "active", ([record, last]): Decision<StrikeReply> => {
      if (!isRun(last, run)) return { reply: { kind: "superseded" } };
      if (record === undefined || ownerOf(record) !== owner) return { reply: { kind: "struck" } };
      return { reply: { kind: "struck" }, write: { deletes: [key] } };
    });
  }

  list(page: PageRequest): MaybePromise<Page<OwnedPiece>> {
    return this.#parts.lists.page(this.#namespaceId, { kind: "owned", of: "all" }, page, 1, ownedOf);
  }

  listConfigs(
    { entityId }: { readonly entityId?: string },
    page: PageRequest,
  ): MaybePromise<Page<{ readonly scope: ConfigScope; readonly config: StoredConfig }>> {
    const ofEntity = { kind: "config", of: "owner", owner: ["entity", entityId ?? ""], which: "all" } as const;
    const list: RecordList = entityId === undefined ? { kind: "config", of: "all" } : ofEntity;
    return this.#parts.lists.page(this.#namespaceId, list, page, entityId === undefined ? 3 : 1, ({ key, body }) => {
      const [of, owner, resource] = key as [string, string, string];
      const scope = of === "plan" ? scopeOfPlanRow(owner, resource) : scopeOfRow(owner, resource);
      return { scope, config: configOf({ kind: "config", key, body }) };
    });
  }
}

function ownerOf(record: StoredRecord): string {
  return objectIn<OwnedPiece>(record).owner;
}

function isRun(record: StoredRecord | undefined, run: string | undefined): boolean {
  return run === undefined || (record !== undefined && objectIn<OwnerRecord>(record).run === run);
}

function ownedOf({ key, body }: ListedRecord): OwnedPiece {
  const entry = objectIn<Omit<OwnedPiece, "piece">>({ kind: "owned", key, body });
  return { piece: pieceOfKey(key[0] as string), ...entry } as OwnedPiece;
}
