import { ValidationError } from "../names/errors.ts";
import { given } from "../names/given.ts";
import { shown } from "../names/names.ts";
import { isAskedFor, type RefusalFilter, type RefusalKey } from "./refusal-count.ts";
import { HOUR_MS } from "./usage.ts";

/** One refused request. */
export interface LoggedRefusal extends RefusalKey {
  /** When it was answered, in ms since 1970. */
  readonly atMs: number;
  /** The measure that the limit counts. */
  readonly counts: string;
  /** Whole tokens that it asked for. */
  readonly requested: number;
  /** Whole tokens that the limit held, rounded down; negative in debt. */
  readonly available: number;
  /** Whole tokens: the most that the limit held then. */
  readonly capacity: number;
  /** Milliseconds until the request would have fit; `null`: never. */
  readonly retryAfterMs: number | null;
  /** How long it had waited, in ms. Absent: it did not wait. */
  readonly waitedMs?: number;
  /** The `requestId` of the request, its first 64 characters. Absent: it had none. */
  readonly requestId?: string;
}

/** How long refusals are kept one by one. */
export const LOG_KEPT_MS = 48 * HOUR_MS;

/** Of each entity and hour a process keeps this many of the first refusals, and as many of the last. */
export const LOG_END = 20;

const REQUEST_ID_MAX = 64;

export function shortRequestId(requestId: string): string {
  return requestId.length <= REQUEST_ID_MAX ? requestId : Array.from(requestId).slice(0, REQUEST_ID_MAX).join("");
}

/** A refusal of a row, by its number there: a later one has a higher number. */
export interface NumberedRefusal {
  readonly number: number;
  readonly refusal: Omit<LoggedRefusal, "entityId">;
}

/** The refusals of one entity that one process kept in one hour, by their numbers. It is written whole each time. */
export interface RefusalLogRow {
  /** Url-safe, never twice. */
  readonly id: string;
  readonly hourMs: number;
  readonly entityId: string;
  /** Grows with each write of the row: one that arrives late must not replace a newer one. */
  readonly version: number;
  readonly refusals: readonly NumberedRefusal[];
}

/** The place of a refusal in the log. */
export interface LogPlace {
  readonly atMs: number;
  readonly entityId: string;
  /** Of the row. */
  readonly id: string;
  readonly number: number;
}

export interface PlacedRefusal extends LogPlace {
  readonly refusal: NumberedRefusal["refusal"];
}

export function placedIn({ id, entityId, refusals }: Pick<RefusalLogRow, "id" | "entityId" | "refusals">) {
  return refusals.map(({ number, refusal }): PlacedRefusal => ({ atMs: refusal.atMs, entityId, id, number, refusal }));
}

/** Orders the newest first; those of one instant by entity and row, and in a row the later one first. */
export function compareLogged(a: LogPlace, b: LogPlace): number {
  if (a.atMs !== b.atMs) return b.atMs - a.atMs;
  for (const name of ["entityId", "id"] as const) if (a[name] !== b[name]) return a[name] < b[name] ? -1 : 1;
  return b.number - a.number;
}

export function logCursor({ atMs, entityId, id, number }: LogPlace): string {
  return [atMs, entityId, id, number].join("\n");
}

export function placeOfLogCursor(cursor: string | undefined): LogPlace | undefined {
  if (cursor === undefined) return undefined;
  const [at, entityId, id, last, ...more] = cursor.split("\n");
  const [atMs, number] = [Number(at), Number(last)];
  if (id !== undefined && more.length === 0 && Number.isSafeInteger(atMs) && Number.isSafeInteger(number)) {
    return { atMs, entityId: entityId as string, id, number };
  }
  throw new ValidationError(
    "cursor_invalid",
    `Not a cursor of the refusal log: ${shown(cursor)}; pass the cursor of the previous page.`,
  );
}

/** Which refusals are asked for, in [fromMs, toMs). */
export interface LogQuery extends RefusalFilter {
  readonly fromMs: number;
  readonly toMs: number;
}

export function isLogged({ atMs, entityId, refusal }: PlacedRefusal, query: LogQuery): boolean {
  return atMs >= query.fromMs && atMs < query.toMs && isAskedFor({ ...refusal, entityId }, query);
}

export function loggedRefusal({ entityId, refusal }: PlacedRefusal): LoggedRefusal {
  const { atMs, ...rest } = refusal;
  return { atMs, entityId, ...rest };
}

/** A row of a store stays below 6 kB, whatever the names are: the keys of an item, with the entity in them, come on top. */
const TEXT_MAX_BYTES = 4_800;

type About = readonly [resource: string, limit: string, counts: string, level: string, total: 0 | 1, capacity: number];

type Entry = readonly [
  number: number,
  afterMs: number,
  about: number,
  requested: number,
  available: number,
  retryAfterMs: number | null,
  waitedMs?: number | null,
  requestId?: string,
];

/**
 * The refusals of a row as a text: what several have in common stands there once. Where it would be too long, refusals in the middle are
 * left out.
 */
export function logText({ hourMs, refusals }: Pick<RefusalLogRow, "hourMs" | "refusals">): string {
  const some = [...refusals];
  for (;;) {
    const text = textOf(hourMs, some);
    if (some.length <= 1 || bytesOf(text) <= TEXT_MAX_BYTES) return text;
    some.splice(some.length >> 1, 1);
  }
}

/** The size in UTF-8, or a little more: a character of four bytes counts six. */
function bytesOf(text: string): number {
  let bytes = 0;
  for (let i = 0; i < text.length; i++) bytes += text.charCodeAt(i) < 0x80 ? 1 : 3;
  return bytes;
}

function textOf(hourMs: number, refusals: readonly NumberedRefusal[]): string {
  const abouts = new Map<string, number>();
  const entries = refusals.map(({ number, refusal }): Entry => {
    const { atMs, resource, limit, counts, level, total, capacity } = refusal;
    const { requested, available, retryAfterMs, waitedMs, requestId } = refusal;
    const about: About = [resource, limit, counts, level, total ? 1 : 0, capacity];
    const text = JSON.stringify(about);
    const place = abouts.get(text) ?? abouts.size;
    abouts.set(text, place);
    const entry = [number, atMs - hourMs, place, requested, available, retryAfterMs] as const;
    if (requestId !== undefined) return [...entry, waitedMs ?? null, requestId];
    return waitedMs === undefined ? entry : [...entry, waitedMs];
  });
  return `[[${[...abouts.keys()].join(",")}],${JSON.stringify(entries)}]`;
}

/** Reads what `logText` wrote; undefined: it is something else. */
export function refusalsIn(hourMs: number, text: unknown): readonly NumberedRefusal[] | undefined {
  try {
    const [abouts, entries] = JSON.parse(String(text)) as readonly [readonly About[], readonly Entry[]];
    return entries.map(([number, afterMs, place, requested, available, retryAfterMs, waitedMs, requestId]) => {
      const [resource, limit, counts, level, total, capacity] = abouts[place] as About;
      const refusal = {
        ...{ atMs: hourMs + afterMs, resource, limit, counts, level, total: total === 1 },
        ...{ requested, available, capacity, retryAfterMs },
        ...given({ waitedMs: waitedMs ?? undefined, requestId }),
      };
      return { number, refusal };
    });
  } catch {
    return undefined;
  }
}

/** The error in place of an empty list, which would look as if nobody had been refused. */
export function refusalLogNotKept(): ValidationError {
  return new ValidationError(
    "refusal_log_not_kept",
    "This limiter was opened with `refusalLog: false` and keeps no single refusals; open it without.",
  );
}
