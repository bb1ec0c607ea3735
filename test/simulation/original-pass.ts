import type { Limit } from "../../src/domain/limits/limit.ts";
import type { Calendar } from "../../src/domain/limits/schedule.ts";
import type { Clause, Item, ItemKey, ItemValue, ItemWrite } from "../../src/ports/item-store.ts";
import { namesOf, RF, SCHED_TZ, SHARD_COUNT, TTL, VU, WCU } from "../../src/protocol/item/attributes.ts";
import {
  freshShareMilli,
  isOn,
  lastEdgeMs,
  numberIn,
  refilledMilli,
  shardCountIn,
  termsOn,
  type Wants,
  waitFor,
  writesTermsIn,
} from "./original-terms.ts";
import {
  asSeen,
  change,
  commonWords,
  ownWords,
  parameterWords,
  softUntilMs,
  validUntilMs,
  writesWords,
  zoneOf,
} from "./original-words.ts";

/** One limit in a slow pass over an item. */
export interface PassLimit {
  readonly limit: Limit;
  readonly isDeclared: boolean;
  /** Millitokens asked for. */
  readonly wantMilli: number;
  /** Stored tokens; undefined: the limit is not on the item, and the pass puts it there. */
  readonly readMilli: number | undefined;
  /** With what time has brought, before anything is taken. */
  readonly levelMilli: number;
  /** A new period begins. */
  readonly isReset: boolean;
}

/** What a commit needs besides the pass itself. */
export interface Commit {
  /** When the pass began: what time has brought is worked out for then. */
  readonly beganMs: number;
  readonly nowMs: number;
  readonly random: () => number;
  readonly calendar: Calendar;
  /** In seconds; undefined: the item does not expire. */
  readonly ttlS: number | undefined;
}

/**
 * What a slow pass finds on the item at the time it began. `grants` says what quotas that are not on it begin with;
 * where it does not, they begin with a share.
 */
export function passOver(
  item: Item,
  limits: readonly Limit[],
  wants: Wants,
  grants: ReadonlyMap<string, number>,
  atMs: number,
  calendar: Calendar,
): PassLimit[] {
  return limits.map((limit) => {
    const { name } = limit;
    const asked = { limit, isDeclared: wants.has(name), wantMilli: wants.get(name) ?? 0 };
    if (!isOn(item, name)) {
      const levelMilli = grants.get(name) ?? freshShareMilli(limit, shardCountIn(item), atMs, calendar);
      return { ...asked, readMilli: undefined, levelMilli, isReset: false };
    }
    const readMilli = numberIn(item, namesOf(name).tk);
    const terms = termsOn(item, name, limit, atMs, calendar);
    const isReset = lastEdgeMs(limit, atMs, calendar) > numberIn(item, RF);
    if (isReset) return { ...asked, readMilli, levelMilli: terms.shareMilli, isReset };
    return { ...asked, readMilli, levelMilli: refilledMilli(readMilli, terms, atMs - numberIn(item, RF)), isReset };
  });
}

/** How long the pass tells the caller to wait, in ms; undefined when there is enough of everything. */
export function waitByPass(
  item: Item,
  pass: readonly PassLimit[],
  atMs: number,
  calendar: Calendar,
): number | undefined {
  let waitMs: number | undefined;
  for (const { limit, isDeclared, wantMilli, levelMilli } of pass) {
    if (!isDeclared || limit.soft === true || levelMilli >= wantMilli) continue;
    const terms = termsOn({ ...parameterWords(limit), ...item }, limit.name, limit, atMs, calendar);
    waitMs = Math.max(waitMs ?? 0, waitFor(wantMilli - levelMilli, terms, limit, atMs, calendar));
  }
  return waitMs;
}

/** The pass with nothing taken. */
export function takingNothing(pass: readonly PassLimit[]): PassLimit[] {
  return pass.map((part) => ({ ...part, wantMilli: 0 }));
}

/** Creates the item, if it is not there. */
export function createWrite(key: ItemKey, count: number, pass: readonly PassLimit[], commit: Commit): ItemWrite {
  const limits = pass.map(({ limit }) => limit);
  const common = commonWords(limits);
  const item: Record<string, ItemValue> = {
    [RF]: commit.nowMs,
    [SHARD_COUNT]: count,
    ...writesWords(),
    ...common,
  };
  for (const part of pass) Object.assign(item, seedWords(part, common, count, commit));
  const vu = validUntilMs(limits, commit.nowMs, commit.calendar);
  if (vu !== undefined) item[VU] = vu;
  if (commit.ttlS !== undefined) item[TTL] = commit.ttlS;
  return { ...change(key, { kind: "put", set: item }), item: "missing" };
}

/**
 * The slow pass's write, under the lock of `rf`. What time brought was worked out when the pass began, but `rf` says
 * now: what the round trips between the two would have brought is lost.
 */
