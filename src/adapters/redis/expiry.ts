import type { ExpiryBounds, RecordColumns } from "../../ports/record-store.ts";
import { REGISTRY } from "../../records/bodies.ts";
import { laneWrittenAtMs } from "./batch-bytes.ts";
import { type Reply, textOf } from "./connection.ts";
import { type Drop, dropKeys } from "./drops.ts";
import { hintCommand, memberOf, type NamespaceKeys, partsOf } from "./keys.ts";
import { allMembersIn, membersIn, type Range, valuesOf } from "./range.ts";
import { hintsOf, type KeptRecord, keptIn } from "./record-texts.ts";
import { removeLeftover } from "./removals.ts";
import type { RecordParts } from "./writes.ts";

const DAY_MS = 86_400_000;

/** An entry of an index that begins with a time, and what is dropped if it is old enough; undefined: it stays. */
type Judge = (keys: NamespaceKeys, parts: readonly string[], value: Reply) => Drop | undefined;

/** What is kept for a time: where its entries are, by time, and from when on it stays. */
interface Kept {
  readonly index: Parameters<NamespaceKeys["index"]>[0];
  readonly untilMs: number | undefined;
  readonly keyOf: (keys: NamespaceKeys, parts: readonly string[]) => string;
  readonly judge: Judge;
}

const all = (key: string, hints: Drop["hints"]): Drop => ({ key, version: "*", hints });

/** Removes some of what is old, of all namespaces and of the registry; answers how many keys went. */
export async function expireRecords(parts: RecordParts, bounds: ExpiryBounds): Promise<number> {
  const { connection, keysOf } = parts;
  const registry = keysOf(REGISTRY);
  const ids = await allMembersIn(connection, registry.index("namespaces"), { from: "-", to: "+" });
  let dropped = 0;
  for (const id of [REGISTRY, ...ids]) {
    const went = await expireIn(parts, keysOf(id), bounds);
    dropped += went;
  }
  return dropped;
}

async function expireIn(parts: RecordParts, keys: NamespaceKeys, bounds: ExpiryBounds): Promise<number> {
  const { connection, answerMs } = parts;
  let dropped = 0;
  for (const kept of keptFor(bounds)) {
    if (kept.untilMs === undefined || kept.untilMs < 0) continue;
    const range: Range = { from: "-", to: `(${memberOf(Math.floor(kept.untilMs) + 1)}` };
    const limit = { limitMax: bounds.limitMax, isBackwards: false };
    const members = (await membersIn(connection, keys.index(kept.index), range, limit)).map(partsOf);
    const values = await valuesOf(
      connection,
      members.map((member) => kept.keyOf(keys, member)),
    );
    const drops = members.flatMap((member, i) => kept.judge(keys, member, values[i] as Reply) ?? []);
    const went = await dropKeys(connection, drops, answerMs);
    dropped += went;
  }
  const events = await expireAudit(parts, keys, bounds);
  const lanes = await expireLanes(parts, keys, bounds);
  dropped += events + lanes;
  const deleted = await membersIn(
    connection,
    keys.index("deletedEntities"),
    { from: "-", to: "+" },
    { limitMax: 1, isBackwards: false },
  );
  for (const entityId of deleted) {
    const went = await removeLeftover(parts, keys.namespaceId, entityId);
    dropped += went;
  }
  return dropped;
}

function keptFor({ nowMs, usageUntilMs, logUntilMs, operationsUntilMs }: ExpiryBounds): readonly Kept[] {
  const counted = (kind: "refusal" | "caller" | "refusalLog") => {
    const recordOf = ([hour, ...rest]: readonly string[]) => ({ kind, key: [String(Number(hour)), ...rest] });
    return {
      keyOf: (keys: NamespaceKeys, parts: readonly string[]) => keys.record(recordOf(parts)),
      judge: (keys: NamespaceKeys, parts: readonly string[]) =>
        all(keys.record(recordOf(parts)), hintsOf(keys, recordOf(parts), {})),
    };
  };
  return [
    {
      ...{ index: "usageByHour", untilMs: usageUntilMs },
      keyOf: (keys, [hour, entityId = "", resource = ""]) => keys.usage(entityId, resource, Number(hour)),
      judge: (keys, [hour, entityId = "", resource = ""]) =>
        all(keys.usage(entityId, resource, Number(hour)), keys.usageHints(entityId, resource, Number(hour))),
    },
    { index: "refusals", untilMs: usageUntilMs, ...counted("refusal") },
    { index: "callers", untilMs: usageUntilMs, ...counted("caller") },
    { index: "refusalLogs", untilMs: logUntilMs, ...counted("refusalLog") },
    {
      ...{ index: "operationsByTime", untilMs: operationsUntilMs },
      keyOf: (keys, [, entityId = "", resource = "", key = ""]) => keys.operation(entityId, resource, key),
      judge: (keys, [at, entityId = "", resource = "", key = ""], value) =>
        judgedOperation(keys, [Number(at), entityId, resource, key], value),
    },
    {
      ...{ index: "eventsByTime", untilMs: nowMs - DAY_MS },
      keyOf: (keys, [, eventId = ""]) => keys.event(eventId),
      judge: (keys, [at, eventId = ""]) => all(keys.event(eventId), keys.eventHints(eventId, Number(at))),
    },
    {
      ...{ index: "forgotten", untilMs: nowMs },
      keyOf: (keys, [, letter = "", key = ""]) => keys.forgotten(letter, key),
      judge: judgedForgotten,
    },
  ];
}

