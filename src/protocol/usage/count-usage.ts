import { type Count, plus } from "../../bucket/count.ts";
import type { Item } from "../../ports/item-store.ts";
import { COUNTERS, namesOf, RQ, RQP, UH, UP, WCU } from "../item/attributes.ts";
import { type Image, numberOf } from "../item/codec.ts";
import type { Dialect } from "../item/dialect.ts";
import type { WriteBuilder } from "../item/write-builder.ts";
import type { Env, Intent, UsageDelta } from "../take/intent.ts";
import { closedNames, countedLimits, mayCount } from "./hours.ts";

type Named = readonly { readonly name: string }[];

/** What a write counts. */
interface Counting {
  readonly usage: UsageDelta;
  /** The limits that the item has after the write. */
  readonly limits: Named;
  /** The hour that it begins, of a write that moves the epoch; undefined: it counts in the open one. */
  readonly hour: number | undefined;
}

/** Counts usage in the open hour, or closes that and counts in a new one. */
export function count(builder: WriteBuilder, image: Image, { usage, limits, hour }: Counting, { dialect }: Env): void {
  if (hour !== undefined) {
    roll(builder, image, { usage, limits, hour }, dialect);
    return;
  }
  const { item } = image;
  eachCounter(usage, limits, dialect, (name, sum) => builder.add(name, sum));
  const isOver = dialect.countsByHour && usage.sheeted !== undefined && item[UP] === usage.sheeted;
  if (isOver) for (const name of closedNames(item)) builder.remove(name);
}

/** What is counted, by attribute. */
export function eachCounter(
  usage: UsageDelta,
  limits: Named,
  { countsByHour }: Pick<Dialect, "countsByHour">,
  add: (name: string, sum: Count) => void,
): void {
  for (const { limit, milli } of usage.counters) {
    // A limit that is no longer there was used all the same; its counter stays until the hour is closed.
    if (countsByHour || limits.some(({ name }) => name === limit)) add(namesOf(limit).tc, milli);
  }
  add(RQ, usage.requests);
  if (!countsByHour) return;
  for (const { counter, open } of BESIDE_TOKENS) {
    for (const { limit, milli } of usage[counter]) add(namesOf(limit)[open], milli);
  }
}

const BESIDE_TOKENS = COUNTERS.filter(({ counter }) => counter !== "counters");

/** Counts the write itself; leaves the nonce by which the writer recognizes it. */
export function signWrite(builder: WriteBuilder, nonce: Intent["nonce"]): void {
  builder.add(namesOf(WCU).tc, 1000);
  if (nonce !== undefined) builder.whereUnless(nonce.name, "<>", nonce.value).set(nonce.name, nonce.value);
}

/**
 * The counters are copied as they stand when the write is applied, so that they need not be pinned. What the item may have gained
 * unseen, and would not be copied, must still be absent: that is gained at most once an hour.
 */
function roll(
  builder: WriteBuilder,
  { item, state }: Image,
  { usage, limits, hour }: Counting & { readonly hour: number },
  dialect: Dialect,
): void {
  const before = numberOf(item, UH);
  const own = new Map<string, Count>();
  eachCounter(usage, limits, dialect, (name, sum) => own.set(name, plus(own.get(name) ?? 0, sum)));
  const copied = new Set<string>();
  const copy = (to: string, from: string) => {
    builder.copy(to, from);
    copied.add(to);
  };
  const held = state.limits.map(({ name }) => name);
  for (const limit of new Set([...held, ...countedLimits(item), ...limits.map(({ name }) => name)])) {
    const names = namesOf(limit);
    const isHeld = held.includes(limit);
    if (before !== undefined && (isHeld || names.tc in item)) copy(names.tp, names.tc);
    for (const { counter, open, closed } of BESIDE_TOKENS) {
      const from = names[open];
      if (from in item && before !== undefined) copy(names[closed], from);
      else if (isHeld && mayCount(counter, limit, state.limits)) builder.absent(from);
      start(builder, item, from, own.get(from));
    }
    const isKept = limits.some(({ name }) => name === limit);
    const first = own.get(names.tc) ?? (isKept ? 0 : undefined);
    if (first !== undefined) builder.set(names.tc, first);
    // Others may have counted for the first time since it was seen: that was copied, and is of the hour that ends.
    else if (isHeld || names.tc in item) builder.remove(names.tc);
  }
  for (const [name, milli] of own) if (!(name in item)) builder.set(name, milli);
  if (before !== undefined) {
    copy(RQP, RQ);
    builder.set(UP, before);
    copied.add(UP);
  }
  for (const name of closedNames(item)) if (!copied.has(name)) builder.remove(name);
  builder.set(UH, hour).set(RQ, usage.requests);
}

function start(builder: WriteBuilder, item: Item, name: string, milli: Count | undefined): void {
  if (milli !== undefined) builder.set(name, milli);
  else if (name in item) builder.remove(name);
}
