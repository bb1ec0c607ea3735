import type { ConfigScope, StoredConfig } from "../../domain/config/config.ts";
import { type OwnedPiece, type Piece, type PieceValue, pieceKey, pieceOfKey } from "../../domain/config/piece.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { EnterReply, ManifestStore, OwnerRecord, OwnerRight, StrikeReply } from "../../ports/config-store.ts";
import { type Attributes, decodeNumber } from "./codec.ts";
import { decodeConfig } from "./config-codec.ts";
import { isOwnerGone } from "./entities-record.ts";
import { changeIn, type NamespaceParts, readActive } from "./namespace-parts.ts";
import { collected, cursorOf, inChunks, pageAfter, placeAfter } from "./paging.ts";
import { ProvisionerList } from "./provisioner.ts";
import { type KeyRange, namespaceIndex, type Records, tablePartition } from "./records.ts";
import {
  checkRecord,
  deleteRecord,
  isStill,
  keyIn,
  missing,
  putRecord,
  type RecordWrite,
  texts,
} from "./records-write.ts";
import { uniqueKeys } from "./retried-calls.ts";
import {
  APPLIED,
  APPLIED_AT,
  configKey,
  configOwnerKeys,
  entityPk,
  OWNED_PREFIX,
  OWNER,
  ownedKey,
  ownerKey,
  parseConfigKey,
  planPk,
  provisionerKey,
  RUN,
  resourcePk,
  SK,
  systemIndexKeys,
  systemPk,
  type TableKey,
} from "./schema.ts";

interface Found {
  readonly scope: ConfigScope;
  readonly config: StoredConfig;
}

/** A page of every stored configuration of a namespace. The index has the keys; the items themselves are looked up. */
async function listConfigs(parts: NamespaceParts, { limit, cursor }: PageRequest): Promise<Page<Found>> {
  const { namespaceId } = parts;
  const [after] = placeAfter(cursor, 1) ?? [];
  const items: Found[] = [];
  if (after === undefined) items.push(...(await readConfigs(parts, [{ level: "system" }, { level: "systemTotal" }])));
  // Entities, plans and resources sort in this order. A page ends between two partitions.
  for (const kind of [entityPk, planPk, resourcePk].map((pk) => pk(namespaceId, ""))) {
    if (after !== undefined && after >= `${kind}~`) continue;
    const from = after === undefined || after < kind ? kind : `${after}!`;
    for await (const keys of wholePartitions(parts, { from, to: `${kind}~` }, isConfigKey)) {
      const scopes = keys.flatMap((key) => parseConfigKey(key) ?? []);
      items.push(...(await readConfigs(parts, scopes)));
      const last = scopes.at(-1);
      if (items.length < limit || last === undefined) continue;
      return { items, cursor: cursorOf(configKey(namespaceId, last).pk) };
    }
  }
  return { items };
}

/** The keys that are wanted, in chunks; no chunk ends within a partition. */
export async function* wholePartitions(
  { records, namespaceId }: Pick<NamespaceParts, "records" | "namespaceId">,
  range: KeyRange,
  isWanted: (key: TableKey) => boolean,
): AsyncGenerator<readonly TableKey[]> {
  let open: TableKey[] = [];
  for await (const chunk of inChunks(records.query(namespaceIndex(namespaceId, range)), CHUNK)) {
    const found = [...open, ...chunk.map(keyIn).filter(isWanted)];
    const lastPk = keyIn(chunk.at(-1) as Attributes).pk;
    open = found.filter(({ pk }) => pk === lastPk);
    const whole = found.filter(({ pk }) => pk !== lastPk);
    if (whole.length > 0) yield whole;
  }
  if (open.length > 0) yield open;
}

function isConfigKey(key: TableKey): boolean {
  return parseConfigKey(key) !== undefined;
}

