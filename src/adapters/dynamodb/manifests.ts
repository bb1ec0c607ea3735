import type { ConfigScope, StoredConfig } from "../../domain/config/config.ts";
import { type OwnedPiece, type Piece, type PieceValue, pieceKey, pieceOfKey } from "../../domain/config/piece.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { EnterReply, ManifestStore, OwnerRecord, OwnerRight, StrikeReply } from "../../ports/manifest-store.ts";
import { type Attributes, decodeNumber } from "./codec.ts";
import { StoredConfigs } from "./config-listing.ts";
import { activeCheck, type NamespaceWatch } from "./namespaces-record.ts";
import { cursorOf, pageOf, placeAfter } from "./paging.ts";
import { ProvisionerList } from "./provisioner.ts";
import { failAfterMaxConflicts, type Records } from "./records.ts";
import { checkRecord, deleteRecord, isStill, missing, putRecord, type RecordWrite, texts } from "./records-write.ts";
import {
  APPLIED,
  APPLIED_AT,
  namespaceIdKey,
  OWNER,
  ownedKey,
  ownedPrefix,
  ownerKey,
  PK,
  provisionerKey,
  RUN,
  SK,
  systemIndexKeys,
  systemPk,
} from "./schema.ts";

/** Who owns which declared pieces: an item a piece in the partition of the system, which goes with its namespace. */
export class DynamoManifests implements ManifestStore {
  readonly #namespaceId: string;
  readonly #records: Records;
  readonly #watch: NamespaceWatch;
  readonly #configs: StoredConfigs;
  /** On a table shared with the original: what its provisioner has set belongs to the owner `default`. */
  readonly #shared: boolean;

  constructor(
    namespaceId: string,
    parts: { readonly records: Records; readonly watch: NamespaceWatch; readonly shared: boolean },
  ) {
    this.#namespaceId = namespaceId;
    this.#records = parts.records;
    this.#watch = parts.watch;
    this.#shared = parts.shared;
    this.#configs = new StoredConfigs(namespaceId, parts.records);
  }

