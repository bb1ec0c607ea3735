import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import type {
  Batch,
  BatchBucket,
  BatchClaim,
  BatchReply,
  BatchRequest,
  ClaimLevels,
  DraftedLease,
  LeftUsage,
  LevelPin,
  RequestReply,
  RowOperation,
  SeenRow,
  StraightRow,
} from "../../ports/batch-store.ts";
import type { TouchedNames } from "../../ports/record-store.ts";
import { REQUESTS_COUNTER } from "../../stored/open-hour.ts";
import { begunMs, type JudgedSum, type Sum, SummedTake } from "../../straight/summed-take.ts";
import { isSameRow, newRowJson, numbers, type RowJson, rowJson, seenRow } from "./row-fields.ts";
import { TAKE_TYPES } from "./schema-takes.ts";

const KINDS = { take: 1, debit: 2, credit: 3, renew: 3 } as const;

/** A credit has one of these in place of the number of its period, which is never negative, and a level in place of its window, from 1 on. */
const PINS = { skip: -1, from: -2, fromUsed: -3, skipUsed: -4, into: -5 } as const;

export interface TakeSettings {
  readonly durability: "normal" | "full";
  /** A take waits this long for a lock. */
  readonly lockMs: number;
}

/** The arguments of the function `take_2`, in its order. Arrays are texts: drivers differ in how they write arrays. */
export function takeValues(batch: Batch, { durability, lockMs }: TakeSettings): unknown[] {
  const { namespaceId, lane, seq, isRepeat, buckets, requests, countsUsage, aheadMaxMs, goesBy } = batch;
  const claims = requests.flatMap((request) => request.claims);
  const isCredited = claims.some(({ pins }) => pins !== undefined);
  return [
    ...[namespaceId, lane, seq, isRepeat, durability, lockMs, aheadMaxMs ?? null, countsUsage],
    texts(buckets.map(({ key }) => key.entityId)),
    texts(buckets.map(({ key }) => key.resource)),
    broughtText(buckets),
    numbers(requests.map(({ kind }) => KINDS[kind])),
    numbers(requests.map(({ nowMs }) => nowMs)),
    numbers(requests.map(({ generation }) => generation ?? null)),
    numbers(requests.map(({ isNoted }) => isNoted)),
    numbers(requests.map((request: BatchRequest) => request.claims.length)),
    numbers(claims.map(({ bucket }) => bucket + 1)),
    texts(claims.map(({ signature }) => signature)),
    numbers(claims.map(({ changeNumber }) => changeNumber)),
    numbersUnless(!claims.some(({ bypass }) => bypass), () => claims.map(({ bypass }) => bypass)),
    numbersUnless(!claims.some(({ judgedMs }) => judgedMs !== null), () => claims.map(({ judgedMs }) => judgedMs)),
    numbers(claims.map(({ amounts }) => amounts.length)),
    numbers(claims.flatMap(({ amounts }) => amounts)),
    numbersUnless(!isCredited, () => claims.flatMap(pinsOf).map(({ resets }) => resets)),
    numbersUnless(!isCredited, () => claims.flatMap(pinsOf).map(({ windowStartMs }) => windowStartMs)),
    extrasText(claims),
    draftsText(requests),
    goesBy.length === 0 ? null : texts(goesBy),
  ];
}

const isScalar = (type: string): boolean => !type.endsWith("[]") && type !== "jsonb";

export const TAKE_TEXT = `SELECT @.take_2(${TAKE_TYPES.map((type, i) =>
  isScalar(type) ? `$${i + 1}::${type}` : `$${i + 1}::text::${type}`,
).join(", ")}) AS answer`;

function pinsOf({ amounts, pins }: BatchClaim) {
  return amounts.map((_, i) => pinNumbers(pins?.[i]));
}

function pinNumbers(pin: LevelPin): { readonly resets: number | null; readonly windowStartMs: number | null } {
  if (pin === undefined) return { resets: null, windowStartMs: null };
  if (typeof pin === "string") return { resets: PINS[pin], windowStartMs: null };
  if ("from" in pin) return { resets: pin.isUsed ? PINS.fromUsed : PINS.from, windowStartMs: pin.from + 1 };
  return "into" in pin ? { resets: PINS.into, windowStartMs: pin.into + 1 } : pin;
}