/** A key that was used for another operation since has another entry. */
function judgedOperation(
  keys: NamespaceKeys,
  [atMs, entityId, resource, key]: readonly [number, string, string, string],
  value: Reply,
): Drop {
  const name = keys.operation(entityId, resource, key);
  const hints = keys.operationHints(entityId, resource, key, atMs);
  const text = textOf(value);
  if (text === undefined) return { key: name, version: "", hints };
  if (Number(text.split(" ", 1)[0]) === atMs) return all(name, hints);
  const byTime = hints.filter(({ index }) => index === keys.index("operationsByTime"));
  return { key: name, version: text.split("\n", 1)[0] as string, hints: byTime };
}

/** A lease or a key of work, by the version that was seen: it may be renewed meanwhile. */
function judgedForgotten(keys: NamespaceKeys, [at, letter = "", key = ""]: readonly string[], value: Reply): Drop {
  const name = keys.forgotten(letter, key);
  const hints = [keys.hint("forgotten", Number(at), letter, key)];
  const kept = keptIn(value);
  const isOwn = kept !== undefined && forgottenAtMs(kept) === Number(at);
  return { key: name, version: kept === undefined ? "" : isOwn ? `-${kept.version}` : String(kept.version), hints };
}

function forgottenAtMs({ by }: KeptRecord): number | undefined {
  return (by as RecordColumns["leaseKey"]).forgottenAtMs;
}

/** The oldest events, as far as they are old enough. */
async function expireAudit(
  { connection, answerMs }: RecordParts,
  keys: NamespaceKeys,
  { auditUntilMs, limitMax }: ExpiryBounds,
): Promise<number> {
  const limit = { limitMax, isBackwards: false };
  const members = await membersIn(connection, keys.index("audit"), { from: "-", to: "+" }, limit);
  const numbers = members.map(Number);
  const values = await valuesOf(
    connection,
    numbers.map((number) => keys.audit(number)),
  );
  const drops = numbers.flatMap((number, i) => {
    const event = keptIn(values[i])?.body as { readonly atMs: number; readonly entityId: string } | undefined;
    if (event === undefined || event.atMs >= auditUntilMs) return [];
    return [all(keys.audit(number), keys.auditHints(number, event.entityId))];
  });
  return dropKeys(connection, drops, answerMs);
}

/** Lanes of processes that are gone for a day. The entry of a lane has the time of its first call; one that was used since gets a new one. */
async function expireLanes(
  { connection, answerMs }: RecordParts,
  keys: NamespaceKeys,
  { nowMs, limitMax }: ExpiryBounds,
): Promise<number> {
  const range: Range = { from: "-", to: `(${memberOf(Math.max(0, Math.floor(nowMs - DAY_MS)))}` };
  const members = await membersIn(connection, keys.index("lanes"), range, { limitMax, isBackwards: false });
  const entries = members.map((member) => ({ member, lane: partsOf(member)[1] as string }));
  const values = await valuesOf(
    connection,
    entries.map(({ lane }) => keys.lane(lane)),
  );
  const drops: Drop[] = [];
  for (const [i, { member, lane }] of entries.entries()) {
    const value = values[i];
    const writtenAtMs = value instanceof Uint8Array ? laneWrittenAtMs(value) : undefined;
    const old = { index: keys.index("lanes"), member };
    if (writtenAtMs === undefined || writtenAtMs < nowMs - DAY_MS) {
      drops.push(all(keys.lane(lane), [old]));
      continue;
    }
    await connection.send(keys.laneHints(lane, writtenAtMs).map(hintCommand));
    await connection.send([["ZREM", old.index, old.member]]);
  }
  return dropKeys(connection, drops, answerMs);
}