async function configsOfEntity(parts: NamespaceParts, entityId: string): Promise<readonly Found[]> {
  const range = { from: "#CONFIG#", to: "#CONFIG$" };
  const items = await collected(parts.records.query(tablePartition(entityPk(parts.namespaceId, entityId), range)));
  const scopes = items.flatMap((item) => parseConfigKey(keyIn(item)) ?? []);
  return readConfigs(parts, [...scopes, { level: "entityTotal", entityId }]);
}

async function readConfigs(
  { records, namespaceId }: NamespaceParts,
  scopes: readonly ConfigScope[],
): Promise<readonly Found[]> {
  const owners = uniqueKeys(scopes.flatMap((scope) => configOwnerKeys(namespaceId, scope)));
  const found = await records.getAll([...scopes.map((scope) => configKey(namespaceId, scope)), ...owners]);
  const ownerBy = new Map(owners.map(({ pk }, i) => [pk, found[scopes.length + i]]));
  return scopes.flatMap((scope, i) => {
    const config = decodeConfig(found[i]);
    const isGone = isOwnerGone(scope, ownerBy.get(configKey(namespaceId, scope).pk));
    return config === undefined || isGone ? [] : [{ scope, config }];
  });
}

const CHUNK = 100;

/** Owners of declared pieces: one item per piece, in the partition of the system, deleted with its namespace. */
export class DynamoManifests implements ManifestStore {
  readonly #parts: NamespaceParts;
  readonly #namespaceId: string;
  readonly #records: Records;

  constructor(parts: NamespaceParts) {
    this.#parts = parts;
    this.#namespaceId = parts.namespaceId;
    this.#records = parts.records;
  }