function broughtText(buckets: readonly BatchBucket[]): string | null {
  const brought = buckets.flatMap((bucket, i) =>
    bucket.brought === undefined
      ? []
      : [{ i: i + 1, ...broughtRow(bucket.brought), request: bucket.brought.request + 1 }],
  );
  return brought.length === 0 ? null : JSON.stringify(brought);
}

/** A row that replaces the one of this version, and what leaves it. */
export function broughtRow({ version, row, left }: RowOperation["brought"]): RowJson {
  return { ...rowJson(row), version, left: leftRows(left) };
}

function draftsText(requests: readonly BatchRequest[]): string | null {
  const drafts = requests.flatMap(({ draft }, i) => {
    if (draft === undefined) return [];
    const { leaseId, entityId, resource, holdMs, text, key } = draft;
    return [{ q: i + 1, leaseId, entity: entityId, resource, hold: holdMs, text, key: key?.key, mark: key?.mark }];
  });
  return drafts.length === 0 ? null : JSON.stringify(drafts);
}

/** The draft as a take has written it; undefined: it was not written by a take. */
export function draftedLease(body: unknown): DraftedLease | undefined {
  if (typeof body !== "object" || body === null || !("draft" in body)) return undefined;
  const { leaseId, draft, nowMs, buckets } = body as DraftedJson;
  return {
    ...{ leaseId: leaseId ?? undefined, text: draft, nowMs },
    buckets: buckets.map(({ entity, resource, levels, row }) => ({
      ...{ key: bucketKey(entity, resource), levels: claimLevels(levels), row: seenRow(row) },
    })),
  };
}

interface DraftedJson {
  readonly leaseId: string | null;
  readonly draft: string;
  readonly nowMs: number;
  readonly buckets: readonly {
    readonly entity: string;
    readonly resource: string;
    readonly levels: ClaimJson;
    readonly row: RowJson;
  }[];
}

/** Usage by hour, counter and amount: `[[hourMs, "rpm", "1000"], ...]`. */
export function leftRows(left: readonly LeftUsage[]): readonly (readonly [number, string, string])[] {
  return left.flatMap(({ hourMs, requests, amounts }) => [
    ...(requests === 0 ? [] : [[hourMs, REQUESTS_COUNTER, String(requests)] as const]),
    ...amounts.map(({ limit, milli }) => [hourMs, limit, String(milli)] as const),
  ]);
}

/**
 * The parts that few claims have: `o` an origin to compare, `s` counters beside the amounts, `l` what is counted of a forgotten bucket, `f` how many
 * percent must be left, `h` the places of shadows, each with that of the slice in which it would be held, or 0.
 */
function extrasText(claims: readonly BatchClaim[]): string | null {
  const extras: Record<string, unknown> = {};
  let isAny = false;
  for (const [i, { origin, strays, lost, leavePercent, shadows }] of claims.entries()) {
    if (origin !== undefined) extras[`o${i + 1}`] = [origin.asOfMs, origin.generation];
    if (strays.length > 0) extras[`s${i + 1}`] = strays.map(({ limit, milli }) => [limit, String(milli)]);
    if (lost !== undefined) extras[`l${i + 1}`] = leftRows([lost]);
    if (leavePercent > 0) extras[`f${i + 1}`] = leavePercent;
    if (shadows.length > 0) {
      extras[`h${i + 1}`] = Object.fromEntries(
        shadows.map(({ place, slice }) => [place + 1, slice === undefined ? 0 : slice + 1]),
      );
    }
    isAny ||= origin !== undefined || strays.length + shadows.length > 0 || lost !== undefined || leavePercent > 0;
  }
  return isAny ? JSON.stringify(extras) : null;
}

/** NULL where the function would not look at them: most of a batch is read by the server for nothing otherwise. */
function numbersUnless(isUnused: boolean, values: () => readonly (number | boolean | null)[]): string | null {
  return isUnused ? null : numbers(values());
}

export function texts(values: readonly string[]): string {
  return `{${values.map(quoted).join(",")}}`;
}

function quoted(value: string): string {
  // Nearly all are names, and a search for one character costs a tenth of a regular expression.
  const isPlain = !value.includes('"') && !value.includes("\\");
  return isPlain ? `"${value}"` : `"${value.replace(/["\\]/g, "\\$&")}"`;
}

interface ClaimJson extends ReadonlyArray<unknown> {
  readonly 0: readonly number[];
  readonly 1?: readonly (number | null)[] | null;
  readonly 2?: number | null;
  readonly 3?: readonly number[];
}

