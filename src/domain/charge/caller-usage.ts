import { rulesOf } from "../limits/kinds/table.ts";
import type { Limit } from "../limits/limit.ts";
import { ValidationError } from "../names/errors.ts";
import { isAllowed, LIMIT_NAME } from "../names/name-rules.ts";
import { shown } from "../names/names.ts";
import { type Amount, measureOf } from "./amounts.ts";
import { countersOf, countName, type UsageCounts } from "./usage.ts";

// What a request asks of its own entity on its resource, and no bucket there counts, is counted beside the buckets. These rules say what
// that is, and under which names it is counted.

/** A level that a request is charged to, the entity that asks first. */
export interface CountingLevel {
  /** The limits that the request is charged to there. */
  readonly limits: readonly Limit[];
  /** A total over all resources: it counts nothing on this one. */
  readonly isTotal: boolean;
}

/** How a measure is counted beside the buckets. */
interface CallerMeasure {
  readonly name: string;
  /** No level counts it on the resource: only then it is in sums over entities, which have the buckets of all levels. */
  readonly isAlone: boolean;
}

/** An amount that a lease has counted beside the buckets. */
export interface CallerAmount extends CallerMeasure {
  readonly measure: string;
  readonly milli: number;
}

/** What one resource of a lease has counted beside the buckets: its changes are counted by the same rules. */
export interface CallerUse {
  readonly levels: readonly CountingLevel[];
  readonly bypass: boolean;
  readonly amounts: readonly CallerAmount[];
}

/** What of a take is counted beside the buckets. */
export interface BesideBuckets extends CallerUse {
  /** Whether the request itself is: no bucket of the caller was taken from; `alone`: none of any level. */
  readonly request: "counted" | "covered" | "alone";
}

/** Undefined: a limit of the caller counts the measure, or it is one of slots, which come back and are not used up. */
function callerMeasure(measure: string, levels: readonly CountingLevel[]): CallerMeasure | undefined {
  const own = levels[0]?.limits ?? [];
  if (own.some((limit) => measureOf(limit) === measure)) return undefined;
  const counting = levels.flatMap(({ limits, isTotal }) =>
    limits.flatMap((limit) => (measureOf(limit) === measure ? [{ limit, isTotal }] : [])),
  );
  if (counting.length > 0 && counting.every(({ limit }) => rulesOf(limit).holdsSlots)) return undefined;
  // Nobody has checked a measure that nothing counts.
  if (!isAllowed(LIMIT_NAME, measure)) return undefined;
  const isAlone = counting.every(({ limit, isTotal }) => isTotal || rulesOf(limit).holdsSlots);
  return { name: own.some(({ name }) => name === measure) ? `measure:${measure}` : measure, isAlone };
}

/** The amounts by measure that are counted beside the buckets; undefined: all are counted by them. */
export function callerAmounts(
  named: readonly Amount[],
  levels: readonly CountingLevel[],
): readonly CallerAmount[] | undefined {
  let amounts: CallerAmount[] | undefined;
  for (const { limit: measure, milli } of named) {
    const counted = milli === 0 ? undefined : callerMeasure(measure, levels);
    if (counted === undefined) continue;
    amounts ??= [];
    amounts.push({ ...counted, measure, milli });
  }
  return amounts;
}

/** A change of amounts by measure. `totals`: what they come to; `back`: at most what is held comes back. */
export type CallerChange = "difference" | "totals" | "back";

