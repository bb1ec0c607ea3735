import { type OwnedPiece, pieceKey, pieceOfKey } from "../domain/config/piece.ts";
import type { EnterReply, ManifestStore, OwnerRecord, StrikeReply } from "../ports/config-store.ts";
import type { ListedRecord, StoredRecord } from "../ports/record-store.ts";
import { scopeOfPlanRow, scopeOfRow } from "../stored/config-keys.ts";
import { configOf, objectIn, ownedKey, ownerKey } from "./bodies.ts";
import type { Decision, ScopedRecords } from "./scoped-records.ts";

/** Records of owners change no configuration: they are written without an audit event and without a new generation. */
export function manifestsOn(records: ScopedRecords): ManifestStore {
  return {
    setRun: (record) => {
      const put = { kind: "owner", key: [record.owner], by: {}, body: record } as const;
      return records.write([ownerKey(record.owner)], "active", () => ({ reply: undefined, write: { puts: [put] } }));
    },
    getRun: (owner) => records.one(ownerKey(owner), objectIn<OwnerRecord>),
    enter: ({ piece, owner, ...entry }, { run, takeOver }) => {
      const key = pieceKey(piece);
      const put = { kind: "owned", key: [key], by: {}, body: { owner, ...entry } } as const;
      return records.write([ownedKey(key), ownerKey(owner)], "active", ([record, last]): Decision<EnterReply> => {
        const known = record === undefined ? owner : ownerOf(record);
        if (known !== owner && !takeOver) return { reply: { kind: "ownedByOther", owner: known } };
        if (!isRun(last, run)) return { reply: { kind: "superseded" } };
        return { reply: { kind: "entered" }, write: { puts: [put] } };
      });
    },
    strike: (piece, owner, { run }) => {
      const key = ownedKey(pieceKey(piece));
      return records.write([key, ownerKey(owner)], "active", ([record, last]): Decision<StrikeReply> => {
        if (!isRun(last, run)) return { reply: { kind: "superseded" } };
        if (record === undefined || ownerOf(record) !== owner) return { reply: { kind: "struck" } };
        return { reply: { kind: "struck" }, write: { deletes: [key] } };
      });
    },
    list: (page) => records.page({ kind: "owned", of: "all" }, page, 1, ownedOf),
    listConfigs: ({ entityId }, page) => {
      const ofEntity = { kind: "config", of: "owner", owner: ["entity", entityId ?? ""] } as const;
      const list = entityId === undefined ? ({ kind: "config", of: "all" } as const) : ofEntity;
      return records.page(list, page, entityId === undefined ? 3 : 1, ({ key, body }) => {
        const [of, owner, resource] = key as [string, string, string];
        const scope = of === "plan" ? scopeOfPlanRow(owner, resource) : scopeOfRow(owner, resource);
        return { scope, config: configOf({ kind: "config", key, body }) };
      });
    },
  };
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
