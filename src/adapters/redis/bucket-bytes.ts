import assert from "node:assert/strict";
import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import { PERIOD_MAX_MS } from "../../domain/limits/limit-numbers.ts";
import type {
  ClaimLevels,
  DraftedLease,
  LeftUsage,
  SeenRow,
  StraightLevel,
  StraightRow,
  VersionedRow,
} from "../../ports/batch-store.ts";
import { REQUESTS_COUNTER } from "../../stored/open-hour.ts";
import { bufferOf } from "./bytes.ts";

/**
 * A bucket as it is stored, which `lua/` reads and writes in place:
 *
 * | bytes | are |
 * | --- | --- |
 * | 1 | the form, 1 |
 * | 1 | 1: a level is a session |
 * | 2 | how many levels |
 * | 4 | nothing yet |
 * | 8 each | `ROW_NUMBERS`, `MOVING_NUMBERS` of each level, `STAYING_NUMBERS` of each level |
 * | 1 and more | the signature |
 * | 4 and more | the marks; empty: none |
 * | 4 and more | the text of the limits |
 * | 4 and more | the names of the levels, a line each |
 *
 * Numbers are little-endian doubles, NaN for null; texts stand behind their length in bytes.
 */
const FORM = 1;

type RowNumber = Exclude<keyof VersionedRow, "signature" | "limitsText" | "levels" | "marks">;
type LevelNumber = Exclude<keyof StraightLevel, "name">;

const ROW_NUMBERS: readonly RowNumber[] = [
  ...(["version", "epochMs", "renewAtMs", "validUntilMs", "writtenMs"] as const),
  ...(["asOfMs", "generation", "metNumber", "hourMs", "requests"] as const),
];

/** What takes change of a level, and what stays as it is brought. */
const MOVING_NUMBERS: readonly LevelNumber[] = ["tokensMilli", "countedMilli", "windowStartMs"];
const STAYING_NUMBERS: readonly LevelNumber[] = [
  ...(["capacityMilli", "refillAmountMilli", "refillPeriodMs", "soft", "windowMs"] as const),
  ...(["remainder", "resets", "topUpMilli"] as const),
];
const LEVEL_NUMBERS = [MOVING_NUMBERS, STAYING_NUMBERS] as const;
const LEVEL_WIDTH = MOVING_NUMBERS.length + STAYING_NUMBERS.length;

const ROW_PLACES = Object.fromEntries(ROW_NUMBERS.map((name, place) => [name, place])) as Record<RowNumber, number>;
const LEVEL_PLACES = Object.fromEntries(
  LEVEL_NUMBERS.flatMap((names) =>
    names.map((name, place) => [name, { isMoving: names === MOVING_NUMBERS, place }] as const),
  ),
) as Record<LevelNumber, { readonly isMoving: boolean; readonly place: number }>;

const HEAD_BYTES = 8;
/** The script divides in steps that stay below 2^53 for an epoch that is no older. */
const EPOCH_AGE_MAX_MS = 3_600_001;

/** The version of a bucket stands here. */
export const VERSION_BYTES = { from: HEAD_BYTES, to: HEAD_BYTES + 8 } as const;

/** A row with the version that it replaces, or with 0; the script gives it another one. */
export function bytesOfRow(row: StraightRow, version: number, marks: string | null): Uint8Array {
  requireBounds(row);
  const { levels } = row;
  const texts = [Buffer.from(marks ?? ""), Buffer.from(row.limitsText), Buffer.from(namesOf(levels))];
  const signature = Buffer.from(row.signature);
  const numbersEnd = HEAD_BYTES + 8 * (ROW_NUMBERS.length + LEVEL_WIDTH * levels.length);
  const size = texts.reduce((sum, text) => sum + 4 + text.length, numbersEnd + 1 + signature.length);
  const bytes = Buffer.alloc(size);
  bytes.writeUInt8(FORM, 0);
  bytes.writeUInt8(levels.some(({ windowMs }) => windowMs > 0) ? 1 : 0, 1);
  bytes.writeUInt16LE(levels.length, 2);
  let at = HEAD_BYTES;
  for (const name of ROW_NUMBERS)
    at = bytes.writeDoubleLE(numberOf(name === "version" ? version : row[name], name), at);
  for (const names of LEVEL_NUMBERS) {
    for (const level of levels) for (const name of names) at = bytes.writeDoubleLE(numberOf(level[name], name), at);
  }
  at = bytes.writeUInt8(signature.length, at);
  at += signature.copy(bytes, at);
  for (const text of texts) {
    at = bytes.writeUInt32LE(text.length, at);
    at += text.copy(bytes, at);
  }
  return bytes;
}