/** The use after a change, and the difference that is to be counted. */
export function changedUse(
  use: CallerUse,
  named: readonly Amount[],
  how: CallerChange,
): { readonly use: CallerUse; readonly difference: readonly CallerAmount[] } {
  const amounts = new Map(use.amounts.map((one) => [one.measure, one]));
  const difference: CallerAmount[] = [];
  for (const { limit: measure, milli: asked } of named) {
    const known = amounts.get(measure);
    const counted = known ?? callerMeasure(measure, use.levels);
    if (counted === undefined) continue;
    const held = known?.milli ?? 0;
    const wanted = how === "totals" ? asked : held + (how === "back" ? -asked : asked);
    const milli = Math.max(0, wanted);
    if (milli === held) continue;
    const { name, isAlone } = counted;
    amounts.set(measure, { measure, name, isAlone, milli });
    difference.push({ measure, name, isAlone, milli: milli - held });
  }
  return difference.length === 0
    ? { use, difference }
    : { use: { ...use, amounts: [...amounts.values()] }, difference };
}

/** Everything that is held, as a change. */
export function allBack({ amounts }: CallerUse): readonly Amount[] {
  return amounts.map(({ measure, milli }) => ({ limit: measure, milli: -milli }));
}

/** The entity under whose name it is counted how many requests were granted on a resource at all; no entity is called so. */
export const GRANTED = "_granted_";

/** The name of the number of requests; no limit is called so. */
export const REQUESTS_NAME = "#requests";

/** Ends the name of what no level counts; it cannot stand in the name of a limit. */
const ALONE = "!";

/** One sum of the book. */
export interface CallerSumKey {
  readonly name: string;
  readonly isAlone: boolean;
}

export function sumName({ name, isAlone }: CallerSumKey): string {
  return isAlone ? `${name}${ALONE}` : name;
}

/** The sums that an amount adds to; of a bypassed caller it is among the bypassed ones, too. */
export function sumsOf({ name, isAlone }: CallerMeasure, bypass: boolean): readonly CallerSumKey[] {
  const counted = { name, isAlone };
  return bypass ? [counted, { name: countName("bypassed", name), isAlone }] : [counted];
}

/** Whole tokens and requests by the name of their sum. */
export type CallerCounts = Readonly<Record<string, number>>;

/** What a row of the book says of a window: `all`, or only what no level counted. */
export function usageIn(counts: CallerCounts, which: "all" | "alone"): UsageCounts & { readonly requests: number } {
  let requests = 0;
  const named: (readonly [string, number])[] = [];
  for (const [text, count] of Object.entries(counts)) {
    const isAlone = text.endsWith(ALONE);
    if (which === "alone" && !isAlone) continue;
    const name = isAlone ? text.slice(0, -ALONE.length) : text;
    if (name === REQUESTS_NAME) requests += count;
    else named.push([name, count]);
  }
  return { ...countersOf(named), requests };
}

/** A place in a list of usage: by window, then entity, then resource. */
export interface UsagePosition {
  readonly windowStartMs: number;
  readonly entityId: string;
  readonly resource: string;
}

export function compareUsage(a: UsagePosition, b: UsagePosition): number {
  if (a.windowStartMs !== b.windowStartMs) return a.windowStartMs - b.windowStartMs;
  if (a.entityId !== b.entityId) return a.entityId < b.entityId ? -1 : 1;
  if (a.resource !== b.resource) return a.resource < b.resource ? -1 : 1;
  return 0;
}

/** A position as a cursor of the book, on every store alike. */
export function callerCursor({ windowStartMs, entityId, resource }: UsagePosition): string {
  return [windowStartMs, entityId, resource].join("\n");
}

/** The position that a cursor says; undefined for the first page. */
export function usagePositionOf(cursor: string | undefined): UsagePosition | undefined {
  if (cursor === undefined) return undefined;
  const [start, entityId, resource, ...more] = cursor.split("\n");
  const windowStartMs = Number(start);
  if (entityId !== undefined && resource !== undefined && more.length === 0 && Number.isSafeInteger(windowStartMs)) {
    return { windowStartMs, entityId, resource };
  }
  throw usageCursorInvalid(cursor);
}

export function usageCursorInvalid(cursor: unknown): ValidationError {
  return new ValidationError(
    "cursor_invalid",
    `Not a cursor of this list: ${shown(cursor)}; pass the cursor of the previous page.`,
  );
}
