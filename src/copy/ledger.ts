import type { Page, PageRequest } from "../domain/names/paging.ts";
import { pagesOf } from "../domain/names/paging.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import { LEDGER } from "./kinds.ts";
import type { Side } from "./side.ts";
import type { Tally } from "./tally.ts";

/** How far a copy has come: kept in the hidden namespace that it fills, and removed when that is compared. */
export interface Ledger {
  /** The name of the source, without passwords. */
  readonly from: string;
  readonly openFromMs: number;
  /** The number of audit events that the namespace had before. */
  readonly eventsBefore: number;
  /** The name of the kind that is being read, and where the next page begins; both absent: nothing was read. */
  readonly at?: string;
  readonly cursor?: string;
  /** By the name of the kind. */
  readonly tallies: Readonly<Record<string, Tally>>;
}

/** Rows of one page, for reads and writes alike. */
export const PAGE = 100;

export async function writeLedger({ copy, deps }: Side, ledger: Ledger): Promise<void> {
  const nowMs = deps.clock.now();
  await copy.write("owner", [{ owner: LEDGER, run: JSON.stringify(ledger), appliedAtMs: nowMs }], nowMs);
}

/** Undefined: the namespace is not being filled by a copy, or that had not begun to read. */
export async function readLedger({ scope }: Pick<Side, "scope">): Promise<Ledger | undefined> {
  const record = await scope.manifests.getRun(LEDGER);
  return record && (JSON.parse(record.run) as Ledger);
}

export async function removeLedger({ copy }: Side): Promise<void> {
  await copy.remove("owner", [{ owner: LEDGER, run: "", appliedAtMs: 0 }]);
}

/** All items of a list, page by page. */
export async function* every<Item>(read: (page: PageRequest) => MaybePromise<Page<Item>>): AsyncGenerator<Item> {
  for await (const { items } of pagesOf((from) => read({ limit: PAGE, mayBeShort: true, ...from }))) yield* items;
}

export async function countOf<Item>(read: (page: PageRequest) => MaybePromise<Page<Item>>): Promise<number> {
  let count = 0;
  for await (const _ of every(read)) count += 1;
  return count;
}
