import type { Span, Sum, SumQuery, Sums } from "../../ports/record-store.ts";
import { addText, type Counters } from "../../stored/open-hour.ts";
import { type Connection, textOf } from "./connection.ts";
import { memberOf, type NamespaceKeys, partsOf, rangeOf } from "./keys.ts";
import { allMembersIn, RANGE_MAX, type Range, valuesOf } from "./range.ts";
import { keptIn } from "./record-texts.ts";
import type { RecordParts } from "./writes.ts";

/** What a bucket has counted in its open hour, from its bytes; undefined: nothing. */
export type OpenHours = (
  bucket: Uint8Array,
) => { readonly hourMs: number; readonly counts: Readonly<Record<string, bigint>> } | undefined;

/** What was counted of one key in one hour. */
interface CountedHour {
  readonly hourMs: number;
  readonly key: readonly string[];
  readonly counts: ReadonlyMap<string, bigint>;
}

type Counted = Pick<SumQuery, "kind" | "entityId"> & { readonly resource?: string | undefined };

/** Sums of the hours in the spans that have left their buckets and, of usage, of those that buckets still carry. */
export async function sumsOf(parts: RecordParts, scope: string, query: SumQuery, openHours: OpenHours): Promise<Sums> {
  const { kind, spans, after, entityId, resource, limit, limitMax } = query;
  const endMs = spans.at(-1)?.endMs ?? 0;
  const keys = parts.keysOf(scope);
  const open = kind === "usage" ? await openHoursOf(parts, keys, { kind, entityId, resource }, openHours) : [];
  const sums: Sum[] = [];
  // Twice as many spans each time: few trips where there is little, and little in vain where there is much.
  for (let from = 0, count = 1; from < spans.length && sums.length < limitMax; from += count, count *= 2) {
    const some = spans.slice(from, from + count);
    const all: Span = { startMs: some[0]?.startMs ?? 0, endMs: some.at(-1)?.endMs ?? 0 };
    const found = await hoursIn(parts, keys, { kind, entityId, resource }, all, { open, openHours });
    const hours = found.filter(
      ({ key }) => (resource ?? key[1]) === key[1] && (limit === undefined || key[2] === limit),
    );
    for (const [n, { startMs, endMs: untilMs }] of some.entries()) {
      const isLater = ({ key }: Pick<Sum, "key">) => from + n > 0 || after === undefined || compared(key, after) > 0;
      const inSpan = addedUp(hours.filter(({ hourMs }) => hourMs >= startMs && hourMs < untilMs));
      sums.push(...inSpan.filter(isLater).map((sum) => ({ startMs, ...sum })));
    }
  }
  const later = open.map(({ hourMs }) => hourMs).filter((hourMs) => hourMs >= endMs);
  const next = await nextHour(parts, keys, { kind, entityId }, endMs);
  if (next !== undefined) later.push(next);
  return { sums: sums.slice(0, limitMax), nextHourMs: later.length === 0 ? undefined : Math.min(...later) };
}

const INDEX_OF = {
  usage: { all: "usageByHour", entity: "usageByBucket" },
  refusal: { all: "refusals", entity: "refusalsByEntity" },
  caller: { all: "callers", entity: "callersByEntity" },
} as const;

/** Entries of an index of hours. Those of usage of one entity are ordered by resource first: all of them are read. */
function entriesFrom(keys: NamespaceKeys, { kind, entityId }: Counted, fromMs: number, toMs: number) {
  const { all, entity } = INDEX_OF[kind];
  const bounds = (...begin: readonly string[]): Range => ({
    from: `[${memberOf(...begin, Math.max(0, fromMs))}`,
    to: toMs > MS_MAX ? rangeOf(...begin).to : `(${memberOf(...begin, Math.max(0, toMs))}`,
  });
  const isInHours = (hourMs: number) => hourMs >= fromMs && hourMs < toMs;
  if (entityId === undefined) {
    const keyOf = ([hour, ...rest]: readonly string[]) => ({ hourMs: Number(hour), rest });
    return { index: keys.index(all), range: bounds(), keyOf, isInHours };
  }
  if (kind === "usage") {
    const keyOf = ([id = "", resource = "", hour]: readonly string[]) => ({
      hourMs: Number(hour),
      rest: [id, resource],
    });
    return { index: keys.index(entity), range: rangeOf(entityId), keyOf, isInHours };
  }
  const keyOf = ([id = "", hour, ...rest]: readonly string[]) => ({ hourMs: Number(hour), rest: [id, ...rest] });
  return { index: keys.index(entity), range: bounds(entityId), keyOf, isInHours };
}

