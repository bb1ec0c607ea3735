import { createHash } from "node:crypto";
import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import { markText, periodOf } from "../../domain/bucket/mark-keeper.ts";
import { namedCounts } from "../../domain/charge/usage.ts";
import type { ConfigScope, StoredConfig } from "../../domain/config/config.ts";
import { textByInstants } from "../../domain/config/config-versions.ts";
import { pieceKey } from "../../domain/config/piece.ts";
import { isBeyondRates } from "../../domain/limits/beyond-rates.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import type {
  CopiedBucket,
  CopiedHistory,
  CopiedKind,
  CopiedRows,
  CopyStore,
  ListedRows,
  RemovedKind,
} from "../../ports/copy-store.ts";
import { SHARDS_MAX } from "../../protocol/item/damage.ts";
import { fullAfter } from "../../protocol/take/expiry.ts";
import { hourNumber } from "../../protocol/usage/hours.ts";
import { sheetWrite } from "../../protocol/usage/sheets.ts";
import { historyKey, scopeOfPlanRow, scopeOfRow } from "../../stored/config-keys.ts";
import { auditIdAt, eventItem } from "./audit.ts";
import { callerItem, refusalItem } from "./book-rows.ts";
import { type Attributes, attributesOf, newBucket } from "./codec.ts";
import { encodeConfig, hasLimits, historyIn, historyPlace, isHistoryOnly, LIMIT_HISTORY } from "./config-codec.ts";
import { childLinkItem, childLinkKey, entityItem, entityOf, PLAN_HISTORY, planItem } from "./entities-record.ts";
import { ownedItem, ownerItem, ownerOf, wholePartitions } from "./manifests.ts";
import type { NamespaceParts } from "./namespace-parts.ts";
import { chunksOf, cursorOf, pageAfter, placeAfter } from "./paging.ts";
import { tablePartition } from "./records.ts";
import { type RecordWrite, texts, updateRecord } from "./records-write.ts";
import { refusalLogItem } from "./refusal-log.ts";
import {
  auditKey,
  configKey,
  configResource,
  entityConfigRegistryKey,
  entityKey,
  entityPk,
  itemPlace,
  itemTableKey,
  META_SK,
  namesOf,
  OWNER,
  ownedKey,
  ownerKey,
  parseConfigKey,
  planKey,
  planMemberIndexKeys,
  planMemberKey,
  planPk,
  RESOURCES,
  resourcePk,
  resourceRegistryKey,
  systemIndexKeys,
  type TableKey,
  TTL,
} from "./schema.ts";
import { bookKey, refusalLogKey } from "./schema-leases.ts";

type Put = readonly [key: TableKey, attributes: Attributes];

const WRITES_AT_ONCE = 10;

/** A namespace of a table of our own as it is copied from or to. What is written is not announced: nobody has asked for it yet. */
export function dynamoCopies(parts: NamespaceParts, calendar: Calendar): CopyStore {
  const { records, namespaceId } = parts;
  const writeEach = async (writes: readonly RecordWrite[]): Promise<void> => {
    for (const chunk of chunksOf(writes, WRITES_AT_ONCE)) {
      const replies = await Promise.all(chunk.map((write) => records.writeOne(write)));
      for (const reply of replies) if (reply.kind === "unavailable") throw reply.cause;
    }
  };
  const writes: { readonly [Kind in CopiedKind]: (rows: readonly CopiedRows[Kind][], nowMs: number) => Promise<void> } =
    {
      plan: (rows) => records.putAll(rows.map((plan) => [planKey(namespaceId, plan.id), planItem(namespaceId, plan)])),
      entity: (rows) => records.putAll(rows.flatMap((entity) => entityPuts(namespaceId, entity))),
      config: async (rows) => {
        for (const { config } of rows) await demandFor(parts.gate, config);
        await records.putAll(
          rows.flatMap(({ scope, config }): readonly Put[] => {
            const item = encodeConfig(config, undefined, { namespaceId, scope }, undefined);
            return item === undefined ? [] : [[configKey(namespaceId, scope), item]];
          }),
        );
      },
      history: (rows) => writeEach(rows.map((row) => historyWrite(namespaceId, row))),
      owner: (rows) =>
        records.putAll(rows.map((row) => [ownerKey(namespaceId, row.owner), ownerItem(namespaceId, row)])),
      owned: (rows) =>
        records.putAll(rows.map((row) => [ownedKey(namespaceId, pieceKey(row.piece)), ownedItem(namespaceId, row)])),
      bucket: async (rows, nowMs) => {
        const isBeyond = rows.some(({ state }) => state.limits.some(({ limit }) => isBeyondRates(limit)));
        if (isBeyond) await parts.gate.demandBeyondRates();
        await records.putAll(rows.map((row) => bucketPut(namespaceId, row, nowMs, calendar)));
      },
      usage: (rows) => writeEach(rows.map((row) => hourWrite(namespaceId, row, parts.kept.keptS))),
      refusal: (rows) =>
        records.putAll(
          rows.map((row) => [bookKey("REFUSED", namespaceId, row), refusalItem(namespaceId, row, parts.kept.keptS)]),
        ),
      caller: (rows) =>
        records.putAll(
          rows.map((row) => [bookKey("CALLED", namespaceId, row), callerItem(namespaceId, row, parts.kept.keptS)]),
        ),
      refusalLog: (rows) =>
        records.putAll(rows.map((row) => [refusalLogKey(namespaceId, row), refusalLogItem(namespaceId, row)])),
      audit: (rows) =>
        records.putAll(
          rows.map(({ event, place }) => {
            const auditId = auditIdAt(event, place);
            const untilS = Math.ceil(event.atMs / 1000) + parts.audit.retention.keptS;
            return [auditKey(namespaceId, event.entityId, auditId), eventItem(namespaceId, event, auditId, untilS)];
          }),
        ),
    };
  const lists: { readonly [Kind in keyof ListedRows]: (page: PageRequest) => Promise<Page<ListedRows[Kind]>> } = {
    history: (page) => listHistories(parts, page),
    owner: (page) =>
      pageAfter(
        page,
        (after) => owners(parts, after),
        ({ owner }) => owner,
      ),
    audit: (page) => parts.audit.listOldest(page),
  };
  return {
    keepsUsageDays: true,
    list: <Kind extends keyof ListedRows>(kind: Kind, page: PageRequest) =>
      lists[kind](page) as Promise<Page<ListedRows[Kind]>>,
    write: (kind, rows, nowMs): MaybePromise<void> => {
      if (rows.length === 0) return;
      return (writes[kind] as (rows: unknown, nowMs: number) => Promise<void>)(rows, nowMs);
    },
    remove: (kind, rows) => records.deleteAll(rows.flatMap((row) => REMOVED[kind](namespaceId, row as never))),
    finish: () => putRegistries(parts),
  };
}

