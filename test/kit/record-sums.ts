import type { StoredRecord, Sum, SumQuery, Sums } from "../../src/ports/record-store.ts";

/** What was counted of one key in one hour. */
export interface CountedHour {
  readonly hourMs: number;
  /** As of a `Sum`. */
  readonly key: readonly string[];
  readonly counts: Readonly<Record<string, bigint>>;
}

interface RefusalBody {
  readonly counts: readonly {
    readonly limit: string;
    readonly level: string;
    readonly total: boolean;
    readonly count: number;
  }[];
}

export function refusalHours(records: readonly StoredRecord[]): readonly CountedHour[] {
  return records.flatMap(({ key: [hour, entityId, resource], body }) =>
    (body as RefusalBody).counts.map(({ limit, level, total, count }) => ({
      hourMs: Number(hour),
      key: [entityId as string, resource as string, limit, level, total ? "1" : "0"],
      counts: { count: BigInt(count) },
    })),
  );
}

/** Added up as `RecordStore.sums` says. */
export function summed(hours: readonly CountedHour[], query: SumQuery): Sums {
  const { spans, after, entityId, resource, limit, limitMax } = query;
  const ofEntity = hours.filter(({ key }) => entityId === undefined || key[0] === entityId);
  const meant = ofEntity.filter(
    ({ key }) => (resource ?? key[1]) === key[1] && (limit === undefined || key[2] === limit),
  );
  const sums = spans.flatMap(({ startMs, endMs }, n) =>
    inSpan(meant.filter(({ hourMs }) => hourMs >= startMs && hourMs < endMs))
      .filter(({ key }) => n > 0 || after === undefined || compared(key, after) > 0)
      .map((sum) => ({ startMs, ...sum })),
  );
  const endMs = spans.at(-1)?.endMs ?? 0;
  const later = ofEntity.map(({ hourMs }) => hourMs).filter((hourMs) => hourMs >= endMs);
  return { sums: sums.slice(0, limitMax), nextHourMs: later.length === 0 ? undefined : Math.min(...later) };
}

function inSpan(hours: readonly CountedHour[]): readonly Omit<Sum, "startMs">[] {
  const byKey = new Map<string, { readonly key: readonly string[]; readonly counts: Map<string, bigint> }>();
  for (const { key, counts } of hours) {
    const id = JSON.stringify(key);
    const cell = byKey.get(id) ?? { key, counts: new Map() };
    byKey.set(id, cell);
    for (const [name, count] of Object.entries(counts)) cell.counts.set(name, (cell.counts.get(name) ?? 0n) + count);
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