/** A stored row; undefined where there is none. Of one that is damaged nothing fits: reading its limits reports that. */
export function rowOfBytes(stored: Uint8Array | null): VersionedRow | undefined {
  if (stored === null || stored.length === 0) return undefined;
  try {
    const row = parsed(stored);
    const levels = levelsOf(row).map((level, i) => ({ ...level, name: row.names[i], soft: level.soft === 1 }));
    return { ...rowPartsOf(row), limitsText: row.limitsText, levels } as unknown as VersionedRow;
  } catch {
    return { limitsText: Buffer.from(stored).toString("latin1"), levels: [] } as unknown as VersionedRow;
  }
}

/** A row as a batch left it: without the text of its limits where the script has left that out. */
export function seenOfBytes(bytes: Uint8Array): SeenRow {
  return seen(parsed(bytes));
}

/** The same of bytes that begin with the numbers of so many levels. */
export function seenOfNumbers(bytes: Uint8Array, levelCount: number): SeenRow {
  return seen(partsFrom(bytes, 0, levelCount));
}

/** A row as the draft of a lease has it. */
interface DraftedRow {
  readonly limits: string;
  readonly signature: string;
  readonly marks: string | null;
  readonly numbers: readonly (number | null)[];
}

function seenOfDraft({ limits, signature, marks, numbers }: DraftedRow): SeenRow {
  const levelCount = (numbers.length - ROW_NUMBERS.length) / LEVEL_WIDTH;
  return seen({
    numbers: numbers.map((number) => number ?? Number.NaN),
    levelCount,
    signature,
    marks,
    limitsText: limits,
  });
}

/** What a stored bucket has counted in its open hour; undefined where there is no bucket, or nothing was counted. */
export function openHourOf(
  stored: Uint8Array,
): { readonly hourMs: number; readonly counts: Readonly<Record<string, bigint>> } | undefined {
  if (stored.length === 0) return undefined;
  const row = parsed(stored);
  const { hourMs, requests } = rowPartsOf(row);
  const counts: Record<string, bigint> = {};
  if (requests !== 0) counts[REQUESTS_COUNTER] = BigInt(requests);
  for (const [i, countedMilli] of columnOf(row, "countedMilli").entries()) {
    if (countedMilli !== null) counts[row.names[i] as string] = BigInt(countedMilli);
  }
  return Object.keys(counts).length === 0 ? undefined : { hourMs, counts };
}

/** What a row has counted in its open hour, for the table of usage. */
export function leavingOf({ hourMs, requests, levels }: VersionedRow): readonly LeftUsage[] {
  const amounts = levels.flatMap(({ name, countedMilli }) =>
    countedMilli === null ? [] : [{ limit: name, milli: countedMilli }],
  );
  return amounts.length === 0 && requests === 0 ? [] : [{ hourMs, requests, amounts }];
}

type LevelNumbers = Readonly<Record<LevelNumber, number | null>>;

/** The parts of a stored row; the numbers as they are stored. */
interface Parsed {
  readonly numbers: readonly number[];
  readonly levelCount: number;
  readonly signature: string;
  readonly marks: string | null;
  /** Undefined: the script has left it out. */
  readonly limitsText: string | undefined;
  readonly names: readonly string[];
}

function parsed(stored: Uint8Array): Parsed {
  assert(stored[0] === FORM, `a bucket of form ${stored[0]}`);
  const view = new DataView(stored.buffer, stored.byteOffset, stored.byteLength);
  return partsFrom(stored, HEAD_BYTES, view.getUint16(2, true));
}

function partsFrom(stored: Uint8Array, from: number, levelCount: number): Parsed {
  const bytes = bufferOf(stored);
  const numbers: number[] = [];
  let at = from + 8 * (ROW_NUMBERS.length + LEVEL_WIDTH * levelCount);
  for (let place = from; place < at; place += 8) numbers.push(bytes.readDoubleLE(place));
  const textOf = (length: number): string => {
    assert(at + length <= bytes.length, "a bucket that is cut off");
    at += length;
    return length === 0 ? "" : bytes.toString("utf8", at - length, at);
  };
  const longText = (): string => {
    at += 4;
    return textOf(bytes.readUInt32LE(at - 4));
  };
  at += 1;
  const signature = textOf(bytes[at - 1] as number);
  const marks = longText() || null;
  const hasTexts = at < bytes.length;
  const limitsText = hasTexts ? longText() : undefined;
  const names = hasTexts ? longText().split("\n") : [];
  return { numbers, levelCount, signature, marks, limitsText, names };
}