const REMOVED: { readonly [Kind in RemovedKind]: (namespaceId: string, row: CopiedRows[Kind]) => readonly TableKey[] } =
  {
    history: (id, { key }) => (key[0] === "stints" ? [] : [configKey(id, scopeOf(key))]),
    owner: (id, { owner }) => [ownerKey(id, owner)],
    owned: (id, { piece }) => [ownedKey(id, pieceKey(piece))],
  };

async function demandFor(
  gate: NamespaceParts["gate"],
  { limits, override, accessOverride }: StoredConfig,
): Promise<void> {
  await gate.demandFor([...limits, ...(override?.limits ?? [])]);
  if (override !== undefined || accessOverride !== undefined) await gate.demandOverrides();
}

/** The record, and what is beside its parent and its plan: indexes would lag. */
function entityPuts(namespaceId: string, entity: CopiedRows["entity"]): readonly Put[] {
  const { id, parentId, planId, createdAtMs } = entity;
  const incarnation = createHash("sha256").update(`${namespaceId}\n${id}`).digest("hex").slice(0, 16);
  const { [PLAN_HISTORY]: _, ...item } = entityItem(namespaceId, entity, { incarnation, atMs: createdAtMs });
  return [
    [entityKey(namespaceId, id), item],
    ...(parentId === undefined
      ? []
      : [[childLinkKey(namespaceId, parentId, id), childLinkItem(namespaceId, parentId)] as const]),
    ...(planId === undefined
      ? []
      : [[planMemberKey(namespaceId, planId, id), texts(planMemberIndexKeys(namespaceId, planId, id))] as const]),
  ];
}

function scopeOf([of, owner, resource]: CopiedHistory["key"]): ConfigScope {
  return of === "plan" ? scopeOfPlanRow(owner, resource) : scopeOfRow(owner, resource);
}

/** A history stands on the item of its scope, or alone where that says nothing any more. */
function historyWrite(namespaceId: string, { key, versions }: CopiedHistory): RecordWrite {
  if (key[0] === "stints") {
    return updateRecord(entityKey(namespaceId, key[1]), { set: { [PLAN_HISTORY]: { S: versions } } }, undefined);
  }
  const scope = scopeOf(key);
  const set = { ...historyPlace({ namespaceId, scope }), [LIMIT_HISTORY]: { S: versions } };
  return updateRecord(configKey(namespaceId, scope), { set }, undefined);
}

function bucketPut(namespaceId: string, { key: bucket, state }: CopiedBucket, nowMs: number, calendar: Calendar): Put {
  const item = newBucket(state, calendar);
  for (const held of state.limits) {
    if (held.told === undefined) continue;
    item[namesOf(held.name).th] = markText({ percent: held.told, period: periodOf(held, state.epochMs, calendar) });
  }
  const untilS = fullAfter(state, nowMs, calendar);
  if (untilS !== undefined) item[TTL] = untilS;
  const key = { bucket, shard: 0 };
  return [itemTableKey(namespaceId, key), { ...attributesOf(item), ...texts(itemPlace(namespaceId, key)) }];
}

/**
 * An hour on the sheet of a shard that no bucket has: what the bucket itself counts of the same hour from now on goes to the sheet
 * of its own shard, and both are added up.
 */
