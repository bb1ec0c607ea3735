import { type Count, plus } from "../../bucket/integers.ts";
import type { BucketState } from "../../domain/bucket/bucket-state.ts";
import { countName, HOUR_MS, type UsageCounter } from "../../domain/charge/usage.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";
import type { Item, ItemValue } from "../../ports/item-store.ts";
import { COUNTERS, namesOf, RQ, RQP, UH, UP, WCU } from "../item/attributes.ts";
import { type Image, numberOf } from "../item/codec.ts";
import type { Dialect } from "../item/dialect.ts";
import type { WriteBuilder } from "../item/write-builder.ts";
import type { Env, Intent, UsageDelta } from "../take/intent.ts";

/** The counts of one shard in one hour: millitokens by name, except 0. Overdrafts count 1000 each. */
export interface HourCounts {
  /** In hours since 1970. */
  readonly hour: number;
  readonly requests: number;
  /** By the name in usage: a limit, or the bypassed or overdrawn part of it. */
  readonly counts: ReadonlyMap<string, Count>;
}

export function hourNumber(atMs: number): number {
  return Math.floor(atMs / HOUR_MS);
}

/** The end of the hour of an item that is created with this reading. */
export function hourEndFor(readingMs: number, { countsByHour }: Pick<Dialect, "countsByHour">): number {
  return countsByHour ? (hourNumber(readingMs) + 1) * HOUR_MS : Number.POSITIVE_INFINITY;
}

/** The second before which an item with this open hour must not expire, nor a sheet of the hour. */
export function usageUntilS(hourEndMs: number, { usageKeptS }: Pick<Env, "usageKeptS">): number {
  return hourEndMs / 1000 + usageKeptS();
}

/**
 * The hour for which a write closes the open one; undefined if it counts in the open hour. A roll overwrites the hour before, so
 * that must be on its sheet; until then the old hour goes on.
 */
export function rollTo(image: Image, { readingMs, usage }: Pick<Intent, "readingMs" | "usage">): number | undefined {
  const { rollsTo, counters, requests, renews, heldMs, sheeted } = usage;
  if (rollsTo === undefined && readingMs < image.hourEndMs) return undefined;
  const isCounting = requests !== 0 || counters.length > 0 || renews === true || heldMs.length > 0;
  const hour = rollsTo ?? (isCounting ? hourNumber(readingMs) : undefined);
  if (hour === undefined || hour * HOUR_MS < image.hourEndMs) return undefined;
  return isOnSheet(image.item, sheeted) ? hour : undefined;
}

/** The closed hour that must be on its sheet before a write with this reading can roll. */
export function sheetFirst(image: Image, readingMs: number, sheeted: number | undefined): HourCounts | undefined {
  if (readingMs < image.hourEndMs || isOnSheet(image.item, sheeted)) return undefined;
  return closedHourIn(image.item);
}

/** True if nothing of the closed hour would be lost; `sheeted`: the hour that is known to be on its sheet. */
export function isOnSheet(item: Item, sheeted: number | undefined): boolean {
  const closed = item[UP];
  return closed === undefined || closed === sheeted || isNothing(closedHourIn(item));
}

export function isNothing(counts: HourCounts | undefined): boolean {
  return counts === undefined || (counts.requests === 0 && counts.counts.size === 0);
}

export function openHourIn(item: Item): HourCounts | undefined {
  return countsIn(item, { hour: UH, requests: RQ, names: OPEN });
}

export function closedHourIn(item: Item): HourCounts | undefined {
  return countsIn(item, { hour: UP, requests: RQP, names: CLOSED });
}

/** Limits with a counter in the open hour, whether or not the item still has the limit. */
function countedLimits(item: Item): string[] {
  const found = new Set<string>();
  for (const name in item) {
    const [, limit, what] = COUNTER.exec(name) ?? [];
    if (limit !== undefined && limit !== WCU && what !== undefined && Object.hasOwn(OPEN, what)) found.add(limit);
  }
  return [...found];
}

/** Counters of the open hour that an item has, or may have gained unseen: bypassed takes move no tokens. */
export function counterNames(item: Item, { limits }: Pick<BucketState, "limits">): string[] {
  const names = new Set([...limits.map(({ name }) => name), ...countedLimits(item)]);
  return [...names].flatMap((name) =>
    COUNTERS.filter(({ counter, open }) => namesOf(name)[open] in item || mayCount(counter, name, limits)).map(
      ({ open }) => namesOf(name)[open],
    ),
  );
}