/** Later than every hour. */
const MS_MAX = 9_999_999_999_999_998;

async function hoursIn(
  parts: RecordParts,
  keys: NamespaceKeys,
  counted: Counted,
  span: Span,
  beside: { readonly open: readonly CountedHour[]; readonly openHours: OpenHours },
): Promise<readonly CountedHour[]> {
  const { connection } = parts;
  const { index, range, keyOf, isInHours } = entriesFrom(keys, counted, span.startMs, span.endMs);
  const entries = (await allMembersIn(connection, index, range))
    .map((member) => keyOf(partsOf(member)))
    .filter(({ hourMs, rest }) => isInHours(hourMs) && (counted.resource ?? rest[1]) === rest[1]);
  if (counted.kind === "usage") return usageIn(parts, keys, entries, span, beside);
  const { kind } = counted;
  const hours: CountedHour[] = [];
  for (let from = 0; from < entries.length; from += RANGE_MAX) {
    const some = entries.slice(from, from + RANGE_MAX);
    const names = some.map(({ hourMs, rest }) => nameOf(keys, kind, hourMs, rest));
    for (const [i, value] of (await valuesOf(connection, names)).entries()) {
      const { hourMs, rest } = some[i] as (typeof some)[number];
      if (textOf(value) !== undefined) hours.push(...countsIn(kind, hourMs, rest, keptIn(value)?.body));
    }
  }
  return hours;
}

/**
 * An hour moves from its bucket to the table of usage in one step, so each bucket is read together with its hours: with those that the index has,
 * and with the one that was open when the buckets were looked at before it.
 */
async function usageIn(
  { connection }: RecordParts,
  keys: NamespaceKeys,
  entries: readonly { readonly hourMs: number; readonly rest: readonly string[] }[],
  { startMs, endMs }: Span,
  { open, openHours }: { readonly open: readonly CountedHour[]; readonly openHours: OpenHours },
): Promise<readonly CountedHour[]> {
  const buckets = new Map<string, { readonly key: readonly string[]; readonly hours: Set<number> }>();
  const openThen = open.map(({ hourMs, key }) => ({ hourMs, rest: key }));
  const isInSpan = (hourMs: number) => hourMs >= startMs && hourMs < endMs;
  for (const { hourMs, rest } of [...entries, ...openThen.filter((one) => isInSpan(one.hourMs))]) {
    const bucket = buckets.get(rest.join("\n")) ?? { key: rest, hours: new Set() };
    buckets.set(rest.join("\n"), bucket);
    bucket.hours.add(hourMs);
  }
  const found: CountedHour[] = [];
  const waiting = [...buckets.values()];
  while (waiting.length > 0) {
    const some: (typeof waiting)[number][] = [];
    for (let count = 0; count < RANGE_MAX && waiting.length > 0; count += some.at(-1)?.hours.size ?? 0) {
      some.push(waiting.shift() as (typeof waiting)[number]);
    }
    const names = some.flatMap(({ key: [entityId = "", resource = ""], hours }) => [
      keys.bucket({ entityId, resource }),
      ...Array.from(hours, (hourMs) => keys.usage(entityId, resource, hourMs)),
    ]);
    const values = [...(await valuesOf(connection, names))].values();
    for (const { key, hours } of some) {
      const bucket = values.next().value;
      const now = bucket instanceof Uint8Array ? openHours(bucket) : undefined;
      if (now !== undefined && isInSpan(now.hourMs)) {
        found.push({ hourMs: now.hourMs, key, counts: new Map(Object.entries(now.counts)) });
      }
      for (const hourMs of hours) {
        const text = textOf(values.next().value);
        const counts: Counters = new Map();
        if (text !== undefined) addText(counts, text);
        if (counts.size > 0) found.push({ hourMs, key, counts });
      }
    }
  }
  return found;
}

function nameOf(
  keys: NamespaceKeys,
  kind: SumQuery["kind"],
  hourMs: number,
  [entityId = "", resource = "", writer = ""]: readonly string[],
): string {
  if (kind === "usage") return keys.usage(entityId, resource, hourMs);
  return keys.record({ kind, key: [String(hourMs), entityId, resource, writer] });
}

interface RefusalBody {
  readonly counts: readonly {
    readonly limit: string;
    readonly level: string;
    readonly total: boolean;
    readonly count: number;
  }[];
}

interface CallerBody {
  readonly counts: Readonly<Record<string, number>>;
}

