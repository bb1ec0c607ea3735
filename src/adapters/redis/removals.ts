import type { CommitReply, RecordKey } from "../../ports/record-store.ts";
import type { SlotCommit } from "./commit-script.ts";
import { type Drop, dropKeys } from "./drops.ts";
import { INDEXES, type IndexName, type NamespaceKeys, partsOf, rangeOf } from "./keys.ts";
import { allMembersIn, membersIn, RANGE_MAX, valuesOf } from "./range.ts";
import { hintsOf, keptIn, restOf } from "./record-texts.ts";
import type { RecordParts, RecordWrite } from "./writes.ts";

/** A change empties at most so many old hours and counts of an entity at once; the rest goes behind it, in chunks. */
const EMPTIED_MAX = 2_000;

/** What an entity has, as it is removed. */
interface EntityRemoval {
  readonly puts: readonly RecordWrite[];
  /** Takes make buckets, hours and operations without a new generation: there must be no more of them than were found. */
  readonly counts: NonNullable<SlotCommit["counts"]>;
  /** Goes on behind the change. Where it does not come to its end, the sweep of any process goes on. */
  readonly finish: (version: number) => Promise<void>;
}

/** Indexes of what an entity has, by how their entries begin, and the key that an entry names. */
const OF_ENTITY: readonly {
  readonly index: IndexName;
  readonly begin: readonly string[];
  readonly isMadeByTakes: boolean;
  readonly keyOf: (
    keys: NamespaceKeys,
    parts: readonly string[],
  ) => { readonly key: string; readonly record?: RecordKey };
}[] = [
  ...(["entity", "stints"] as const).map((of) => ({
    ...{ index: "histories" as const, begin: [of], isMadeByTakes: false },
    keyOf: (keys: NamespaceKeys, key: readonly string[]) => recordIn(keys, { kind: "history", key }),
  })),
  {
    ...{ index: "configs", begin: ["entity"], isMadeByTakes: false },
    keyOf: (keys, key) => recordIn(keys, { kind: "config", key }),
  },
  {
    ...{ index: "bucketsByEntity", begin: [], isMadeByTakes: true },
    keyOf: (keys, [entityId = "", resource = ""]) => ({ key: keys.bucket({ entityId, resource }) }),
  },
  {
    ...{ index: "operationsByEntity", begin: [], isMadeByTakes: true },
    keyOf: (keys, [entityId = "", resource = "", key = ""]) => ({ key: keys.operation(entityId, resource, key) }),
  },
];

/** Those of which there may be very many, and to which nobody adds but for the present: they may go behind the change. */
const COUNTED_OF_ENTITY: typeof OF_ENTITY = [
  {
    ...{ index: "refusalsByEntity", begin: [], isMadeByTakes: false },
    keyOf: (keys, [entity = "", hour, ...rest]) =>
      recordIn(keys, { kind: "refusal", key: [String(Number(hour)), entity, ...rest] }),
  },
  {
    ...{ index: "refusalLogsByEntity", begin: [], isMadeByTakes: false },
    keyOf: (keys, [entity = "", hour, ...rest]) =>
      recordIn(keys, { kind: "refusalLog", key: [String(Number(hour)), entity, ...rest] }),
  },
  {
    ...{ index: "callersByEntity", begin: [], isMadeByTakes: false },
    keyOf: (keys, [entity = "", hour, ...rest]) =>
      recordIn(keys, { kind: "caller", key: [String(Number(hour)), entity, ...rest] }),
  },
];

function recordIn(keys: NamespaceKeys, record: RecordKey) {
  return { key: keys.record(record), record };
}

/** Hours of usage that began so long before the newest one are written by no take any more. */
const LATE_HOURS_MS = 72 * 3_600_000;

/** What a deletion left behind, while it is being removed: counts of versions up to its own, hours until then. */
interface Leftover {
  readonly usageUntilMs: number;
}

