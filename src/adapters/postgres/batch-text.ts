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
  SeenRow,
  StraightRow,
} from "../../ports/batch-store.ts";
import { REQUESTS_COUNTER } from "../../stored/usage-counters.ts";

const KINDS = { take: 1, debit: 2, credit: 3, renew: 3 } as const;

/** What of a credit stands in place of the number of its period, which is never negative; a level in place of its window, from 1 on. */
const PINS = { skip: -1, from: -2, fromUsed: -3, skipUsed: -4, into: -5 } as const;

interface TakeSettings {
  readonly durability: "normal" | "full";
  /** How long a lock is waited for. */
  readonly lockMs: number;
}

/** The arguments of the function `take_1`, in its order. Arrays are texts: drivers differ in how they write arrays. */
export function takeValues(batch: Batch, { durability, lockMs }: TakeSettings): unknown[] {
  const { namespaceId, lane, seq, buckets, requests, countsUsage, aheadMaxMs } = batch;
  const claims = requests.flatMap((request) => request.claims);
  const isCredited = claims.some(({ pins }) => pins !== undefined);
  return [
    ...[namespaceId, lane, seq, durability, lockMs, aheadMaxMs ?? null, countsUsage],
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
  ];
}

const TYPES = [
  ...["text", "text", "bigint", "text", "integer", "bigint", "boolean"],
  ...["text[]", "text[]", "jsonb", "smallint[]", "bigint[]", "bigint[]", "boolean[]", "integer[]", "integer[]"],
  ...["text[]", "bigint[]", "boolean[]", "bigint[]", "integer[]", "bigint[]", "bigint[]", "bigint[]", "jsonb"],
  "jsonb",
];

/** As GRANT names it. */
export const TAKE_NAME = `take_1(${TYPES.join(", ")})`;

const isPlain = (type: string): boolean => !type.endsWith("[]") && type !== "jsonb";

export const TAKE_TEXT = `SELECT @.take_1(${TYPES.map((type, i) =>
  isPlain(type) ? `$${i + 1}::${type}` : `$${i + 1}::text::${type}`,
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
      : [
          {
            i: i + 1,
            request: bucket.brought.request + 1,
            version: bucket.brought.version,
            left: leftRows(bucket.brought.left),
            ...rowJson(bucket.brought.row),
          },
        ],
  );
  return brought.length === 0 ? null : JSON.stringify(brought);
}

function draftsText(requests: readonly BatchRequest[]): string | null {
  const drafts = requests.flatMap(({ draft }, i) => {
    if (draft === undefined) return [];
    const { leaseId, entityId, resource, holdMs, text, key } = draft;
    return [{ q: i + 1, leaseId, entity: entityId, resource, hold: holdMs, text, key: key?.key, mark: key?.mark }];
  });
  return drafts.length === 0 ? null : JSON.stringify(drafts);
}

/** What a take has written of a draft; undefined: it was not written by a take. */
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

/** A row as the functions read it. */
export function rowJson({ levels, ...row }: StraightRow) {
  const all = <Value>(of: (level: StraightRow["levels"][number]) => Value) => numbers(levels.map(of) as Cell[]);
  return {
    signature: row.signature,
    limits: row.limitsText,
    epoch: row.epochMs,
    renew: row.renewAtMs,
    valid: row.validUntilMs,
    written: row.writtenMs,
    asOf: row.asOfMs,
    generation: row.generation,
    met: row.metNumber,
    hour: row.hourMs,
    requests: row.requests,
    names: levels.map(({ name }) => name),
    capacity: all((level) => level.capacityMilli),
    amount: all((level) => level.refillAmountMilli),
    period: all((level) => level.refillPeriodMs),
    soft: all((level) => level.soft),
    resetAfter: all((level) => level.windowMs),
    tokens: all((level) => level.tokensMilli),
    remainder: all((level) => level.remainder),
    counted: all((level) => level.countedMilli),
    window: all((level) => level.windowStartMs),
    topUp: all((level) => level.topUpMilli),
    resets: all((level) => level.resets),
  };
}

/** Usage by hour, counter and amount: `[[hourMs, "rpm", "1000"], ...]`. */
export function leftRows(left: readonly LeftUsage[]): readonly (readonly [number, string, string])[] {
  return left.flatMap(({ hourMs, requests, amounts }) => [
    ...(requests === 0 ? [] : [[hourMs, REQUESTS_COUNTER, String(requests)] as const]),
    ...amounts.map(({ limit, milli }) => [hourMs, limit, String(milli)] as const),
  ]);
}

/**
 * What few claims have: `o` an origin to compare, `s` counters beside the amounts, `l` what is counted of a forgotten bucket, `f` how many
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

type Cell = number | boolean | null;

function numbers(values: readonly Cell[]): string {
  return `{${values.map((value) => (value === null ? "NULL" : String(value))).join(",")}}`;
}

/** NULL where the function would not look at them: most of a batch is read by the server for nothing otherwise. */
function numbersUnless(isUnused: boolean, values: () => readonly Cell[]): string | null {
  return isUnused ? null : numbers(values());
}

export function texts(values: readonly string[]): string {
  return `{${values.map((value) => `"${value.replace(/["\\]/g, "\\$&")}"`).join(",")}}`;
}

interface ClaimJson extends ReadonlyArray<unknown> {
  readonly 0: readonly number[];
  readonly 1?: readonly (number | null)[] | null;
  readonly 2?: number | null;
  readonly 3?: readonly number[];
}

/** What the function answered. */
export function replyOf(text: unknown): BatchReply {
  const answer = JSON.parse(String(text)) as {
    readonly kind: "done" | "repeated" | "superseded";
    readonly generation: number;
    readonly serverMs: number;
    readonly rows: readonly (RowJson | null)[];
    readonly replies: readonly (Omit<RequestReply, "claims"> & { readonly claims?: readonly ClaimJson[] })[];
  };
  if (answer.kind === "superseded") return { kind: "superseded" };
  return {
    kind: "done",
    repeated: answer.kind === "repeated",
    generation: answer.generation,
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

interface RowJson {
  readonly version: number;
  readonly signature: string;
  readonly limits?: string;
  readonly epoch: number;
  readonly renew: number;
  readonly valid: number | null;
  readonly written: number | null;
  readonly asOf: number;
  readonly generation: number | null;
  readonly met: number;
  readonly hour: number;
  readonly requests: number;
  readonly tokens: readonly number[];
  readonly remainder: readonly number[];
  readonly counted: readonly (number | null)[];
  readonly window: readonly (number | null)[];
  readonly topUp: readonly number[];
  readonly resets: readonly number[];
  readonly marks: string | null;
}

function seenRow(row: RowJson): SeenRow {
  return {
    version: row.version,
    signature: row.signature,
    limitsText: row.limits,
    epochMs: row.epoch,
    renewAtMs: row.renew,
    validUntilMs: row.valid,
    writtenMs: row.written,
    asOfMs: row.asOf,
    generation: row.generation,
    metNumber: row.met,
    hourMs: row.hour,
    requests: row.requests,
    marks: row.marks,
    tokensMilli: row.tokens,
    remainders: row.remainder,
    countedMilli: row.counted,
    windows: row.window,
    topUpsMilli: row.topUp,
    resets: row.resets,
  };
}
