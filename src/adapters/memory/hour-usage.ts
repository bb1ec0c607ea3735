import { tokensOfCount } from "../../bucket/integers.ts";
import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import type { CountedAmount } from "../../domain/charge/amounts.ts";
import { HOUR_MS, hourOf } from "../../domain/charge/usage.ts";
import { lastHourOverMs } from "../../stored/bucket-rules.ts";
import { OrderedTexts } from "./ordered-map.ts";

/** Net tokens of one bucket in one hour. */
export interface HourUsage {
  readonly hourMs: number;
  /** Names and counts beside each other, by index: few limits, counted with every take. The names are shared, never changed. */
  names: readonly string[];
  tokens: number[];
  requests: number;
}

/** The usage of a cell. */
export interface Counted {
  readonly key: BucketKey;
  /** In the order in which the hours were first counted in; undefined while there are none. */
  hours: HourUsage[] | undefined;
  /** The hour last counted in: nearly always the one wanted next. */
  last: HourUsage | undefined;
}

/** The ids of the buckets that were counted in each hour. Buckets that are gone stay in it until the hour is dropped. */
export type CountedHours = Map<number, OrderedTexts>;

/** Counts usage beside buckets, in as few bytes as ids that come once need. */
export class UsageCounter {
  /** The names last seen: nearly every bucket counts the same, so that they share one list. */
  #names: readonly string[] = [];
  readonly #hours: CountedHours;

  constructor(hours: CountedHours) {
    this.#hours = hours;
  }

  /** Counts amounts taken (`sign` 1) or given back (-1). */
  count(cell: Counted, amounts: readonly CountedAmount[], sign: 1 | -1, nowMs: number): HourUsage {
    const hour = this.#hourAt(cell, amounts, nowMs);
    for (let a = 0; a < amounts.length; a++) {
      const { limit, milli } = amounts[a] as CountedAmount;
      if (milli === 0) continue;
      const count = sign * tokensOfCount(milli);
      // Most often they are counted in the order in which they are named.
      if (a < hour.names.length && hour.names[a] === limit) hour.tokens[a] = (hour.tokens[a] as number) + count;
      else this.#add(hour, limit, count);
    }
    return hour;
  }

  #hourAt(cell: Counted, amounts: readonly CountedAmount[], nowMs: number): HourUsage {
    const { last } = cell;
    const isLast = last !== undefined && nowMs >= last.hourMs && nowMs < last.hourMs + HOUR_MS;
    return isLast ? last : this.#nextHour(cell, amounts, nowMs);
  }

  // Not in `#hourAt`: V8 makes an object for the variables of a closure with every call of the function that the closure stands in.
  #nextHour(cell: Counted, amounts: readonly CountedAmount[], nowMs: number): HourUsage {
    const hourMs = hourOf(nowMs);
    let hour = cell.hours?.findLast((known) => known.hourMs === hourMs);
    if (hour === undefined) {
      const names = this.#namesOf(amounts);
      hour = { hourMs, names, tokens: names.map(() => 0), requests: 0 };
      if (cell.hours === undefined) cell.hours = [hour];
      else cell.hours.push(hour);
      const ids = this.#hours.get(hourMs) ?? new OrderedTexts();
      ids.add(cell.key.id);
      this.#hours.set(hourMs, ids);
    }
    cell.last = hour;
    return hour;
  }

  #add(hour: HourUsage, name: string, count: number): void {
    const { names, tokens } = hour;
    for (let i = 0; i < names.length; i++) {
      if (names[i] === name) {
        tokens[i] = (tokens[i] as number) + count;
        return;
      }
    }
    hour.names = this.#shared([...names, name]);
    hour.tokens = [...tokens, count];
  }

  #namesOf(amounts: readonly CountedAmount[]): readonly string[] {
    return this.#shared(amounts.flatMap(({ limit, milli }) => (milli === 0 ? [] : [limit])));
  }

  #shared(names: readonly string[]): readonly string[] {
    const known = this.#names;
    if (known.length !== names.length || names.some((name, i) => name !== known[i])) this.#names = names;
    return this.#names;
  }
}

/** Drops the hours that ended more than `keepMs` ago. */
export function dropCountedHours(hours: CountedHours, keepMs: number, nowMs: number): void {
  for (const hourMs of hours.keys()) if (isOver(hourMs, keepMs, nowMs)) hours.delete(hourMs);
}

/** Drops the hours of one bucket that ended more than `keepMs` ago. */
export function dropHours(cell: Counted, keepMs: number, nowMs: number): void {
  const { hours } = cell;
  if (hours === undefined) return;
  const kept = hours.filter(({ hourMs }) => !isOver(hourMs, keepMs, nowMs));
  if (kept.length === hours.length) return;
  cell.hours = kept.length === 0 ? undefined : kept;
  if (cell.last !== undefined && isOver(cell.last.hourMs, keepMs, nowMs)) cell.last = undefined;
}

function isOver(hourMs: number, keepMs: number, nowMs: number): boolean {
  return hourMs <= lastHourOverMs(nowMs, keepMs);
}