/**
 * True if a limit on the item may have this counter, seen or not: only limits with slots count held time, and only shadows count
 * refusals. A limit becomes one of them with a new epoch.
 */
function mayCount(counter: UsageCounter, limit: string, limits: BucketState["limits"]): boolean {
  if (counter === "wouldRefuse") return limits.some((held) => held.name === limit && held.limit.shadow === true);
  if (counter !== "heldMs") return true;
  return limits.some((held) => held.name === limit && (held.slices.length > 0 || rulesOf(held.limit).holdsSlots));
}

export function closedNames(item: Item): string[] {
  return Object.keys(item).filter((name) => {
    const what = COUNTER.exec(name)?.[2];
    return name === UP || name === RQP || (what !== undefined && Object.hasOwn(CLOSED, what));
  });
}

const COUNTER = /^b_(.+)_([a-z]{2})$/;

type Naming = (limit: string) => string;
const OPEN = namings("open");
const CLOSED = namings("closed");

function namings(hour: "open" | "closed"): Readonly<Record<string, Naming>> {
  return Object.fromEntries(
    COUNTERS.map((row) => [row[hour], (limit: string) => countName(row.counter, limit)] as const),
  );
}

interface Kinds {
  readonly hour: string;
  readonly requests: string;
  readonly names: Readonly<Record<string, Naming>>;
}

function countsIn(item: Item, { hour, requests, names }: Kinds): HourCounts | undefined {
  const at = item[hour];
  if (typeof at !== "number") return undefined;
  const counts = new Map<string, Count>();
  for (const name of Object.keys(item).sort()) {
    const [, limit, what] = COUNTER.exec(name) ?? [];
    if (limit === undefined || limit === WCU || what === undefined) continue;
    const value: ItemValue = item[name] ?? 0;
    const naming = Object.hasOwn(names, what) ? names[what] : undefined;
    const isCount = typeof value === "number" || typeof value === "bigint";
    if (naming !== undefined && isCount && value !== 0) counts.set(naming(limit), value);
  }
  return { hour: at, requests: Number(item[requests] ?? 0), counts };
}

type Named = readonly { readonly name: string }[];

interface Counting {
  readonly usage: UsageDelta;
  readonly limits: Named;
  /** The hour that a write with a new epoch begins; undefined: it counts in the open one. */
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

/** Lists the counted amounts by attribute. */
export function eachCounter(
  usage: UsageDelta,
  limits: Named,
  { countsByHour }: Pick<Dialect, "countsByHour">,
  add: (name: string, sum: Count) => void,
): void {
  for (const { limit, milli } of usage.counters) {
    // A limit that is gone was used all the same; its counter stays until the hour is closed.
    if (countsByHour || limits.some(({ name }) => name === limit)) add(namesOf(limit).tc, milli);
  }
  add(RQ, usage.requests);
  if (!countsByHour) return;
  for (const { counter, open } of BESIDE_TOKENS) {
    for (const { limit, milli } of usage[counter]) add(namesOf(limit)[open], milli);
  }
}

const BESIDE_TOKENS = COUNTERS.filter(({ counter }) => counter !== "counters");

/** Counts the write itself, and leaves the nonce by which its writer recognizes it. */
export function signWrite(builder: WriteBuilder, nonce: Intent["nonce"]): void {
  builder.add(namesOf(WCU).tc, 1000);
  if (nonce !== undefined) builder.whereUnless(nonce.name, "<>", nonce.value).set(nonce.name, nonce.value);
}

/**
 * Counters are copied as they stand when the write is applied, so that they need not be pinned. A counter that the item may have
 * gained unseen, and that would not be copied, must still be absent: that happens at most once an hour.
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
      const first = own.get(from);
      if (first !== undefined) builder.set(from, first);
      else if (from in item) builder.remove(from);
    }
    const isKept = limits.some(({ name }) => name === limit);
    const first = own.get(names.tc) ?? (isKept ? 0 : undefined);
    if (first !== undefined) builder.set(names.tc, first);
    // Others may have counted for the first time since it was seen: that was copied, and belongs to the hour that ends.
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