/** Prepares the deletion of all that an entity has, with itself. */
export async function entityRemoval(parts: RecordParts, scope: string, entityId: string): Promise<EntityRemoval> {
  const { connection, keysOf } = parts;
  const keys = keysOf(scope);
  const puts: RecordWrite[] = [{ ...recordIn(keys, { kind: "entity", key: [entityId] }), rest: "", hints: [] }];
  const counts: { index: string; from: string; to: string; count: number }[] = [];
  for (const { index: name, begin, isMadeByTakes, keyOf } of OF_ENTITY) {
    const range = rangeOf(...begin, entityId);
    const index = keys.index(name);
    const members = await allMembersIn(connection, index, range);
    puts.push(...members.map((member) => ({ ...keyOf(keys, partsOf(member)), rest: "", hints: [] })));
    if (isMadeByTakes) counts.push({ index, ...range, count: members.length });
  }
  const usage = { index: keys.index("usageByBucket"), ...rangeOf(entityId) };
  const hours = await allMembersIn(connection, usage.index, usage);
  counts.push({ ...usage, count: hours.length });
  const newestMs = Math.max(0, ...hours.map((member) => Number(partsOf(member)[2])));
  const untilMs = hours.length > EMPTIED_MAX ? newestMs - LATE_HOURS_MS : -1;
  for (const member of hours) {
    const [, resource = "", hour] = partsOf(member);
    if (Number(hour) > untilMs) puts.push({ key: keys.usage(entityId, resource, Number(hour)), rest: "", hints: [] });
  }
  const counted: RecordWrite[] = [];
  for (const { index, begin, keyOf } of COUNTED_OF_ENTITY) {
    const members = await allMembersIn(connection, keys.index(index), rangeOf(...begin, entityId));
    counted.push(...members.map((member) => ({ ...keyOf(keys, partsOf(member)), rest: "", hints: [] })));
  }
  if (untilMs < 0 && counted.length <= EMPTIED_MAX) {
    const finish = async () => clearEntries(parts, scope, entityId);
    return { puts: [...puts, ...counted], counts, finish };
  }
  const leftover: Leftover = { usageUntilMs: untilMs };
  const mark = {
    ...{ key: keys.deletedEntity(entityId), rest: restOf({ by: {}, body: leftover }) },
    hints: [keys.hint("deletedEntities", entityId)],
  };
  return { puts: [...puts, mark], counts, finish: () => removeLeftover(parts, scope, entityId).then(() => {}) };
}

/** Clears the entries of buckets, hours and operations that were emptied; entries of records go by themselves. */
async function clearEntries(
  { connection, keysOf, drops }: RecordParts,
  scope: string,
  entityId: string,
): Promise<void> {
  const keys = keysOf(scope);
  for (const name of ["bucketsByEntity", "operationsByEntity", "usageByBucket"] as const) {
    const members = await membersIn(connection, keys.index(name), rangeOf(entityId), {
      limitMax: RANGE_MAX,
      isBackwards: false,
    });
    drops.add(
      scope,
      members.map((member) => dropOf(keys, name, partsOf(member), "")),
    );
  }
}

function dropOf(
  keys: NamespaceKeys,
  name: "bucketsByEntity" | "operationsByEntity" | "usageByBucket",
  parts: readonly string[],
  version: string,
): Drop {
  const [entityId = "", resource = "", third = ""] = parts;
  if (name === "bucketsByEntity") {
    return { key: keys.bucket({ entityId, resource }), version, hints: keys.bucketHints({ entityId, resource }) };
  }
  if (name === "usageByBucket") {
    const hourMs = Number(third);
    return { key: keys.usage(entityId, resource, hourMs), version, hints: keys.usageHints(entityId, resource, hourMs) };
  }
  const hints = [keys.hint("operationsByEntity", entityId, resource, third)];
  return { key: keys.operation(entityId, resource, third), version, hints };
}

