import type { Amount } from "../../src/domain/charge/amounts.ts";
import type { Claim, Held } from "../../src/ports/bucket-store.ts";
import type { Item, ItemKey, WriteTrace } from "../../src/ports/item-store.ts";
import { BN, BYPASS, DISABLED, LW, namesOf, RF, VU } from "../../src/protocol/item/attributes.ts";
import type { ModelBucket } from "../kit/model-bucket.ts";
import { numbersUpTo } from "../kit/model-origin.ts";
import type { Asked } from "./conditional-calls.ts";
import { isOfSlots } from "./conditional-slots.ts";
import { shownKey } from "./operation.ts";

/** One of the parts of a write, and who asked for it. */
export interface Part {
  readonly of: Claim | Held;
  readonly kind: "take" | "debit" | "credit" | "renew";
  readonly amounts: WriteTrace["parts"][number]["amounts"];
  readonly asked: Asked | undefined;
  /** Of a give-back that takes the request back, too. */
  readonly undoes?: readonly string[];
  /** What passed by shadows, of a take: nothing of it was taken. */
  readonly passed?: readonly Amount[];
}

/** An epoch that is further ahead of the store's time is damage. */
const REPAIRED_MS = 5_000;

const COUNTER_MAX = 2 ** 52;

const NONCE = /^n[0-9a-f]$/;
const STAMPS: readonly string[] = [VU, BN, DISABLED, BYPASS];

/** Attributes that may change while the epoch stays. */
const COUNTED = /^(b_.*_(tk|tc|by|od|wr|hu|h[0-7])|b_rq|ttl|lw|n[0-9a-f])$/;

/** Attributes of the hour beside the open one: they may be removed. */
const BESIDE = /^(up|b_rqp|b_.*_(tp|bp|op|wv|hv))$/;

/** The epoch never goes back, and moves on whenever anything changes that is relative to it. */
export function epochProblems(before: Item | undefined, after: Item, trace: WriteTrace | undefined): string[] {
  if (before === undefined) return [];
  const [was, is] = [Number(before[RF]), Number(after[RF])];
  if (is < was) return [`the epoch went back from ${was} to ${is}`];
  if (is > was) {
    const isOwn = trace === undefined || is === trace.readingMs;
    return isOwn ? [] : [`the epoch went to ${is} with the reading ${trace?.readingMs}`];
  }
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((name) =>
    before[name] === after[name] || COUNTED.test(name) || (BESIDE.test(name) && !(name in after))
      ? []
      : [`${name} went from ${before[name]} to ${after[name]}, and the epoch stayed`],
  );
}

/** A mark of changed configuration, or a stamp of access: nothing else is changed with it, and the epoch stays. */
export function stampProblems(before: Item, after: Item): string[] {
  const isMarked = after[VU] === 0 || after[VU] === before[VU];
  const told = isMarked ? [] : [`a stamp put vu from ${before[VU]} to ${after[VU]}`];
  const kept = (item: Item) => Object.fromEntries(Object.entries(item).filter(([name]) => !STAMPS.includes(name)));
  return [...told, ...epochProblems(kept(before), kept(after), undefined)];
}

/** The slot of the nonce by which the writer knows the write again. */
export function slotWritten(before: Item | undefined, after: Item): string | undefined {
  return Object.keys(after).find((name) => NONCE.test(name) && after[name] !== before?.[name]);
}

/** The reading of a write: of a rebase the new epoch, which is later where the clock is behind it. */
export function readingOf(parts: readonly Part[], trace: WriteTrace, before: Item | undefined): number {
  if (trace.form !== "rebase" || before === undefined || trace.readingMs > Number(before[RF]) + 1)
    return trace.readingMs;
  return trace.changedMs ?? Math.min(trace.readingMs, ...parts.map(({ asked }) => asked?.readingMs ?? trace.readingMs));
}

/** Readings are as right as the clock they were made with. */
export function readingProblems(asked: Asked | undefined, { readingMs, form }: WriteTrace): string[] {
  if (asked === undefined || form === "rebase" || asked.readingMs !== readingMs) return [];
  const { process } = asked;
  const offMs = Math.abs(process.clock.trueMs(readingMs) - readingMs);
  if (offMs <= process.errorMaxMs()) return [];
  return [`the reading ${readingMs} of ${process.id} is off by ${offMs} ms of ${process.errorMaxMs()}`];
}

export function isRepair(before: Item | undefined, after: Item, { form }: WriteTrace): boolean {
  return form === "rebase" && before !== undefined && Number(after[RF]) < Number(before[RF]) - REPAIRED_MS;
}

/**
 * An epoch is set back because it was too far ahead of the store's time when that was decided; the write may have been long under
 * way. The reading of that is a millisecond after the new epoch, and later by as much as the new row of epochs says.
 */
export function repairProblems(before: Item | undefined, after: Item, atMs: number): string[] {
  const row = after[BN] === before?.[BN] ? 0 : Number(after[BN]);
  const decidedMs = Number(after[RF]) + 1 + (row % 1_000);
  const aheadMs = Number(before?.[RF]) - Math.min(atMs, decidedMs);
  return aheadMs > REPAIRED_MS ? [] : [`an epoch that was ${aheadMs} ms ahead was set back`];
}