function hourWrite(namespaceId: string, row: CopiedRows["usage"], keptS: number): RecordWrite {
  const key = { bucket: bucketKey(row.entityId, row.resource), shard: SHARDS_MAX };
  const counts = new Map(namedCounts(row).map(([name, count]) => [name, asCount(BigInt(count) * 1000n)]));
  const hour = { hour: hourNumber(row.windowStartMs), requests: row.requests, counts };
  const { key: sheet, set } = sheetWrite(key, hour, { usageKeptS: () => keptS });
  return updateRecord(
    itemTableKey(namespaceId, sheet),
    { set: { ...attributesOf(set), ...texts(itemPlace(namespaceId, sheet)) } },
    undefined,
  );
}

function asCount(count: bigint): number | bigint {
  const number = Number(count);
  return Number.isSafeInteger(number) ? number : count;
}

async function* owners(
  { records, namespaceId }: NamespaceParts,
  after: string | undefined,
): AsyncGenerator<ListedRows["owner"]> {
  const { pk, sk: prefix } = ownerKey(namespaceId, "");
  // Every character of an owner sorts after the space and before the tilde.
  const range = { from: after === undefined ? prefix : `${prefix}${after} `, to: `${prefix}~` };
  for await (const item of records.query(tablePartition(pk, range))) yield ownerOf(item, item[OWNER]?.S ?? "");
}

/** Lists former settings of scopes and of the plans of entities, partition by partition: a page ends between two partitions. */
async function listHistories(
  parts: NamespaceParts,
  { limit, cursor }: PageRequest,
): Promise<Page<ListedRows["history"]>> {
  const { namespaceId } = parts;
  const [after] = placeAfter(cursor, 1) ?? [];
  const items: CopiedHistory[] = [];
  if (after === undefined) {
    const system = [{ level: "system" }, { level: "systemTotal" }] as const;
    items.push(
      ...(await readHistories(
        parts,
        system.map((scope) => configKey(namespaceId, scope)),
      )),
    );
  }
  for (const kind of [entityPk, planPk, resourcePk].map((pk) => pk(namespaceId, ""))) {
    if (after !== undefined && after >= `${kind}~`) continue;
    const from = after === undefined || after < kind ? kind : `${after}!`;
    const isWanted = (key: TableKey) => key.sk === META_SK || parseConfigKey(key) !== undefined;
    for await (const keys of wholePartitions(parts, { from, to: `${kind}~` }, isWanted)) {
      items.push(...(await readHistories(parts, keys)));
      const last = keys.at(-1);
      if (items.length >= limit && last !== undefined) return { items, cursor: cursorOf(last.pk) };
    }
  }
  return { items };
}

async function readHistories(
  { records }: NamespaceParts,
  keys: readonly TableKey[],
): Promise<readonly CopiedHistory[]> {
  const found = await records.getAll(keys);
  return keys.flatMap((key, i): readonly CopiedHistory[] => {
    const item = found[i];
    const scope = parseConfigKey(key);
    const entity = scope === undefined ? entityOf(item) : undefined;
    const text = scope === undefined ? item?.[PLAN_HISTORY]?.S : item?.[LIMIT_HISTORY]?.S;
    if (item === undefined || text === undefined) return [];
    if (scope === undefined) {
      return entity === undefined ? [] : [{ key: ["stints", entity.id, ""], versions: textByInstants(text) }];
    }
    if (historyIn(item) === undefined) return [];
    return [{ key: historyKey(scope), versions: textByInstants(text) }];
  });
}

/** The lists of resources, from all configuration that is there. */
async function putRegistries(parts: NamespaceParts): Promise<void> {
  const { records, namespaceId } = parts;
  const counts = new Map<string, number>();
  const resources = new Set<string>();
  for (const kind of [entityPk, resourcePk].map((pk) => pk(namespaceId, ""))) {
    const range = { from: kind, to: `${kind}~` };
    for await (const keys of wholePartitions(parts, range, (key) => parseConfigKey(key) !== undefined)) {
      for (const [i, item] of (await records.getAll(keys)).entries()) {
        const scope = parseConfigKey(keys[i] as TableKey) as ConfigScope;
        const resource = configResource(scope);
        if (resource === undefined || item === undefined || isHistoryOnly(item)) continue;
        if ("entityId" in scope) counts.set(resource, (counts.get(resource) ?? 0) + 1);
        else if (hasLimits(item)) resources.add(resource);
      }
    }
  }
  const place = texts(systemIndexKeys(namespaceId));
  const counted = Object.fromEntries(Array.from(counts, ([name, count]) => [name, { N: String(count) }]));
  await records.putAll([
    ...(counts.size === 0 ? [] : [[entityConfigRegistryKey(namespaceId), { ...place, ...counted }] as const]),
    ...(resources.size === 0
      ? []
      : [[resourceRegistryKey(namespaceId), { ...place, [RESOURCES]: { SS: [...resources] } }] as const]),
  ]);
}