  async setRun({ owner, run, appliedAtMs }: OwnerRecord): Promise<void> {
    const item = {
      ...texts({ [OWNER]: owner, [RUN]: run, ...systemIndexKeys(this.#namespaceId) }),
      [APPLIED_AT]: { N: String(appliedAtMs) },
    };
    await this.#change(`The owner ${owner}`, () => [putRecord(ownerKey(this.#namespaceId, owner), item, undefined)]);
  }

  async getRun(owner: string): Promise<OwnerRecord | undefined> {
    const item = await this.#records.get(ownerKey(this.#namespaceId, owner));
    if (item === undefined) return undefined;
    return { owner, run: item[RUN]?.S ?? "", appliedAtMs: decodeNumber(item[APPLIED_AT]?.N ?? "0", APPLIED_AT) };
  }

  async enter(owned: OwnedPiece, { run, takeOver }: OwnerRight): Promise<EnterReply> {
    const { owner, piece } = owned;
    const key = ownedKey(this.#namespaceId, pieceKey(piece));
    return this.#change(`The owner of ${key.sk}`, async (): Promise<Step<EnterReply>> => {
      const { item, record, list } = await this.#readToChange(piece, owner);
      const known = item?.[OWNER]?.S ?? list?.ownerOf(piece) ?? owner;
      if (known !== owner && !takeOver) return { kind: "ownedByOther", owner: known };
      if (run !== undefined && record?.[RUN]?.S !== run) return { kind: "superseded" };
      const unchanged = item === undefined ? missing : isStill(OWNER, item[OWNER]);
      return [
        putRecord(key, this.#itemOf(owned), unchanged),
        ...this.#runCheck(owner, run),
        ...(list?.entered(piece, owner) ?? []),
      ];
    }).then((reply) => reply ?? { kind: "entered" });
  }

  async strike(piece: Piece, owner: string, { run }: Pick<OwnerRight, "run">): Promise<StrikeReply> {
    const key = ownedKey(this.#namespaceId, pieceKey(piece));
    return this.#change(`The owner of ${key.sk}`, async (): Promise<Step<StrikeReply>> => {
      const { item, record, list } = await this.#readToChange(piece, owner);
      if (run !== undefined && record?.[RUN]?.S !== run) return { kind: "superseded" };
      const isOwn = item?.[OWNER]?.S === owner;
      const others = list === undefined ? [] : await this.#othersAt(piece, owner);
      return [
        ...(isOwn ? [deleteRecord(key, isStill(OWNER, { S: owner }))] : []),
        ...this.#runCheck(owner, run),
        ...(list?.struck(piece, owner, others) ?? []),
      ];
    }).then((reply) => reply ?? { kind: "struck" });
  }

  async list({ limit, cursor }: PageRequest): Promise<Page<OwnedPiece>> {
    const [after] = placeAfter(cursor, 1) ?? [];
    return pageOf(this.#owned(after), limit, ({ piece }) => cursorOf(pieceKey(piece)));
  }

  listConfigs(
    filter: { readonly entityId?: string },
    page: PageRequest,
  ): Promise<Page<{ readonly scope: ConfigScope; readonly config: StoredConfig }>> {
    return this.#configs.list(filter, page);
  }

  async *#owned(after: string | undefined): AsyncGenerator<OwnedPiece> {
    const prefix = ownedPrefix();
    const items = this.#records.query({
      partition: [PK, systemPk(this.#namespaceId)],
      // No character of a piece sorts before a space or after the tilde.
      range: { name: SK, from: `${prefix}${after === undefined ? "" : `${after} `}`, to: `${prefix}~` },
      consistent: true,
    });
    // What only the original's provisioner lists comes with the first page.
    const listed = after === undefined ? await this.#listed() : [];
    const seen = new Set<string>();
    for await (const item of items) {
      const owned = ownedOf(item);
      seen.add(pieceKey(owned.piece));
      yield owned;
    }
    for (const piece of listed) {
      if (!seen.has(pieceKey(piece))) yield { piece, owner: "default", atMs: 0, state: "pending" };
    }
  }

  async #listed(): Promise<readonly Piece[]> {
    if (!this.#shared) return [];
    const item = await this.#records.get(provisionerKey(this.#namespaceId));
    return new ProvisionerList(this.#namespaceId, item).pieces();
  }

  async #readToChange(piece: Piece, owner: string) {
    const [item, record, namespace, provisioner] = await this.#records.getAll(
      [
        ownedKey(this.#namespaceId, pieceKey(piece)),
        ownerKey(this.#namespaceId, owner),
        namespaceIdKey(this.#namespaceId),
        ...(this.#shared ? [provisionerKey(this.#namespaceId)] : []),
      ],
      { consistent: true },
    );
    this.#watch.requireActive(this.#namespaceId, namespace);
    return { item, record, list: this.#shared ? new ProvisionerList(this.#namespaceId, provisioner) : undefined };
  }

  /** Whether other pieces of the same level are still the owner's: the original knows levels only. */
  async #othersAt(piece: Piece, owner: string): Promise<readonly Piece[]> {
    const kinds = (["limits", "access", "cascade", "onUnavailable", "usageKeptDays"] as const).filter(
      (what) => what !== piece.what,
    );
    const pieces = kinds.map((what) => ({ ...piece, what }));
    const keys = pieces.map((each) => ownedKey(this.#namespaceId, pieceKey(each)));
    const items = await this.#records.getAll(keys, { consistent: true });
    return pieces.filter((_, i) => items[i]?.[OWNER]?.S === owner);
  }

  #runCheck(owner: string, run: string | undefined): readonly RecordWrite[] {
    if (run === undefined) return [];
    return [checkRecord(ownerKey(this.#namespaceId, owner), isStill(RUN, { S: run }))];
  }

  #itemOf(owned: OwnedPiece): Attributes {
    return {
      ...texts({ [OWNER]: owned.owner, ...systemIndexKeys(this.#namespaceId) }),
      [APPLIED_AT]: { N: String(owned.atMs) },
      ...(owned.state === "applied" ? { [APPLIED]: { S: JSON.stringify(owned.value) } } : {}),
    };
  }

  /** The answer of a step that writes nothing; undefined once its writes are done. Reads again when they were overtaken. */
  async #change<Reply extends object>(
    what: string,
    step: () => Step<Reply> | Promise<Step<Reply>>,
  ): Promise<Reply | undefined> {
    for (let attempt = 0; ; attempt++) {
      failAfterMaxConflicts(attempt, what);
      const writes = await step();
      if (!isWrites(writes)) return writes;
      const reply = await this.#records.transact([...writes, activeCheck(this.#namespaceId)]);
      if (reply.kind === "applied") return undefined;
      this.#watch.requireActive(this.#namespaceId, await this.#records.get(namespaceIdKey(this.#namespaceId)));
    }
  }
}

/** What is to be written; or the answer, where nothing is. */
type Step<Reply> = readonly RecordWrite[] | Reply;

function isWrites(step: object): step is readonly RecordWrite[] {
  return Array.isArray(step);
}

function ownedOf(item: Attributes): OwnedPiece {
  const entry = {
    piece: pieceOfKey((item[SK]?.S ?? "").slice(ownedPrefix().length)),
    owner: item[OWNER]?.S ?? "",
    atMs: decodeNumber(item[APPLIED_AT]?.N ?? "0", APPLIED_AT),
  };
  const applied = item[APPLIED]?.S;
  if (applied === undefined) return { ...entry, state: "pending" };
  return { ...entry, state: "applied", value: JSON.parse(applied) as PieceValue };
}