export function normalWrite(key: ItemKey, item: Item, before: readonly PassLimit[], commit: Commit): ItemWrite {
  const { beganMs, nowMs, calendar, ttlS } = commit;
  const rf = numberIn(item, RF);
  const pass = before.map((part) => retargeted(item, part, commit));
  const when: Clause[] = [asSeen(item, RF), asSeen(item, VU)];
  const set: Record<string, ItemValue> = { [RF]: Math.max(nowMs, rf) };
  const add: Record<string, number> = {};
  const remove: string[] = [];
  for (const part of pass) {
    const { limit, wantMilli, readMilli, levelMilli, isReset } = part;
    const names = namesOf(limit.name);
    if (readMilli === undefined) {
      when.push([
        { name: names.cp, is: "absent" },
        { name: names.tk, is: "absent" },
      ]);
      Object.assign(set, seedWords(part, item, shardCountIn(item), commit));
      const tz = zoneOf(limit);
      if (tz !== undefined) set[SCHED_TZ] = tz;
      continue;
    }
    const broughtMilli = levelMilli - readMilli;
    const floorMilli = wantMilli - broughtMilli;
    if (floorMilli > 0 && limit.soft !== true) when.push([{ name: names.tk, is: ">=", value: floorMilli }]);
    if (broughtMilli > 0) when.push([{ name: names.tk, is: "<=", value: readMilli }]);
    if (floorMilli !== 0) add[names.tk] = -floorMilli;
    if (wantMilli !== 0) add[names.tc] = wantMilli;
    if (isReset) {
      set[names.gc] = shardCountIn(item);
      remove.push(names.tu);
    }
    if (limit.soft === true || names.soft in item) when.push(asSeen(item, names.soft));
    if (limit.soft === true) set[names.soft] = softUntilMs(nowMs, commit.random);
    else remove.push(names.soft);
  }
  const wcu = namesOf(WCU).tk;
  if (wcu in item) {
    const readMilli = numberIn(item, wcu);
    const broughtMilli = refilledMilli(readMilli, writesTermsIn(item), beganMs - rf) - readMilli;
    if (broughtMilli > 0) when.push([{ name: wcu, is: "<=", value: readMilli }]);
    if (broughtMilli !== 0) add[wcu] = broughtMilli;
  }
  const vu = validUntilMs(
    pass.map(({ limit }) => limit),
    nowMs,
    calendar,
  );
  if (vu === undefined) remove.push(VU);
  else set[VU] = vu;
  if (ttlS === undefined) remove.push(TTL);
  else set[TTL] = ttlS;
  return change(key, { when, set, add, remove });
}

/**
 * Takes from what is stored, after the lock was lost: nothing that time brought is credited. Undefined: there is
 * nothing to take. `image` is the item as it stood when the lock was lost, if that was seen.
 */
export function retryWrite(
  key: ItemKey,
  image: Item | undefined,
  pass: readonly PassLimit[],
  commit: Commit,
): ItemWrite | undefined {
  const when: Clause[] = [];
  const set: Record<string, ItemValue> = {};
  const add: Record<string, number> = {};
  for (const part of pass) {
    const { limit, wantMilli, readMilli } = part;
    if (wantMilli <= 0) continue;
    const names = namesOf(limit.name);
    // The tokens of a new period are not to be spent before the period has begun.
    const edgeMs = lastEdgeMs(limit, commit.nowMs, commit.calendar);
    if (Number.isFinite(edgeMs)) when.push([{ name: RF, is: ">=", value: edgeMs }]);
    if (readMilli === undefined && image !== undefined && !isOn(image, limit.name)) {
      when.push([
        { name: names.cp, is: "absent" },
        { name: names.tk, is: "absent" },
      ]);
      Object.assign(set, seedWords(part, image, shardCountIn(image), commit));
      continue;
    }
    when.push([
      limit.soft === true ? { name: names.tk, is: "present" } : { name: names.tk, is: ">=", value: wantMilli },
    ]);
    add[names.tk] = -wantMilli;
    add[names.tc] = wantMilli;
  }
  return when.length === 0 ? undefined : change(key, { when, set, add });
}

/** Renews and removes stamps after a pass that took nothing; undefined when they are all right. */
export function stampWrite(
  key: ItemKey,
  item: Item,
  limits: readonly Limit[],
  { nowMs, random }: Commit,
): ItemWrite | undefined {
  const when: Clause[] = [];
  const set: Record<string, ItemValue> = {};
  const remove: string[] = [];
  for (const limit of limits) {
    const { soft } = namesOf(limit.name);
    const isStamped = numberIn(item, soft) > nowMs;
    if (!isOn(item, limit.name) || (limit.soft === true ? isStamped : !(soft in item))) continue;
    when.push(asSeen(item, soft));
    if (limit.soft === true) set[soft] = softUntilMs(nowMs, random);
    else remove.push(soft);
  }
  return when.length === 0 ? undefined : change(key, { when, set, remove });
}

/** All that a limit has on an item which had none of it. */
function seedWords(part: PassLimit, common: Item, count: number, { nowMs, random }: Commit): Item {
  const { limit, wantMilli, levelMilli } = part;
  const names = namesOf(limit.name);
  return {
    ...parameterWords(limit),
    ...ownWords(limit, common),
    [names.tk]: levelMilli - wantMilli,
    [names.tc]: wantMilli,
    ...(limit.reset === undefined ? {} : { [names.gc]: count }),
    ...(limit.soft === true ? { [names.soft]: softUntilMs(nowMs, random) } : {}),
  };
}

/** Should an edge have passed while the pass was under way, it counts after all. */
function retargeted(item: Item, part: PassLimit, { nowMs, calendar }: Commit): PassLimit {
  const { limit, readMilli, isReset } = part;
  if (readMilli === undefined || isReset || lastEdgeMs(limit, nowMs, calendar) <= numberIn(item, RF)) return part;
  const { shareMilli } = termsOn(item, limit.name, limit, nowMs, calendar);
  return { ...part, levelMilli: shareMilli, isReset: true };
}
