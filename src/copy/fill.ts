import { HOUR_MS, hourOf } from "../domain/charge/usage.ts";
import { given } from "../domain/names/given.ts";
import type { CopiedBucket } from "../ports/copy-store.ts";
import { stampOf, storedBuckets } from "./buckets.ts";
import { type Copied, KINDS, type Kind, nameOf, type Reading } from "./kinds.ts";
import { countOf, type Ledger, NOTHING, PAGE, type Tally, Tallying, writeLedger } from "./ledger.ts";
import type { Side } from "./side.ts";

export interface Filling {
  readonly from: Side;
  /** Absent: nothing is written, it is only counted. */
  readonly to: Side | undefined;
  readonly signal: AbortSignal | undefined;
  onProgress(kind: string, rows: number): void;
}

/** The result of reading, to be compared with what was written. */
export interface Filled {
  /** By the name of the kind. */
  readonly tallies: Readonly<Record<string, Tally>>;
  /** By the id of a bucket: whoever has changed it since has another one. */
  readonly stamps: ReadonlyMap<string, string>;
}

/** The record of a copy that begins now. The hour before the current one still gets what is settled late. */
export async function newLedger({ from, to }: Filling): Promise<Ledger> {
  const openFromMs = hourOf(from.deps.clock.now()) - HOUR_MS;
  const eventsBefore = to === undefined ? 0 : await countOf((page) => to.copy.list("audit", page));
  return { from: from.deps.store.name, openFromMs, eventsBefore, tallies: {} };
}

/** Removes what a namespace still knows of limits that it had: it would be taken for what the copied ones said before. */
export async function clear({ copy, scope }: Side): Promise<void> {
  for (const kind of ["history", "owner"] as const) {
    for (;;) {
      const { items } = await copy.list(kind, { limit: PAGE });
      if (items.length === 0) break;
      await copy.remove(kind, items);
    }
  }
  for (;;) {
    const { items } = await scope.manifests.list({ limit: PAGE });
    if (items.length === 0) return;
    await copy.remove("owned", items);
  }
}

/** Reads every kind that the record does not call done, and writes it page by page. A page is written before it is noted. */
export async function fill(filling: Filling, begun: Ledger): Promise<Filled> {
  let ledger = begun;
  const stamps = new Map<string, string>();
  const reached = KINDS.findIndex((kind) => nameOf(kind) === begun.at);
  for (const [i, kind] of KINDS.entries()) {
    if (i < reached && !kind.isReadAgain) continue;
    const goesOn = i === reached && !kind.isReadAgain;
    const note = async (next: Pick<Ledger, "at" | "cursor" | "tallies">): Promise<void> => {
      // A kind that is read again leaves no place to go on from.
      const place = kind.isReadAgain ? given({ at: ledger.at, cursor: ledger.cursor }) : given(next);
      const { at: _, cursor: __, ...rest } = ledger;
      ledger = { ...rest, ...place, tallies: next.tallies };
      if (filling.to !== undefined && !kind.isReadAgain) await writeLedger(filling.to, ledger);
    };
    const seen = kind.kind === "bucket" ? stamps : undefined;
    const tally = await fillKind(filling, kind, goesOn ? ledger : { ...ledger, cursor: undefined }, goesOn, note, seen);
    ledger = { ...ledger, tallies: { ...ledger.tallies, [nameOf(kind)]: tally } };
  }
  await filling.to?.copy.finish();
  return { tallies: ledger.tallies, stamps };
}

async function fillKind(
  { from, to, signal, onProgress }: Filling,
  kind: Kind,
  ledger: Omit<Ledger, "cursor"> & { readonly cursor?: string | undefined },
  goesOn: boolean,
  note: (next: Pick<Ledger, "at" | "cursor" | "tallies">) => Promise<void>,
  stamps: Map<string, string> | undefined,
): Promise<Tally> {
  const name = nameOf(kind);
  const tallying = new Tallying(from.deps.digest, goesOn ? (ledger.tallies[name] ?? NOTHING) : NOTHING);
  let { cursor } = ledger;
  // A kind that was read to its end has only its tally.
  if (goesOn && cursor === undefined && tallying.count > 0) return tallying.tally();
  for (;;) {
    signal?.throwIfAborted();
    const reading: Reading = { nowMs: from.deps.clock.now(), openFromMs: ledger.openFromMs, place: tallying.count };
    const request = { limit: PAGE, mayBeShort: true, ...given({ cursor }) } as const;
    // Before the buckets themselves: one that is taken from in between counts as changed.
    if (stamps !== undefined) await noteStamps(from, request, stamps);
    const page = await kind.read(from, request, reading);
    for (let i = 0; i < page.items.length; i += PAGE) {
      await to?.copy.write(kind.kind, page.items.slice(i, i + PAGE) as never, reading.nowMs);
    }
    for (const row of page.items) tallying.add(comparable(kind, row), kind.sumsOf?.(row) ?? []);
    cursor = page.cursor;
    const tallies = { ...ledger.tallies, [name]: tallying.tally() };
    await note({ at: name, ...given({ cursor }), tallies });
    onProgress(kind.what, tallying.count);
    if (cursor === undefined) return tallying.tally();
  }
}

async function noteStamps(from: Side, request: Parameters<typeof storedBuckets>[1], stamps: Map<string, string>) {
  for (const one of (await storedBuckets(from, request)).items) stamps.set(one.key.id, stampIn(from, one));
}

export function stampIn({ deps }: Side, bucket: CopiedBucket): string {
  return deps.digest.of(stampOf(bucket));
}

/** The parts of a row that are compared: its place in a log is not. */
export function comparable(kind: Kind, row: unknown): unknown {
  if (kind.compared === "rows") return row;
  return kind.keyOf(row as never);
}

export function copiedOf(tallies: Filled["tallies"]): Copied {
  const copied: Record<keyof Copied, number> = {
    ...{ entities: 0, plans: 0, levels: 0, owners: 0, buckets: 0 },
    ...{ usageHours: 0, refusalHours: 0, refusals: 0, auditEvents: 0 },
  };
  for (const kind of KINDS) {
    if (kind.counted === undefined) continue;
    const { count, sums } = tallies[nameOf(kind)] ?? NOTHING;
    copied[kind.counted] += kind.countedAs === undefined ? count : Number(sums[kind.countedAs] ?? 0);
  }
  return copied;
}
