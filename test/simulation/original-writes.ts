import type { Limit } from "../../src/domain/limits/limit.ts";
import type { Calendar } from "../../src/domain/limits/schedule.ts";
import type { Clause, Item, ItemKey, ItemValue, ItemWrite } from "../../src/ports/item-store.ts";
import {
  DISABLED,
  limitNamesIn,
  namesOf,
  RF,
  RSCHED,
  SCHED,
  SCHED_TZ,
  SHARD_COUNT,
  TTL,
  VU,
  WCU,
} from "../../src/protocol/item/attributes.ts";
import { nextEdgeMs, numberIn, termsOn, type Wants } from "./original-terms.ts";
import { asSeen, change, commonWords, ownWords, parameterWords, softUntilMs } from "./original-words.ts";

/** Spends stored tokens; nothing that time has brought since `rf` is looked at, and `rf` stays. */
export function fastWrite(key: ItemKey, wants: Wants, nowMs: number): ItemWrite {
  const add: Record<string, number> = {};
  const wcu = namesOf(WCU);
  const when: Clause[] = [
    [{ name: wcu.tk, is: ">=", value: 1000 }],
    [
      { name: TTL, is: "absent" },
      { name: TTL, is: ">", value: Math.floor(nowMs / 1000) },
    ],
    [{ name: DISABLED, is: "absent" }],
    [
      { name: VU, is: "absent" },
      { name: VU, is: ">", value: nowMs },
    ],
  ];
  for (const [name, milli] of wants) {
    const names = namesOf(name);
    const covered = { name: names.tk, is: ">=", value: milli } as const;
    const isSoft = { name: names.soft, is: ">", value: nowMs } as const;
    when.push(
      [isSoft, covered],
      [{ name: names.cp, is: "present" }, covered],
      [{ name: names.tk, is: "present" }],
      [{ name: names.soft, is: "absent" }, isSoft],
    );
    add[names.tk] = -milli;
    add[names.tc] = milli;
  }
  add[wcu.tk] = -1000;
  add[wcu.tc] = 1000;
  return change(key, { when, add });
}

/** Why a fast write failed, by the item as it stood, in the order in which the original looks. */
export type FastFailure = "disabled" | "boundary" | "writes" | "tokens";

export function fastFailure(item: Item, wants: Wants, nowMs: number): FastFailure {
  if (item[DISABLED] === true) return "disabled";
  for (const name of wants.keys()) {
    const { soft } = namesOf(name);
    if (soft in item && numberIn(item, soft) <= nowMs) return "boundary";
  }
  // Where nothing goes by the calendar, 0 means only that something stands above its capacity.
  const isPassed = VU in item && numberIn(item, VU) <= nowMs;
  if (isPassed && (item[VU] !== 0 || SCHED in item || RSCHED in item)) return "boundary";
  const { tk } = namesOf(WCU);
  return tk in item && numberIn(item, tk) < 1000 ? "writes" : "tokens";
}

/** Doubles the shards, on shard 0, unless that was done meanwhile. */
export function bumpWrite(key: ItemKey, from: number, to: number): ItemWrite {
  const when: Clause[] = [[{ name: SHARD_COUNT, is: "=", value: from }]];
  return change({ bucket: key.bucket, shard: 0 }, { when, set: { [SHARD_COUNT]: to } });
}

/** Writes the new count to another shard. `frozen`: quotas on it, and at which count they were granted. */
export function raiseWrite(key: ItemKey, to: number, frozen: Item): ItemWrite {
  const when: Clause[] = [[{ name: SHARD_COUNT, is: "<", value: to }]];
  return change(key, { when, set: { [SHARD_COUNT]: to, ...frozen } });
}

/** Takes more, whatever is there. */
export function debitWrite(key: ItemKey, amounts: Wants): ItemWrite {
  return change(key, { add: movedBy(amounts, -1) });
}