/** Whose limits are installed: of the jobs of one write, those that were read last. */
export function newestOf(parts: readonly Part[]): Claim | Held | undefined {
  let newest: Claim | Held | undefined;
  for (const { of, kind } of parts) {
    if (kind === "credit") continue;
    const known = newest?.origin.changeNumber;
    const [own, isLater] = [of.origin.changeNumber ?? 0, of.origin.asOfMs > (newest?.origin.asOfMs ?? 0)];
    if (newest === undefined || (isLater ? own >= (known ?? 0) : own > (known ?? numbersUpTo(newest.origin.asOfMs))))
      newest = of;
  }
  return newest;
}

/** A take or debit by the limits on the item says when it was: limits that were changed before it must not count from before. */
export function writtenProblems(
  before: Item | undefined,
  after: Item,
  { form, readingMs }: WriteTrace,
  parts: readonly Part[],
  /** The latest that the item ever said. */
  mostMs: number,
): string[] {
  const [was, is] = [Number(before?.[LW] ?? 0), Number(after[LW] ?? 0)];
  const epochMs = Number(before?.[RF] ?? 0);
  const spends = (kind: Part["kind"]) => kind === "take" || kind === "debit";
  // What passed by a shadow was decided by its limits, too.
  const takes = parts.some(
    ({ of, kind, amounts, passed = [] }) => spends(kind) && !of.bypass && [...amounts, ...passed].some(isSome),
  );
  if (form !== "take" || !takes) return was === is ? [] : [`lw went from ${was} to ${is} with nothing taken`];
  // A write that did not know of a later one may put it back: readings are in no order. One behind the epoch counts as the epoch.
  return is >= readingMs && (is === readingMs || is <= Math.max(mostMs, epochMs))
    ? []
    : [`lw is ${is} after a take at ${readingMs}`];
}

function isSome({ milli }: Part["amounts"][number]): boolean {
  return milli > 0;
}

/** `vu` says when time does something else than drip, unless it was set to 0 because configuration changed. */
export function vuProblems(
  model: ModelBucket,
  parts: readonly Part[],
  before: Item | undefined,
  after: Item,
): string[] {
  const vu = after[VU] ?? Number.POSITIVE_INFINITY;
  // What a debit makes was not made by configuration that was read for it.
  const isUnread = before === undefined ? parts.every(({ kind }) => kind === "debit") : before[VU] === 0;
  if (vu === model.nextBoundaryMs || (vu === 0 && isUnread)) return [];
  return [`vu is ${vu}, not ${model.nextBoundaryMs}`];
}

/** What a part counts: nothing where it renews, and slots stay counted that were used. */
export function countedIn({ kind, of, amounts, asked }: Part): Part["amounts"] {
  if (kind === "renew") return [];
  const keeps = kind === "credit" && asked?.slotsUsed === true && !of.bypass;
  return keeps ? amounts.filter((amount) => amount.milli === 0 || !isOfSlots(of, amount)) : amounts;
}

/** Counters tell what was used, net. */
export function counterProblems(
  model: ModelBucket,
  parts: readonly Part[],
  before: Item | undefined,
  after: Item,
): string[] {
  return model.names.flatMap((name) => {
    const { tc, tp } = namesOf(name);
    const isRolled = before !== undefined && before.uh !== after.uh;
    if (isRolled && before.uh !== undefined && Number(after[tp] ?? 0) !== Number(before[tc] ?? 0)) {
      return [`the counter of ${name} was ${before[tc]}, and ${after[tp]} is beside the new one`];
    }
    const is = Number(after[tc] ?? 0) - (isRolled ? 0 : Number(before?.[tc] ?? 0));
    let due = 0;
    for (const part of parts) {
      for (const { limit, milli } of countedIn(part))
        if (limit === name) due += part.kind === "credit" ? -milli : milli;
    }
    // Beyond, the numbers of this table are not exact.
    const most = Math.max(...[before?.[tc], after[tc], due].map((count) => Math.abs(Number(count ?? 0))));
    return is === due || most > COUNTER_MAX ? [] : [`the counter of ${name} went up by ${is}, not by ${due}`];
  });
}

/** A little more may be cut off than needed: at most a second's refill, and a sixteenth of what there is. */
export function cutProblems(
  model: ModelBucket,
  { spare, readingMs }: WriteTrace,
  parts: readonly Part[],
  onCut: () => void,
): string[] {
  return spare.flatMap(({ limit: name, milli }) => {
    const limit = model.limit(name);
    if (limit === undefined || milli === 0) return [];
    onCut();
    const toMilli = limit.brimMilli - BigInt(milli);
    const level = limit.levelMilli(readingMs);
    const { refill, periodMs } = limit.terms;
    const isSmall = BigInt(milli) * 16n <= limit.brimMilli && BigInt(milli) * BigInt(periodMs) <= refill * 1000n;
    const isExact = parts.some(({ asked }) => asked?.process.exact);
    limit.cut(toMilli, readingMs);
    return [
      ...(level < toMilli - 1n ? [`${name} was cut to ${toMilli}, and held only ${level}`] : []),
      ...(isSmall ? [] : [`${milli} of ${name} were cut off for tolerance, which is too much`]),
      ...(isExact ? [`${name} was cut by a process that is exact`] : []),
    ];
  });
}

export function shownItem({ bucket, shard }: ItemKey): string {
  return `${shownKey(bucket.id)}#${shard}`;
}