function countsIn(
  kind: "refusal" | "caller",
  hourMs: number,
  [entityId = "", resource = ""]: readonly string[],
  body: unknown,
): readonly CountedHour[] {
  if (kind === "caller") {
    const counts = Object.entries((body as CallerBody).counts).map(([name, count]) => [name, BigInt(count)] as const);
    return [{ hourMs, key: [entityId, resource], counts: new Map(counts) }];
  }
  return (body as RefusalBody).counts.map(({ limit, level, total, count }) => ({
    ...{ hourMs, key: [entityId, resource, limit, level, total ? "1" : "0"] },
    counts: new Map([["count", BigInt(count)]]),
  }));
}

/** The hours that buckets still carry: those of the entity and of the resource, if they are given. */
async function openHoursOf(
  { connection }: RecordParts,
  keys: NamespaceKeys,
  { entityId, resource }: Counted,
  openHours: OpenHours,
): Promise<readonly CountedHour[]> {
  const hours: CountedHour[] = [];
  const buckets = await bucketsOf(connection, keys, entityId, resource);
  for (let from = 0; from < buckets.length; from += RANGE_MAX) {
    const some = buckets.slice(from, from + RANGE_MAX);
    const names = some.map(([id, on]) => keys.bucket({ entityId: id, resource: on }));
    for (const [i, value] of (await valuesOf(connection, names)).entries()) {
      const open = value instanceof Uint8Array ? openHours(value) : undefined;
      if (open === undefined) continue;
      const counts = Object.entries(open.counts);
      hours.push({ hourMs: open.hourMs, key: some[i] as (typeof some)[number], counts: new Map(counts) });
    }
  }
  return hours;
}

type BucketName = readonly [entityId: string, resource: string];

async function bucketsOf(
  connection: Connection,
  keys: NamespaceKeys,
  entityId: string | undefined,
  resource: string | undefined,
): Promise<readonly BucketName[]> {
  if (entityId === undefined && resource !== undefined) {
    const members = await allMembersIn(connection, keys.index("bucketsByResource"), rangeOf(resource));
    return members.map(partsOf).map(([on = "", id = ""]) => [id, on]);
  }
  const range = entityId === undefined ? rangeOf() : rangeOf(entityId);
  const members = await allMembersIn(connection, keys.index("bucketsByEntity"), range);
  return members.map(partsOf).flatMap(([id = "", on = ""]) => ((resource ?? on) === on ? [[id, on] as const] : []));
}

/** The first hour from then on of which something is kept. */
async function nextHour(
  parts: RecordParts,
  keys: NamespaceKeys,
  counted: Counted,
  fromMs: number,
): Promise<number | undefined> {
  const { connection } = parts;
  const { index, range, keyOf } = entriesFrom(keys, counted, fromMs, Number.POSITIVE_INFINITY);
  const entries = (await allMembersIn(connection, index, range))
    .map((member) => keyOf(partsOf(member)))
    .filter(({ hourMs }) => hourMs >= fromMs)
    .toSorted((a, b) => a.hourMs - b.hourMs);
  for (let from = 0; from < entries.length; from += RANGE_MAX) {
    const some = entries.slice(from, from + RANGE_MAX);
    const values = await valuesOf(
      connection,
      some.map(({ hourMs, rest }) => nameOf(keys, counted.kind, hourMs, rest)),
    );
    const at = values.findIndex((value) => textOf(value) !== undefined);
    if (at >= 0) return some[at]?.hourMs;
  }
  return undefined;
}

function addedUp(hours: readonly CountedHour[]): readonly Omit<Sum, "startMs">[] {
  const byKey = new Map<string, { readonly key: readonly string[]; readonly counts: Map<string, bigint> }>();
  for (const { key, counts } of hours) {
    const id = key.join("\n");
    const sum = byKey.get(id) ?? { key, counts: new Map() };
    byKey.set(id, sum);
    for (const [name, count] of counts) sum.counts.set(name, (sum.counts.get(name) ?? 0n) + count);
  }
  return [...byKey.values()]
    .toSorted((a, b) => compared(a.key, b.key))
    .map(({ key, counts }) => ({
      key,
      counts: Object.fromEntries(Array.from(counts, ([name, count]) => [name, String(count)])),
    }));
}

function compared(a: readonly string[], b: readonly string[]): number {
  for (const [i, part] of a.entries()) if (part !== b[i]) return part < (b[i] as string) ? -1 : 1;
  return 0;
}