  async setRun(record: OwnerRecord): Promise<void> {
    const { owner } = record;
    const put = putRecord(ownerKey(this.#namespaceId, owner), ownerItem(this.#namespaceId, record), undefined);
    await changeIn(this.#parts, `The owner ${owner}`, undefined, async () => ({ reply: undefined, writes: [put] }));
  }

  async getRun(owner: string): Promise<OwnerRecord | undefined> {
    const item = await this.#records.get(ownerKey(this.#namespaceId, owner));
    return item && ownerOf(item, owner);
  }

  enter(owned: OwnedPiece, { run, takeOver }: OwnerRight): Promise<EnterReply> {
    const { owner, piece } = owned;
    const key = ownedKey(this.#namespaceId, pieceKey(piece));
    return changeIn<EnterReply>(this.#parts, `The owner of ${key.sk}`, undefined, async () => {
      const { item, record, list } = await this.#read(piece, owner);
      const known = item?.[OWNER]?.S ?? list?.ownerOf(piece) ?? owner;
      if (known !== owner && !takeOver) return { reply: { kind: "ownedByOther", owner: known } };
      if (run !== undefined && record?.[RUN]?.S !== run) return { reply: { kind: "superseded" } };
      const unchanged = item === undefined ? missing : isStill(OWNER, item[OWNER]);
      return {
        reply: { kind: "entered" },
        writes: [
          putRecord(key, ownedItem(this.#namespaceId, owned), unchanged),
          ...this.#runCheck(owner, run),
          ...(list?.entered(piece, owner) ?? []),
        ],
      };
    });
  }

  strike(piece: Piece, owner: string, { run }: Pick<OwnerRight, "run">): Promise<StrikeReply> {
    const key = ownedKey(this.#namespaceId, pieceKey(piece));
    return changeIn<StrikeReply>(this.#parts, `The owner of ${key.sk}`, undefined, async () => {
      const { item, record, list } = await this.#read(piece, owner);
      if (run !== undefined && record?.[RUN]?.S !== run) return { reply: { kind: "superseded" } };
      const isOwn = item?.[OWNER]?.S === owner;
      const others = list === undefined ? [] : await this.#othersAt(piece, owner);
      return {
        reply: { kind: "struck" },
        writes: [
          ...(isOwn ? [deleteRecord(key, isStill(OWNER, { S: owner }))] : []),
          ...this.#runCheck(owner, run),
          ...(list?.struck(piece, owner, others) ?? []),
        ],
      };
    });
  }

  list(page: PageRequest): Promise<Page<OwnedPiece>> {
    return pageAfter(
      page,
      (after) => this.#owned(after),
      ({ piece }) => pieceKey(piece),
    );
  }

  async listConfigs({ entityId }: { readonly entityId?: string }, page: PageRequest): Promise<Page<Found>> {
    return entityId === undefined
      ? listConfigs(this.#parts, page)
      : { items: await configsOfEntity(this.#parts, entityId) };
  }

  async *#owned(after: string | undefined): AsyncGenerator<OwnedPiece> {
    // Every character of a piece sorts after the space and before the tilde.
    const range = { from: `${OWNED_PREFIX}${after === undefined ? "" : `${after} `}`, to: `${OWNED_PREFIX}~` };
    const items = this.#records.query(tablePartition(systemPk(this.#namespaceId), range));
    // The first page also has the pieces that only the original's provisioner lists.
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

  /** On a shared table, everything that the original's provisioner has set belongs to the owner `default`. */
  async #listed(): Promise<readonly Piece[]> {
    if (!this.#parts.shared) return [];
    const item = await this.#records.get(provisionerKey(this.#namespaceId));
    return new ProvisionerList(this.#namespaceId, item).pieces();
  }

  async #read(piece: Piece, owner: string) {
    const { namespaceId, shared } = this.#parts;
    const [item, record, provisioner] = await readActive(this.#parts, [
      ownedKey(namespaceId, pieceKey(piece)),
      ownerKey(namespaceId, owner),
      ...(shared ? [provisionerKey(namespaceId)] : []),
    ]);
    return { item, record, list: shared ? new ProvisionerList(namespaceId, provisioner) : undefined };
  }

  /** The owner's other pieces of the same level: the original knows levels only. */
  async #othersAt(piece: Piece, owner: string): Promise<readonly Piece[]> {
    const kinds = (["limits", "access", "cascade", "onUnavailable", "usageKeptDays"] as const).filter(
      (what) => what !== piece.what,
    );
    const pieces = kinds.map((what) => ({ ...piece, what }));
    const keys = pieces.map((each) => ownedKey(this.#namespaceId, pieceKey(each)));
    const items = await this.#records.getAll(keys);
    return pieces.filter((_, i) => items[i]?.[OWNER]?.S === owner);
  }

  #runCheck(owner: string, run: string | undefined): readonly RecordWrite[] {
    if (run === undefined) return [];
    return [checkRecord(ownerKey(this.#namespaceId, owner), isStill(RUN, { S: run }))];
  }
}

export function ownerItem(namespaceId: string, { owner, run, appliedAtMs }: OwnerRecord): Attributes {
  return {
    ...texts({ [OWNER]: owner, [RUN]: run, ...systemIndexKeys(namespaceId) }),
    [APPLIED_AT]: { N: String(appliedAtMs) },
  };
}

export function ownerOf(item: Attributes, owner: string): OwnerRecord {
  return { owner, run: item[RUN]?.S ?? "", appliedAtMs: decodeNumber(item[APPLIED_AT]?.N ?? "0", APPLIED_AT) };
}

export function ownedItem(namespaceId: string, owned: OwnedPiece): Attributes {
  return {
    ...texts({ [OWNER]: owned.owner, ...systemIndexKeys(namespaceId) }),
    [APPLIED_AT]: { N: String(owned.atMs) },
    ...(owned.state === "applied" ? { [APPLIED]: { S: JSON.stringify(owned.value) } } : {}),
  };
}

function ownedOf(item: Attributes): OwnedPiece {
  const entry = {
    piece: pieceOfKey((item[SK]?.S ?? "").slice(OWNED_PREFIX.length)),
    owner: item[OWNER]?.S ?? "",
    atMs: decodeNumber(item[APPLIED_AT]?.N ?? "0", APPLIED_AT),
  };
  const applied = item[APPLIED]?.S;
  if (applied === undefined) return { ...entry, state: "pending" };
  return { ...entry, state: "applied", value: JSON.parse(applied) as PieceValue };
}
