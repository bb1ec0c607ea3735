import { ValidationError } from "../names/errors.ts";
import { shown } from "../names/names.ts";
import type { UsageWindow } from "./usage.ts";

/** What a refusal is counted under. */
export interface RefusalKey {
  /** The entity that asked. */
  readonly entityId: string;
  /** The resource that it asked for; of several the first. */
  readonly resource: string;
  /** The limit that refused; of several the one with the longest wait. */
  readonly limit: string;
  /** Whose limit it is: the id of the entity that asked, or of a parent. */
  readonly level: string;
  /** Whether the limit is one of the totals over all resources. */
  readonly total: boolean;
}

/** How many requests were refused in one window (UTC). */
export interface RefusalCount extends RefusalKey {
  /** How long the window is. */
  readonly window: UsageWindow;
  /** First ms of the window. */
  readonly windowStartMs: number;
  /** How many requests ended refused. */
  readonly count: number;
}

/** How many requests were refused for one entity, one resource, or one limit. */
export interface RefusalTotal {
  /** The entity, in totals by entity. */
  readonly entityId?: string;
  /** The resource, in totals by resource. */
  readonly resource?: string;
  /** The name of the limit, in totals by limit. */
  readonly limit?: string;
  /** How many requests ended refused. */
  readonly count: number;
}

/** The name in place of names that were too many to be counted; no name begins with an underscore. */
export const OTHER = "_other_";

/** The key under which all of those are added up. */
export const OTHER_KEY: RefusalKey = { entityId: OTHER, resource: OTHER, limit: OTHER, level: OTHER, total: false };

/** A process writes to a store at most so often, and to one that is paid for each write more rarely. */
export const WRITE_EVERY_MS = 10_000;
export const BILLED_WRITE_EVERY_MS = 60_000;

/** The position of a count in a list. */
export type RefusalPosition = RefusalKey & Pick<RefusalCount, "windowStartMs">;

/** Orders by window, then by entity, resource, limit and level; a total after a limit of the same name. */
export function compareRefusals(a: RefusalPosition, b: RefusalPosition): number {
  if (a.windowStartMs !== b.windowStartMs) return a.windowStartMs - b.windowStartMs;
  for (const name of ["entityId", "resource", "limit", "level"] as const) {
    if (a[name] !== b[name]) return a[name] < b[name] ? -1 : 1;
  }
  return Number(a.total) - Number(b.total);
}

/** A position as a cursor, on every store alike: a limiter adds its own counts to what a store answers. */
export function refusalCursor({ windowStartMs, entityId, resource, limit, level, total }: RefusalPosition): string {
  return [windowStartMs, entityId, resource, limit, level, total ? "total" : "limit"].join("\n");
}

/** The position that a cursor says; undefined for the first page. */
export function positionOfCursor(cursor: string | undefined): RefusalPosition | undefined {
  if (cursor === undefined) return undefined;
  const [start, entityId, resource, limit, level, kind, ...more] = cursor.split("\n");
  const windowStartMs = Number(start);
  const isWhole = level !== undefined && (kind === "limit" || kind === "total") && more.length === 0;
  if (isWhole && Number.isSafeInteger(windowStartMs)) {
    return {
      windowStartMs,
      ...({ entityId, resource, limit, level } as Omit<RefusalKey, "total">),
      total: kind === "total",
    };
  }
  throw new ValidationError(
    "cursor_invalid",
    `Not a cursor of this list: ${shown(cursor)}; pass the cursor of the previous page.`,
  );
}

/** A key as text, for maps. */
export function refusalKeyText({ entityId, resource, limit, level, total }: RefusalKey): string {
  return `${entityId}\n${resource}\n${limit}\n${level}\n${total ? 1 : 0}`;
}

/** The counts that are asked for; absent: whatever the name. */
export interface RefusalFilter {
  readonly entityId?: string;
  readonly resource?: string;
  readonly limit?: string;
}

export function isAskedFor(key: RefusalKey, filter: RefusalFilter): boolean {
  const names = ["entityId", "resource", "limit"] as const;
  return names.every((name) => filter[name] === undefined || filter[name] === key[name]);
}

/** The error in place of zeros, which would look as if nobody had been refused. */
export function refusalsNotKept(why: "countRefusals" | "usage"): ValidationError {
  const reason =
    why === "countRefusals"
      ? "This limiter was opened with `countRefusals: false` and counts no refusals; open it without."
      : "This store was opened with `usage: false` and keeps no refusals; open it without, or with `usage: { keepMs }`.";
  return new ValidationError("refusals_not_kept", reason);
}
