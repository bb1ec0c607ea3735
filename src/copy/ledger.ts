import { canonical } from "../domain/lease/idempotency.ts";
import { type Page, type PageRequest, pagesOf } from "../domain/names/paging.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import type { Digest } from "../ports/system.ts";
import { LEDGER } from "./kinds.ts";
import type { Side } from "./side.ts";

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

/** Rows as they were read or written, in any order: their number, a sum of their digests, and sums of what they count. */
export interface Tally {
  readonly count: number;
  readonly digest: string;
  /** Whole numbers as text, for they may pass 2^53. */
  readonly sums: Readonly<Record<string, string>>;
}

export const NOTHING: Tally = { count: 0, digest: "0", sums: {} };

export class Tallying {
  #count: number;
  #digest: bigint;
  readonly #sums: Map<string, bigint>;
  readonly #digester: Digest;

  constructor(digester: Digest, { count, digest, sums }: Tally) {
    this.#digester = digester;
    this.#count = count;
    this.#digest = BigInt(digest);
    this.#sums = new Map(Object.entries(sums).map(([name, sum]) => [name, BigInt(sum)]));
  }

  get count(): number {
    return this.#count;
  }

  add(row: unknown, sums: Iterable<readonly [name: string, count: number]>): void {
    this.#count += 1;
    this.#digest = (this.#digest + numberOf(this.#digester.of(canonical(row)))) % MODULUS;
    for (const [name, count] of sums) this.#sums.set(name, (this.#sums.get(name) ?? 0n) + BigInt(count));
  }

  tally(): Tally {
    const sums = Object.fromEntries(
      [...this.#sums].filter(([, sum]) => sum !== 0n).map(([name, sum]) => [name, String(sum)]),
    );
    return { count: this.#count, digest: String(this.#digest), sums };
  }
}

const MODULUS = 2n ** 64n;

/** The number of a url-safe digest, as far as it goes. */
function numberOf(text: string): bigint {
  let number = 0n;
  for (let i = 0; i < text.length; i++) number = (number * 131n + BigInt(text.charCodeAt(i))) % MODULUS;
  return number;
}

export function isSameTally(a: Tally, b: Tally): boolean {
  return a.count === b.count && a.digest === b.digest;
}