/** The answer of the general take. */
export interface AnswerJson {
  readonly kind: "done" | "repeated" | "superseded";
  readonly generation: number;
  readonly changes?: TouchedNames;
  readonly serverMs: number;
  readonly rows: readonly (RowJson | null)[];
  readonly replies: readonly (Omit<RequestReply, "claims"> & { readonly claims?: readonly ClaimJson[] })[];
}

export function replyOf(answer: AnswerJson): BatchReply {
  if (answer.kind === "superseded") return { kind: "superseded" };
  return {
    kind: "done",
    repeated: answer.kind === "repeated",
    generation: answer.generation,
    changes: answer.changes,
    serverMs: answer.serverMs,
    rows: answer.rows.map((row) => (row === null ? null : seenRow(row))),
    replies: answer.replies.map(({ claims, ...reply }) => {
      if (claims === undefined) return reply as RequestReply;
      return { ...reply, claims: claims.map(claimLevels) } as RequestReply;
    }),
  };
}

function claimLevels([tokensMilli, windows, validUntilMs, passed]: ClaimJson): ClaimLevels {
  const left = windows === null || windows === undefined ? NO_SESSIONS : { windows, validUntilMs };
  return passed === undefined
    ? { tokensMilli, ...left }
    : { tokensMilli, ...left, shadowed: passed.map((place) => place - 1) };
}

const NO_SESSIONS = { windows: undefined, validUntilMs: undefined };

const SUMMED_TEXT = "SELECT @.take_summed_2($1, $2, $3, $4, $5, $6, $7) AS answer";
const MADE_TEXT = "SELECT @.take_made_2($1, $2, $3, $4, $5, $6, $7, $8::text::json, $9) AS answer";

/** Stands for a clock that is not compared, and stays within the numbers of the server. */
const AHEAD_UNBOUNDED_MS = 2 ** 52;

/** A batch that the functions `take_summed_2` and `take_made_2` take together, with its buckets as rows are locked. */
export class SummedStatement {
  readonly #batch: Batch;
  readonly #take: SummedTake;
  /** In the order of keys. */
  readonly #sums: readonly Sum[];

  private constructor(batch: Batch, take: SummedTake) {
    this.#batch = batch;
    this.#take = take;
    this.#sums = take.sums.length === 1 ? take.sums : inOrderOfKeys(take.sums, batch);
  }

  /** Undefined: the batch has to be judged request by request. */
  static of(batch: Batch): SummedStatement | undefined {
    const take = SummedTake.of(batch);
    return take && new SummedStatement(batch, take);
  }

  /** The statement and its values. */
  call(settings: TakeSettings): readonly [text: string, values: readonly unknown[]] {
    const values = this.#values(settings);
    const { rows, places } = this.#made();
    return rows.length === 0
      ? [SUMMED_TEXT, values]
      : [MADE_TEXT, [...values, JSON.stringify(rows.map(newRowJson)), numbers(places)]];
  }