/** What a refund goes by: the item as the lease last saw it. */
export interface Refund {
  readonly seen: Item;
  readonly amounts: Wants;
  readonly limits: readonly Limit[];
  readonly nowMs: number;
  readonly calendar: Calendar;
}

/** Gives back where it fits under the ceiling, and nothing the ceiling follows from has changed. */
export function creditWrite(key: ItemKey, refund: Refund): ItemWrite {
  const { seen, amounts, limits, nowMs, calendar } = refund;
  const when: Clause[] = [SHARD_COUNT, VU, SCHED, RSCHED, SCHED_TZ].map((name) => asSeen(seen, name));
  for (const [name, milli] of amounts) {
    const names = namesOf(name);
    const limit = limits.find((other) => other.name === name);
    const { ceilingMilli } = termsOn(seen, name, limit, nowMs, calendar);
    when.push([{ name: names.tk, is: "<=", value: ceilingMilli - milli }]);
    when.push(asSeen(seen, names.cp), asSeen(seen, names.gc), asSeen(seen, names.sched), asSeen(seen, names.rsched));
    if (limit?.reset !== undefined) when.push(asSeen(seen, names.tu));
  }
  return change(key, { when: [...when, ...periodGuards(refund)], add: movedBy(amounts, 1) });
}

/** Gives back over the ceiling too, and makes the next pass cut it off. */
export function trimWrite(key: ItemKey, refund: Refund): ItemWrite {
  return change(key, { when: periodGuards(refund), set: { [VU]: 0 }, add: movedBy(refund.amounts, 1) });
}

/** Writes the numbers of limits into an item in place; the time since `rf` then counts by the new ones. */
export function syncWrite(
  key: ItemKey,
  item: Item,
  limits: readonly Limit[],
  given: {
    readonly nowMs: number;
    readonly random: () => number;
    /** In seconds; undefined: it does not expire any more. */
    readonly ttlS: number | undefined;
    readonly removesStale: boolean;
  },
): ItemWrite {
  const common = commonWords(limits);
  const set: Record<string, ItemValue> = { ...common, [VU]: 0 };
  const remove = [SCHED, RSCHED, SCHED_TZ].filter((name) => !(name in common));
  if (given.ttlS === undefined) remove.push(TTL);
  else set[TTL] = given.ttlS;
  for (const limit of limits) {
    const names = namesOf(limit.name);
    Object.assign(set, parameterWords(limit), ownWords(limit, common));
    if (limit.soft === true) set[names.soft] = softUntilMs(given.nowMs, given.random);
    remove.push(...[names.sched, names.rsched, names.soft].filter((name) => !(name in set)));
  }
  if (given.removesStale) {
    for (const name of limitNamesIn(item)) {
      if (limits.some((limit) => limit.name === name)) continue;
      // Windows, purchases and counters of resets stay behind.
      const { tk, cp, ra, rp, tc, sched, rsched, soft } = namesOf(name);
      remove.push(tk, cp, ra, rp, tc, sched, rsched, soft);
    }
  }
  return change(key, { set, remove });
}

function periodGuards({ seen, amounts, limits, calendar }: Refund): Clause[] {
  const when: Clause[] = [];
  for (const name of amounts.keys()) {
    const limit = limits.find((other) => other.name === name);
    if (limit?.reset === undefined) continue;
    const names = namesOf(name);
    const edgeMs = nextEdgeMs(limit, numberIn(seen, RF), calendar);
    if (Number.isFinite(edgeMs)) when.push([{ name: RF, is: "<", value: edgeMs }]);
    when.push(asSeen(seen, names.rsched), asSeen(seen, RSCHED), asSeen(seen, names.rn));
  }
  return when;
}

/** Tokens one way, the counter of what was consumed the other. */
function movedBy(amounts: Wants, sign: 1 | -1): Record<string, number> {
  const add: Record<string, number> = {};
  for (const [name, milli] of amounts) {
    const names = namesOf(name);
    add[names.tk] = sign * milli;
    add[names.tc] = -sign * milli;
  }
  return add;
}
