import { createHash } from "node:crypto";
import { type Attributes, decodeJson } from "../adapters/dynamodb/codec.ts";
import { chunksOf } from "../adapters/dynamodb/paging.ts";
import {
  type Condition,
  deleteRecord,
  isStill,
  keyIn,
  missing,
  putRecord,
} from "../adapters/dynamodb/records-write.ts";
import { PK, SK, type TableKey } from "../adapters/dynamodb/schema.ts";
import { ConflictError } from "../domain/names/errors.ts";
import type { MigratedTable } from "./table.ts";

/**
 * A receipt is stored in each partition whose old items were copied and compared, with a digest of each item. Items are deleted by it: an
 * old item without a digest was written since, and has not been copied.
 */
const RECEIPT_SK = "#MIGRATED#";
const DIGESTS = "digests";
const STARTED = "started";
/** A digest has 12 characters, so a receipt stays below the 400 KB of an item. */
const DIGESTS_MAX = 20_000;

export function isReceipt(item: Attributes): boolean {
  return item[SK]?.S?.startsWith(RECEIPT_SK) === true;
}

/** Notes which old items were compared, unless it is noted already. `found` is the whole partition. */
export async function writeReceipt(table: MigratedTable, { pk, found, removes, startedMs }: ReceiptOf): Promise<void> {
  const digests = oldItems(found, removes).map(digestOf).sort();
  const stored = new Map(found.filter(isReceipt).map((item) => [keyIn(item).sk, item]));
  for (const [i, chunk] of chunksOf(digests, DIGESTS_MAX).entries()) {
    const key = { pk, sk: `${RECEIPT_SK}${i}` };
    const attributes = { [DIGESTS]: { S: chunk.join("") }, [STARTED]: { N: String(startedMs) } };
    const before = stored.get(key.sk);
    if (before !== undefined && isSameItem({ ...before, ...attributes }, before)) continue;
    await table.records.transact([putRecord(key, attributes, undefined)]);
  }
}

interface ReceiptOf {
  readonly pk: string;
  readonly found: readonly Attributes[];
  /** The keys of the old ones. */
  readonly removes: readonly TableKey[];
  /** The start of the migration: receipts of another one do not count. */
  readonly startedMs: number;
}

/** Deletes the old items of a partition as they were compared, and the receipts last. Stops at an item that was written since. */
export async function deleteByReceipt(table: MigratedTable, { found, removes, startedMs }: ReceiptOf): Promise<void> {
  const receipts = found.filter(isReceipt);
  const known = digestsIn(receipts.filter((item) => Number(item[STARTED]?.N) === startedMs));
  const old = oldItems(found, removes);
  const unknown = old.find((item) => !known.has(digestOf(item)));
  if (unknown !== undefined) throw writtenSince(table.name, unknown);
  const writes = [
    ...old.map((item) => deleteRecord(keyIn(item), asRead(item))),
    ...receipts.map((item) => deleteRecord(keyIn(item), undefined)),
  ];
  for (const chunk of chunksOf(writes, DELETES_AT_ONCE)) {
    const reply = await table.records.transact(chunk);
    if (reply.kind === "failed") throw writtenSince(table.name, old[0] as Attributes);
  }
}

const DELETES_AT_ONCE = 25;

/** Compares values, however numbers and sets are written. */
export function isSameItem(one: Attributes, other: Attributes): boolean {
  return textOf(one) === textOf(other);
}

function oldItems(found: readonly Attributes[], removes: readonly TableKey[]): readonly Attributes[] {
  const sks = new Set(removes.map(({ sk }) => sk));
  return found.filter((item) => sks.has(keyIn(item).sk));
}

function digestsIn(receipts: readonly Attributes[]): ReadonlySet<string> {
  return new Set(receipts.flatMap((item) => item[DIGESTS]?.S?.match(/.{12}/g) ?? []));
}

function digestOf(item: Attributes): string {
  return createHash("sha256").update(textOf(item)).digest("base64url").slice(0, 12);
}

function textOf(item: Attributes): string {
  return JSON.stringify(
    Object.keys(item)
      .sort()
      .map((name) => [name, decodeJson(item[name] ?? {})]),
    (_, value: unknown) => (isMap(value) ? Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)) : value),
  );
}

function isMap(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** An expression has at most 4 KB. Numbers come first, because clients change them. */
const CLAUSES_MAX = 80;

/** The condition that an item is as it was read, or gone: it may have expired, or the answer to its deletion was lost. */
function asRead(item: Attributes): Condition {
  const names = Object.keys(item).filter((name) => name !== PK && name !== SK);
  const numbersFirst = [...names.filter((name) => item[name]?.N), ...names.filter((name) => !item[name]?.N)];
  const same = numbersFirst.slice(0, CLAUSES_MAX).map((name) => isStill(name, item[name]));
  return (e) => [missing(e), ...(same.length === 0 ? [] : [same.map((each) => each(e)).join(" AND ")])].join(" OR ");
}

function writtenSince(table: string, item: Attributes): ConflictError {
  const { pk, sk } = keyIn(item);
  return new ConflictError(
    "table_in_use",
    `The table "${table}" is still written to by clients of its old version: the item ${pk} ${sk} changed after it was ` +
      "copied, so it was not deleted. Stop all of them, carry its contents over by hand, delete it, then run " +
      "migrate again to resume.",
  );
}