  /** The arguments of both functions, in their order. */
  #values({ durability, lockMs }: TakeSettings): unknown[] {
    const { namespaceId, lane, seq, aheadMaxMs, countsUsage, requests, buckets } = this.#batch;
    const latestMs = requests.reduce((latest, { nowMs }) => Math.max(latest, nowMs), requests[0]?.nowMs as number);
    const head = [durability === "full" ? 1 : 0, lockMs, aheadMaxMs ?? AHEAD_UNBOUNDED_MS, requests[0]?.generation];
    const numbers = [...head, countsUsage ? 1 : 0, latestMs, this.#uppermost()];
    const steps: number[] = [];
    const stepsFrom = numbers.length + 4 * this.#sums.length + 1;
    for (const sum of this.#sums) {
      numbers.push(sum.requests, sum.changeNumber, stepsFrom + steps.length, sum.steps.length);
      for (const { nowMs, amounts } of sum.steps) {
        steps.push(nowMs);
        for (const milli of amounts) steps.push(milli ?? -1);
      }
    }
    const keys = this.#sums.map(({ bucket }) => (buckets[bucket] as Batch["buckets"][0]).key);
    return [
      ...[
        namespaceId,
        lane,
        seq,
        texts(keys.map(({ entityId }) => entityId)),
        texts(keys.map(({ resource }) => resource)),
      ],
      ...[texts(this.#sums.map(({ signature }) => signature)), `{${numbers.join(",")},${steps.join(",")}}`],
    ];
  }

  /** The place of the bucket that is the uppermost of every request: takes of other processes that share it wait for each other. 0: there is none. */
  #uppermost(): number {
    const { requests } = this.#batch;
    const bucket = requests[0]?.claims.at(-1)?.bucket;
    const isEverys = requests.every(({ claims }) => claims.at(-1)?.bucket === bucket);
    return isEverys ? this.#sums.findIndex((sum) => sum.bucket === bucket) + 1 : 0;
  }

  /** The rows of buckets that are new, those that are alike once; and for each bucket the place of its row, 0 where it is not new. */
  #made(): { readonly rows: readonly StraightRow[]; readonly places: readonly number[] } {
    const rows: StraightRow[] = [];
    const places = this.#sums.map((sum) => {
      const { brought } = this.#batch.buckets[sum.bucket] as BatchBucket;
      if (brought === undefined) return 0;
      const row = { ...brought.row, epochMs: begunMs(sum) };
      const found = rows.findIndex((one) => isSameRow(one, row));
      return found < 0 ? rows.push(row) : found + 1;
    });
    return { rows, places };
  }

  /** Undefined: somebody is short, and several requests have to be judged one by one. */
  replyOf({ kind, summed, stamp, generation }: SummedJson): BatchReply | undefined {
    const { buckets, countsUsage } = this.#batch;
    const isShort = kind === "short";
    const judged: JudgedSum[] = new Array(buckets.length);
    for (const json of summed) {
      const sum = this.#sums[(json[0][0] as number) - 1] as Sum;
      judged[sum.bucket] = judgedOf(json, sum, isShort ? undefined : { stamp, countsUsage });
    }
    const serverMs = Math.floor(stamp / 1_000);
    const repeated = kind === "repeated";
    return this.#take.replyOf({ kind: isShort ? "short" : "applied", repeated, generation, serverMs, judged });
  }
}

function inOrderOfKeys(sums: readonly Sum[], { buckets }: Batch): readonly Sum[] {
  const keyOf = ({ bucket }: Sum) => (buckets[bucket] as Batch["buckets"][0]).key;
  return [...sums].sort((one, other) => {
    const [a, b] = [keyOf(one), keyOf(other)];
    return a.entityId === b.entityId ? inOrder(a.resource, b.resource) : inOrder(a.entityId, b.entityId);
  });
}

/** The order of the server, which compares bytes; names are ASCII (`domain/names/name-rules.ts`). */
function inOrder(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}

/** The answer of the function; `repeated`: the general take has found it in the lane. */
export interface SummedJson {
  readonly kind: "applied" | "short" | "repeated";
  /** By bucket, in the order of the arguments. */
  readonly summed: readonly SummedRowJson[];
  readonly stamp: number;
  readonly generation: number;
}

type SummedRowJson = readonly [
  /** The place in the arguments, the row as it was before, and the levels of its limits. */
  row: readonly (number | null)[],
  marks: string | null,
  /** The tokens after each step, and what is counted; null: there is not enough. */
  levels: readonly (number | null)[] | null,
];

/** The numbers of a row in front of those of its levels. */
const ROW_NUMBERS = 11;

/** A bucket from what its row was before the batch on: its levels after each step are the server's. */
function judgedOf(
  [row, marks, levels]: SummedRowJson,
  sum: Sum,
  applied: { readonly stamp: number; readonly countsUsage: boolean } | undefined,
): JudgedSum {
  const count = (row.length - ROW_NUMBERS) / 6;
  const part = (i: number) => row.slice(ROW_NUMBERS + i * count, ROW_NUMBERS + (i + 1) * count);
  const [, version, epochMs, renewAtMs, validUntilMs, writtenMs, asOfMs, generation, metNumber, hourMs, requests] =
    row as readonly number[];
  const after = levels?.slice(0, -count);
  const seen = {
    version: applied === undefined ? (version as number) : Math.max((version as number) + 1, applied.stamp),
    ...{ signature: sum.signature, limitsText: undefined, epochMs, renewAtMs, validUntilMs, writtenMs, asOfMs },
    ...{ generation, metNumber, hourMs, marks },
    tokensMilli: (applied && after?.slice(-count)) ?? part(0),
    requests: (requests as number) + (applied?.countsUsage ? sum.requests : 0),
    remainders: part(1),
    countedMilli: (applied && levels?.slice(-count)) ?? part(2),
    windows: part(3),
    topUpsMilli: part(4),
    resets: part(5),
  } as SeenRow;
  return { row: seen, tokensMilli: after && [...part(0), ...after] };
}