function rowPartsOf({ numbers, signature, marks }: Pick<Parsed, "numbers" | "signature" | "marks">): RowParts {
  const at = (name: RowNumber) => finite(numbers[ROW_PLACES[name]] as number);
  // One literal: a row is read with each answer.
  return {
    signature,
    marks,
    version: at("version"),
    epochMs: at("epochMs"),
    renewAtMs: at("renewAtMs"),
    validUntilMs: at("validUntilMs"),
    writtenMs: at("writtenMs"),
    asOfMs: at("asOfMs"),
    generation: at("generation"),
    metNumber: at("metNumber"),
    hourMs: at("hourMs"),
    requests: at("requests"),
  } as RowParts;
}

type RowParts = Omit<VersionedRow, "limitsText" | "levels">;

/** One number of each level. */
function columnOf(
  { numbers, levelCount }: Pick<Parsed, "numbers" | "levelCount">,
  name: LevelNumber,
): (number | null)[] {
  const { isMoving, place } = LEVEL_PLACES[name];
  const width = isMoving ? MOVING_NUMBERS.length : STAYING_NUMBERS.length;
  const column: (number | null)[] = [];
  let at = ROW_NUMBERS.length + place + (isMoving ? 0 : MOVING_NUMBERS.length * levelCount);
  for (let i = 0; i < levelCount; i++, at += width) column.push(finite(numbers[at] as number));
  return column;
}

function levelsOf(row: Pick<Parsed, "numbers" | "levelCount">): readonly LevelNumbers[] {
  const columns = LEVEL_NUMBERS.flat().map((name) => [name, columnOf(row, name)] as const);
  return Array.from({ length: row.levelCount }, (_, i) => {
    return Object.fromEntries(columns.map(([name, column]) => [name, column[i]])) as LevelNumbers;
  });
}

function seen(row: Omit<Parsed, "names">): SeenRow {
  return {
    ...rowPartsOf(row),
    limitsText: row.limitsText,
    tokensMilli: columnOf(row, "tokensMilli"),
    remainders: columnOf(row, "remainder"),
    countedMilli: columnOf(row, "countedMilli"),
    windows: columnOf(row, "windowStartMs"),
    topUpsMilli: columnOf(row, "topUpMilli"),
    resets: columnOf(row, "resets"),
  } as SeenRow;
}

function finite(number: number): number | null {
  return Number.isFinite(number) ? number : null;
}

function numberOf(value: number | boolean | null, name: RowNumber | LevelNumber): number {
  // The end of a row that has none is compared with readings.
  if (value === null) return name === "validUntilMs" ? Number.POSITIVE_INFINITY : Number.NaN;
  return Number(value);
}

function namesOf(levels: readonly StraightLevel[]): string {
  return levels.map(({ name }) => name).join("\n");
}

/** The script is exact within these. */
function requireBounds({ epochMs, renewAtMs, signature, levels }: StraightRow): void {
  assert(renewAtMs - epochMs <= EPOCH_AGE_MAX_MS, `an epoch that is renewed after ${renewAtMs - epochMs} ms`);
  assert(signature.length < 256, "a signature of 256 characters or more");
  for (const { name, refillPeriodMs, refillAmountMilli } of levels) {
    assert(
      refillPeriodMs <= PERIOD_MAX_MS && Number.isSafeInteger(refillAmountMilli),
      `the limit ${name} refills ${refillAmountMilli} in ${refillPeriodMs} ms`,
    );
  }
}

/** A draft as the script of takes writes it, in place of the record of a lease, and of the answer under a key. */
interface DraftedBody {
  readonly leaseId?: string;
  readonly draft: string;
  readonly nowMs: number;
  /** Entity and resource of each of its claims. */
  readonly keys: readonly (readonly [string, string])[];
  readonly buckets: readonly { readonly levels: DraftedLevels; readonly row: DraftedRow }[];
}

type DraftedLevels = readonly [
  tokens: readonly number[],
  windows: readonly (number | null)[] | null,
  validUntilMs: number | null,
  passed: readonly number[],
];

/** The draft as a take has written it; undefined: it was not written by a take. */
export function draftedLease(body: unknown): DraftedLease | undefined {
  if (typeof body !== "object" || body === null || !("draft" in body)) return undefined;
  const { leaseId, draft, nowMs, keys, buckets } = body as DraftedBody;
  return {
    ...{ leaseId, text: draft, nowMs },
    buckets: buckets.map(({ levels, row }, i) => {
      const [entityId, resource] = keys[i] as DraftedBody["keys"][0];
      return { key: bucketKey(entityId, resource), levels: claimLevels(levels), row: seenOfDraft(row) };
    }),
  };
}

function claimLevels([tokensMilli, windows, validUntilMs, passed]: DraftedLevels): ClaimLevels {
  const left = windows === null ? { windows: undefined, validUntilMs: undefined } : { windows, validUntilMs };
  const shadowed = passed.length === 0 ? {} : { shadowed: passed.map((place) => place - 1) };
  return { tokensMilli, ...left, ...shadowed };
}
