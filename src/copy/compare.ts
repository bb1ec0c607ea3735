import { canonical } from "../domain/lease/idempotency.ts";
import { given } from "../domain/names/given.ts";
import type { CopiedBucket } from "../ports/copy-store.ts";
import { type Balance, balancesAt, bucketsAt, storedBuckets } from "./buckets.ts";
import { comparable, type Filled, stampIn } from "./fill.ts";
import { KINDS, type Kind, nameOf, type Reading } from "./kinds.ts";
import { every, isSameTally, type Ledger, NOTHING, type Tally, Tallying } from "./ledger.ts";
import type { Side } from "./side.ts";

/** Something that is not the same on both sides, although nobody has changed it since it was read. */
export interface Difference {
  /** What it is: `"entity"`, `"level"`, `"history"`, `"bucket"`, `"usage"` and the like. */
  readonly what: string;
  /** Whose it is. Absent: nobody's in particular. */
  readonly entityId?: string;
  /** On which resource. Absent: on none in particular. */
  readonly resource?: string;
  /** The limit, or the month and the counter of a sum. Absent: all of it. */
  readonly limit?: string;
  /** What the source says; `null`: nothing. */
  readonly from: unknown;
  /** What the copy says; `null`: nothing. */
  readonly to: unknown;
}

interface Compared {
  /** How many rows and buckets the source has changed since they were read. */
  readonly moved: number;
  readonly differences: readonly Difference[];
}

/** A report has at most this many: who sees them does not go on. */
const DIFFERENCES_MAX = 1_000;

/** Compares a copy that is filled with its source, and with what was read of that. */
export async function compare(from: Side, to: Side, ledger: Ledger, filled: Filled): Promise<Compared> {
  const differences: Difference[] = [];
  let moved = 0;
  const reading: Reading = { nowMs: from.deps.clock.now(), openFromMs: ledger.openFromMs, place: 0 };
  for (const kind of KINDS) {
    const read = filled.tallies[nameOf(kind)] ?? NOTHING;
    const found = await COMPARISONS[kind.compared]({ from, to, kind, read, reading, ledger, filled });
    moved += found.moved;
    differences.push(...found.differences.slice(0, DIFFERENCES_MAX - differences.length));
  }
  return { moved, differences };
}

interface Question {
  readonly from: Side;
  readonly to: Side;
  readonly kind: Kind;
  readonly read: Tally;
  readonly reading: Reading;
  readonly ledger: Ledger;
  readonly filled: Filled;
}

const COMPARISONS: Readonly<Record<Kind["compared"], (question: Question) => Promise<Compared>>> = {
  rows: async (question) => {
    const { from, to, kind, read, reading } = question;
    const written = await tallyOf(to, kind, reading);
    const isWhole = isSameTally(read, written);
    if (isWhole && isSameTally(read, await tallyOf(from, kind, reading))) return { moved: 0, differences: [] };
    const rows = await rowsThatDiffer(question);
    return isWhole ? { moved: rows.length, differences: [] } : { moved: 0, differences: rows };
  },
  sums: async ({ to, kind, read, reading }) => {
    const { sums } = await tallyOf(to, kind, reading);
    const names = [...new Set([...Object.keys(read.sums), ...Object.keys(sums)])].sort();
    const differences = names.flatMap((limit): readonly Difference[] => {
      const [before = "0", after = "0"] = [read.sums[limit], sums[limit]];
      return before === after ? [] : [{ what: kind.what, limit, from: Number(before), to: Number(after) }];
    });
    return { moved: 0, differences };
  },
  count: async ({ to, kind, read, reading, ledger }) => {
    const count = (await tallyOf(to, kind, reading)).count - ledger.eventsBefore;
    const differences = count === read.count ? [] : [{ what: kind.what, from: read.count, to: count }];
    return { moved: 0, differences };
  },
  balances: ({ from, to, filled }) => compareBuckets(from, to, filled.stamps),
};

