import type { Limit } from "../../src/domain/limits/limit.ts";
import type { Calendar } from "../../src/domain/limits/schedule.ts";
import type { Item, ItemWrite, WriteTrace } from "../../src/ports/item-store.ts";
import { namesOf, RF, SHARD_COUNT } from "../../src/protocol/item/attributes.ts";
import type { AppliedChange } from "../kit/conditional-table.ts";
import {
  countIn,
  drippedMilli,
  type LimitReading,
  lineAt,
  numberIn,
  readingOf,
  readingsOf,
  termsText,
} from "./readings.ts";

export interface OurWrite {
  readonly before: Item;
  readonly after: Item;
  readonly trace: WriteTrace;
  readonly write: ItemWrite;
  /** What was taken, not debited, of each limit. */
  readonly takes: ReadonlyMap<string, number>;
  readonly calendar: Calendar;
  readonly resetOf: (limit: string) => Limit["reset"];
  readonly together: number;
}

/**
 * What is wrong with one limit after a write of ours on an item that was there. Conservation, write by write: the level
 * after is the level before, cut at the brim, less what was taken and plus what was given back; nothing else.
 */
export function limitProblems(limit: LimitReading, given: OurWrite): string[] {
  const { before, after, takes } = given;
  const old = readingOf(before, limit.name);
  const problems: string[] = [];
  // Of a limit that was not there the original may have counted something all the same.
  const net = limit.usedMilli - numberIn(before, namesOf(limit.name).tc);
  if ((takes.get(limit.name) ?? 0) > 0 && !limit.isSoft && limit.tokensMilli < 0) {
    problems.push(`a take left ${limit.tokensMilli} stored tokens of ${limit.name}`);
  }
  if (old === undefined) {
    if (limit.tokensMilli !== limit.shareMilli - net) problems.push(`${limit.name} began with ${limit.tokensMilli}`);
    return problems;
  }
  const isMoved = before[RF] !== after[RF];
  // A limit that the original put on the item a moment ago, and that our write does not know of, is passed over.
  const { tk } = namesOf(limit.name);
  if (!given.write.when.some((clause) => clause.some(({ name }) => name === tk)) && isMoved && net === 0)
    return problems;
  if (isMoved && numberIn(after, RF) < numberIn(before, RF)) problems.push("the epoch went back");
  // A moment of its own, by which writers know that terms were told anew.
  if (isMoved && numberIn(after, RF) > Math.max(given.trace.readingMs, numberIn(before, RF) + 1)) {
    problems.push("the epoch ran ahead by more than a millisecond");
  }
  if (isMoved) problems.push(...toldProblems(old, limit, net, given));
  else problems.push(...plainProblems(old, limit, net, given));
  return problems;
}

/** An item that ours makes by itself is shard 0 of one, full but for what was taken. */
export function madeProblems(shard: number, after: Item): string[] {
  if (shard !== 0 || countIn(after) !== 1) return [`shard ${shard} of ${countIn(after)} was made without its sibling`];
  if (!(SHARD_COUNT in after)) return ["an item was made that does not say how many shards there are"];
  return readingsOf(after).flatMap((limit) =>
    limit.tokensMilli === limit.shareMilli - limit.usedMilli
      ? []
      : [`${limit.name} was made with ${limit.tokensMilli}`],
  );
}

/** A shard that ours makes holds what its sibling gave, and both together no more than it had. */
export function splitProblems(changes: readonly AppliedChange[]): string[] {
  const made = changes.find(({ before }) => before === undefined)?.after;
  const giver = changes.find(({ before }) => before !== undefined);
  if (made === undefined || giver?.before === undefined || giver.after === undefined)
    return ["a shard came from nowhere"];
  const { before, after } = giver;
  return readingsOf(after).flatMap((limit) => {
    const old = readingOf(before, limit.name);
    const other = readingOf(made, limit.name);
    if (old === undefined || other === undefined) return [`${limit.name} is not on both shards`];
    const had = Math.min(old.brimMilli, lineAt(before, old, numberIn(after, RF)));
    const has = limit.tokensMilli + other.tokensMilli;
    return Math.abs(has - had) <= 1 ? [] : [`of ${had} ${limit.name} two shards have ${has}`];
  });
}

/** The epoch stays: tokens move by what was taken or given back. What is over the brim is cut only where no time has passed. */
function plainProblems(old: LimitReading, limit: LimitReading, net: number, { trace, before }: OurWrite): string[] {
  const { name } = limit;
  if (termsText(old) !== termsText(limit)) return [`${name} was changed in place`];
  const moved = old.tokensMilli - limit.tokensMilli;
  if (moved === net) return [];
  // A quota's tokens do not come back after its period.
  if (net < 0 && moved === 0 && limit.isQuota) return [];
  const spare = trace.spare.find((one) => one.limit === name)?.milli ?? 0;
  const over = trace.readingMs > numberIn(before, RF) ? 0 : Math.max(0, old.tokensMilli - old.brimMilli);
  if (moved > net && moved - net <= spare + over) return [];
  return [`${moved} of ${name} left stored tokens where ${net} was taken, and the epoch stayed`];
}

/** The epoch moved: time has acted, resets have, and perhaps other numbers were brought. */
function toldProblems(old: LimitReading, limit: LimitReading, net: number, given: OurWrite): string[] {
  const { before, after, calendar, resetOf } = given;
  const { name } = limit;
  const [fromMs, toMs] = [numberIn(before, RF), numberIn(after, RF)];
  if (old.isSoft && !limit.isSoft && old.tokensMilli < 0) return [];
  const isSame = termsText(old) === termsText(limit);
  if (limit.isQuota) {
    const reset = resetOf(name);
    const edgeMs = reset === undefined ? Number.NaN : calendar.previousReset(reset.cron, reset.tz ?? "UTC", toMs);
    const isReset = edgeMs > fromMs;
    // By the numbers that were on the item at the edge; what is brought with it comes after. What was used of a quota stays used.
    const left = isReset ? old.shareMilli : Math.min(old.brimMilli, old.tokensMilli);
    const grantedMilli = isReset ? old.shareMilli : old.grantedMilli;
    const level = old.isQuota ? left + limit.grantedMilli - grantedMilli : Math.min(left, limit.brimMilli);
    // Brought or not, what came back before its time may count as usage only.
    const isRight = limit.tokensMilli === level - net || (net < 0 && limit.tokensMilli === level);
    if (isRight) return [];
    return [`${name} has ${limit.tokensMilli} after ${isReset ? "a reset" : "no reset"} and ${net} taken of ${level}`];
  }
  // A reading behind the epoch counts as the epoch; the moment from there to the new one goes by the new numbers.
  const readMs = toMs > fromMs + 1 ? toMs : fromMs;
  const count = countIn(after);
  const oldLevel = Math.min(old.brimMilli, lineAt(before, old, isSame ? toMs : readMs));
  const rise = isSame ? 0 : drippedMilli({ ...limit, remainder: 0 }, count, toMs - readMs);
  const expected = Math.min(limit.brimMilli, oldLevel + rise) - net;
  const tolerance = isSame
    ? 1
    : 2 + Math.ceil(Math.max(limit.refillMilli / limit.periodMs, old.refillMilli / old.periodMs));
  if (Math.abs(limit.tokensMilli - expected) <= tolerance) return [];
  return [`${name} has ${limit.tokensMilli} where ${expected} should be after a rebase`];
}