/** Removes what the deletion of an entity left behind; answers how many keys went. */
export async function removeLeftover(parts: RecordParts, scope: string, entityId: string): Promise<number> {
  const { connection, keysOf, answerMs } = parts;
  const keys = keysOf(scope);
  const mark = keys.deletedEntity(entityId);
  const [value] = await valuesOf(connection, [mark]);
  const kept = keptIn(value);
  const markHints = [keys.hint("deletedEntities", entityId)];
  if (kept === undefined) return dropKeys(connection, [{ key: mark, version: "", hints: markHints }], answerMs);
  const { usageUntilMs } = kept.body as Leftover;
  let dropped = 0;
  const hours = await allMembersIn(connection, keys.index("usageByBucket"), rangeOf(entityId));
  const old = hours.map(partsOf).filter(([, , hour]) => Number(hour) <= usageUntilMs);
  const hoursGone = await dropKeys(
    connection,
    old.map((each) => dropOf(keys, "usageByBucket", each, "*")),
    answerMs,
  );
  dropped += hoursGone;
  for (const { index, keyOf } of COUNTED_OF_ENTITY) {
    const members = await allMembersIn(connection, keys.index(index), rangeOf(entityId));
    for (let from = 0; from < members.length; from += RANGE_MAX) {
      const named = members.slice(from, from + RANGE_MAX).map((member) => keyOf(keys, partsOf(member)));
      const values = await valuesOf(
        connection,
        named.map(({ key }) => key),
      );
      const isOld = (i: number) => (keptIn(values[i])?.version ?? 0) <= kept.version;
      const gone = named.filter((_, i) => isOld(i));
      const drops = gone.map(({ key, record }) => ({
        key,
        version: "*",
        hints: hintsOf(keys, record as RecordKey, {}),
      }));
      const went = await dropKeys(connection, drops, answerMs);
      dropped += went;
    }
  }
  await clearEntries(parts, scope, entityId);
  await dropKeys(connection, [{ key: mark, version: "*", hints: markHints }], answerMs);
  return dropped + 1;
}

/** The key that an entry of an index names; indexes that are left out here name keys that others name, too. */
const PURGED: Partial<Record<IndexName, (keys: NamespaceKeys, parts: readonly string[]) => string>> = {
  bucketsByEntity: (keys, [entityId = "", resource = ""]) => keys.bucket({ entityId, resource }),
  usageByBucket: (keys, [entityId = "", resource = "", hour]) => keys.usage(entityId, resource, Number(hour)),
  operationsByEntity: (keys, [entityId = "", resource = "", key = ""]) => keys.operation(entityId, resource, key),
  lanes: (keys, [, lane = ""]) => keys.lane(lane),
  audit: (keys, [number]) => keys.audit(Number(number)),
  eventsByTime: (keys, [, eventId = ""]) => keys.event(eventId),
  leasesDue: (keys, [, id = ""]) => keys.record({ kind: "lease", key: [id] }),
  forgotten: (keys, [, letter = "", key = ""]) => keys.forgotten(letter, key),
  entities: (keys, key) => keys.record({ kind: "entity", key }),
  plans: (keys, key) => keys.record({ kind: "plan", key }),
  configs: (keys, key) => keys.record({ kind: "config", key }),
  histories: (keys, key) => keys.record({ kind: "history", key }),
  owners: (keys, key) => keys.record({ kind: "owner", key }),
  owned: (keys, key) => keys.record({ kind: "owned", key }),
  refusalLogs: (keys, [hour, ...rest]) => keys.record({ kind: "refusalLog", key: [String(Number(hour)), ...rest] }),
  refusals: (keys, [hour, ...rest]) => keys.record({ kind: "refusal", key: [String(Number(hour)), ...rest] }),
  callers: (keys, [hour, ...rest]) => keys.record({ kind: "caller", key: [String(Number(hour)), ...rest] }),
  deletedEntities: (keys, [entityId = ""]) => keys.deletedEntity(entityId),
};

/** Removes some of what is in a namespace, but not its own record, its generation and its numbers, which never go back. */
export async function purgeSome(
  { connection, keysOf, answerMs }: RecordParts,
  namespaceId: string,
  limitMax: number,
): Promise<CommitReply> {
  const keys = keysOf(namespaceId);
  let deleted = 0;
  let looked = 0;
  for (const [name, keyOf] of Object.entries(PURGED)) {
    const index = keys.index(name as IndexName);
    const limit = { limitMax: limitMax - looked, isBackwards: false };
    const members = limit.limitMax <= 0 ? [] : await membersIn(connection, index, rangeOf(), limit);
    looked += members.length;
    const named = members.map((member) => ({
      key: keyOf(keys, partsOf(member)),
      version: "*",
      hints: [{ index, member }],
    }));
    const went = await dropKeys(connection, named, answerMs);
    deleted += went;
  }
  if (looked >= limitMax) return { kind: "done", generations: new Map(), deleted, mayBeMore: true };
  const others = Object.keys(INDEXES).filter((name) => !(name in PURGED));
  await connection.send([
    ["DEL", keys.changes, keys.lostWrites, ...others.map((name) => keys.index(name as IndexName))],
  ]);
  return { kind: "done", generations: new Map(), deleted };
}