async function tallyOf(side: Side, kind: Kind, reading: Reading): Promise<Tally> {
  const tallying = new Tallying(side.deps.digest, NOTHING);
  for await (const row of every((page) => kind.read(side, page, reading))) {
    tallying.add(comparable(kind, row), kind.sumsOf?.(row as never) ?? []);
  }
  return tallying.tally();
}

async function rowsThatDiffer({ from, to, kind, reading }: Question): Promise<readonly Difference[]> {
  const left = new Map<string, unknown>();
  for await (const row of every((page) => kind.read(to, page, reading))) left.set(kind.keyOf(row as never), row);
  const differences: Difference[] = [];
  for await (const row of every((page) => kind.read(from, page, reading))) {
    const key = kind.keyOf(row as never);
    const other = left.get(key);
    left.delete(key);
    if (canonical(row) === canonical(other)) continue;
    differences.push({ what: kind.what, ...kind.aboutOf(row as never), from: row, to: other ?? null });
  }
  for (const row of left.values()) {
    differences.push({ what: kind.what, ...kind.aboutOf(row as never), from: null, to: row });
  }
  return differences;
}

/** Balances of both at one instant. A copy may have a millitoken less: it begins with whole ones. */
async function compareBuckets(from: Side, to: Side, stamps: Filled["stamps"]): Promise<Compared> {
  const nowMs = from.deps.clock.now();
  const atMs = Math.max(nowMs, to.deps.clock.now());
  const copies = new Map<string, ReadonlyMap<string, Balance>>();
  for await (const bucket of every((page) => storedBuckets(to, page))) {
    copies.set(bucket.key.id, balancesAt(to, bucket, atMs));
  }
  const differences: Difference[] = [];
  let moved = 0;
  const seen = new Set<string>();
  // Stored ones are read before what they have: whatever is taken in between is seen by its stamp.
  for await (const stored of every((page) => storedBuckets(from, page))) {
    const { id } = stored.key;
    seen.add(id);
    if (stamps.get(id) !== stampIn(from, stored)) moved += 1;
    else differences.push(...differencesOf(stored, await balancesOf(from, stored, nowMs, atMs), copies.get(id)));
  }
  for (const id of copies.keys()) {
    if (seen.has(id)) continue;
    if (stamps.has(id)) moved += 1;
    else differences.push({ what: "bucket", ...aboutOf(id), from: null, to: "a bucket" });
  }
  return { moved, differences };
}

async function balancesOf(from: Side, { key, state }: CopiedBucket, nowMs: number, atMs: number) {
  // The bucket is read as a page of one: it has met all changes, as its copy has.
  const scope = {
    ...from.scope,
    buckets: { ...from.scope.buckets, listKeys: () => ({ items: [key] }), read: () => [state] },
  };
  const [bucket] = (await bucketsAt({ ...from, scope }, { limit: 1 }, nowMs)).items;
  return balancesAt(from, bucket as CopiedBucket, atMs);
}

function differencesOf(
  { key: { entityId, resource } }: CopiedBucket,
  source: ReadonlyMap<string, Balance>,
  copy: ReadonlyMap<string, Balance> | undefined,
): readonly Difference[] {
  const about = { what: "bucket", entityId, resource };
  if (copy === undefined) return [{ ...about, from: "a bucket", to: null }];
  return [...new Set([...source.keys(), ...copy.keys()])].flatMap((limit) => {
    const [one, other] = [source.get(limit), copy.get(limit)];
    return one !== undefined && other !== undefined && isSame(one, other)
      ? []
      : [{ ...about, limit, from: one ?? null, to: other ?? null }];
  });
}

function isSame(source: Balance, copy: Balance): boolean {
  const lessMilli = source.availableMilli - copy.availableMilli;
  const isAsMuch = lessMilli === 0 || lessMilli === 1;
  return (
    isAsMuch && (["heldMilli", "windowStartMs", "topUpMilli"] as const).every((name) => source[name] === copy[name])
  );
}

function aboutOf(id: string) {
  const [entityId, resource] = id.split("\n");
  return given({ entityId, resource });
}
