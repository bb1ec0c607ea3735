import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import type { AuditEvent } from "../../domain/config/audit.ts";
import type { Item, ItemKey, ItemWrite } from "../../ports/item-store.ts";
import type { Image } from "../item/codec.ts";
import type { BucketCache, Seen } from "../process/bucket-cache.ts";
import type { Ended, Event, ReadAction, SheetAction, TransactAction, Turn, WriteAction } from "../process/machine.ts";
import { LOOKS_MAX, type RetryPolicy } from "../process/retry-policy.ts";

/*
 * The work on all shards of some buckets at once, as a machine without I/O: claims that are taken together, purchases
 * and resets, more shards or fewer. Read all shards, draw the writes from what they hold, send them in one transaction; when
 * others were faster, read again.
 *
 *   ┌────────┐ no such record  ┌─────────┐ shards agree on    ┌──────────┐ draw: a result
 *   │ record │ ──────────────▶ │ reading │ ─ their number ──▶ │ verified │ ───────────────▶ settled
 *   └────────┘                 └─────────┘ ◀─┐                └──────────┘
 *     │ found: settled           ▲   │ looks │                  │  │ draw: install limits first
 *                                │   └───────┘                  │  └──▶ installing ──▶ reading, or settled
 *   ┌───────┐ draw: no writes    │                              │ draw: a transaction
 *   │ guess │ ───────────────────┤                              ▼
 *   └───────┘ draw: a transaction│ outrun                    (answer) ── committed ──▶ settled
 *       └────────────────────────┼──────────────────────────────▲  │
 *                                │ refused, after a pause       │  │ unknown
 *                                └──────────────────────────────┤  ▼
 *                                                               │ ┌───────────┐ committed ──▶ settled
 *                                      by the same token, once  └─│ ambiguous │
 *                                                                 └───────────┘ anything else ──▶ settled as unknown
 *
 * After a lost answer a transaction is sent once more by the same token, by which the store knows it again. Whatever it says
 * then but "committed" leaves it unknown. Work that leaves a record (purchases, resets) reads the record instead.
 */
export type TransactPhase<Result> =
  /** Go by the cache; only a transaction may come of it. */
  | { readonly at: "guess" }
  /** Read the record that tells whether it was done before. */
  | { readonly at: "record" }
  | { readonly at: "reading"; readonly looks: number; readonly buckets: readonly BucketKey[] }
  /** The store was busy, or the shards are just being split: wait, then read. */
  | { readonly at: "pausing" }
  | { readonly at: "verified" }
  | { readonly at: "installing"; readonly writes: readonly ItemWrite[]; readonly next: TransactPhase<Result> }
  | { readonly at: "ambiguous"; readonly sent: DrawnTransaction<Result>; readonly cause: unknown }
  | { readonly at: "settled"; readonly result: Result };

export interface TransactProgress<Result> {
  readonly phase: TransactPhase<Result>;
  /** The number of refusals, conflicts aside. */
  readonly refusals: number;
  /** Why the last attempt failed; undefined if others were only faster. */
  readonly cause: unknown;
  /** The shards that it was last drawn from. */
  readonly wholes: readonly Whole[];
  /** Each bucket as the last read of all its shards showed it, without what this process has seen of a shard since. */
  readonly shown: readonly Whole[];
  /** Why a transaction may have been committed, or may still be, although no record shows it; undefined if that is impossible. */
  readonly lost: unknown;
}

/** A bucket with all its shards; none if there is no such bucket. */
export interface Whole {
  readonly cache: BucketCache;
  readonly images: readonly Image[];
}

/** Work on some buckets. */
export interface Plan<Result> {
  readonly buckets: readonly BucketKey[];
  readonly readingMs: number;
  readonly untilMs: number;
  readonly policy: RetryPolicy;
  /** The record that proves it was done. */
  readonly record: { readonly key: ItemKey; done(item: Item | undefined): Result | undefined } | undefined;
  /**
   * Draws writes from the shards. Pure. `wholes` has the latest image of each shard: some may have been seen after the others
   * were read, so that they never stood like that at one moment. `shown` is what the reads showed.
   */
  draw(wholes: readonly Whole[], shown: readonly Whole[]): Drawn<Result>;
  /** Time or attempts are used up. `cause` is undefined if others were always faster. */
  gaveUp(wholes: readonly Whole[], cause: unknown): Result;
  unknown(cause: unknown): Result;
}

export type Drawn<Result> =
  | {
      readonly kind: "transact";
      readonly writes: readonly ItemWrite[];
      readonly event: AuditEvent | undefined;
      readonly result: Result;
    }
  /** There is no transaction; `installs` are single writes that come first. */
  | { readonly kind: "result"; readonly result: Result; readonly installs: readonly ItemWrite[] }
  /** These single writes come first, then the shards are read again. */
  | { readonly kind: "install"; readonly installs: readonly ItemWrite[] }
  /** The shards are just being split or joined. */
  | { readonly kind: "wait" };

export interface DrawnTransaction<Result> extends TransactAction {
  readonly result: Result;
  readonly wholes: readonly Whole[];
}

export type TransactDo<Result> =
  | ReadAction
  | WriteAction
  | SheetAction
  | DrawnTransaction<Result>
  | { readonly do: "pause" }
  | { readonly do: "settle"; readonly to: TransactPhase<Result>; readonly wholes: readonly Whole[] };

interface TransactFacts extends Turn {
  readonly wholes: readonly Whole[];
  /** A unique name for the transaction. */
  readonly token: string;
}

export function startTransact<Result>(plan: Plan<Result>, from: "guess" | "reading"): TransactProgress<Result> {
  const phase: TransactPhase<Result> = from === "guess" ? { at: "guess" } : again(plan);
  return { phase, refusals: 0, cause: undefined, wholes: [], shown: [], lost: undefined };
}

export function transactEnded<Result>({ phase }: TransactProgress<Result>): Ended<Result> | undefined {
  return phase.at === "settled" ? phase : undefined;
}

export function nextTransact<Result>(
  progress: TransactProgress<Result>,
  facts: TransactFacts,
  plan: Plan<Result>,
): TransactDo<Result> {
  const { phase } = progress;
  const { wholes, over } = facts;
  if (phase.at === "settled") return settle(phase, wholes);
  if (phase.at === "ambiguous") {
    return over === "time" ? settle({ at: "settled", result: plan.unknown(phase.cause) }, wholes) : phase.sent;
  }
  if (over === "time") return settle(gaveUpAs(plan, progress, progress.wholes), progress.wholes);
  switch (phase.at) {
    case "pausing":
      return { do: "pause" };
    case "record":
      return read(plan, [(plan.record as NonNullable<Plan<Result>["record"]>).key]);
    case "reading":
      return read(
        plan,
        phase.buckets.flatMap((bucket) => shardsOf(wholes, bucket)),
      );
    case "installing": {
      const [write] = phase.writes;
      if (write?.key.sheet !== undefined) return { do: "sheet", write };
      if (write !== undefined) return { do: "write", write, atMs: plan.readingMs, set: undefined, prepares: true };
      return settle(phase.next, wholes);
    }
    default:
      return over === undefined ? draw(progress, facts, plan) : settle(gaveUpAs(plan, progress, wholes), wholes);
  }
}

export function onTransact<Result>(
  progress: TransactProgress<Result>,
  action: TransactDo<Result>,
  event: Event,
  after: Pick<TransactFacts, "wholes">,
  plan: Plan<Result>,
): TransactProgress<Result> {
  const { phase } = progress;
  switch (action.do) {
    case "settle":
      return { ...progress, phase: action.to, wholes: action.wholes };
    case "pause":
      return { ...progress, phase: again(plan) };
    case "read":
      return onRead(progress, event, after, plan);
    case "write":
    case "sheet":
      // Applied or not, the shards are read again.
      if (phase.at !== "installing") return progress;
      return { ...progress, phase: { ...phase, writes: phase.writes.slice(1) }, cause: faultIn(event) };
    case "transact":
      return onTransaction({ ...progress, wholes: action.wholes }, action, event, plan);
    default:
      return progress;
  }
}

/** Why the store did not answer; undefined if it did, or if others were in the way. */
function faultIn(event: Event): unknown {
  if (event.kind === "refused" && event.why === "conflict") return undefined;
  return event.kind === "unknown" || event.kind === "refused" ? event.cause : undefined;
}

function onRead<Result>(
  progress: TransactProgress<Result>,
  event: Event,
  { wholes }: Pick<TransactFacts, "wholes">,
  plan: Plan<Result>,
): TransactProgress<Result> {
  const { phase } = progress;
  if (event.kind === "unread") {
    if (plan.policy.rereads) return { ...progress, phase: { at: "pausing" }, cause: event.cause };
    // Nothing was written.
    if (progress.lost === undefined) throw event.cause;
    return { ...progress, phase: { at: "settled", result: plan.unknown(progress.lost) } };
  }
  if (event.kind !== "read") return progress;
  if (phase.at === "record") {
    const result = plan.record?.done(event.items[0]);
    return { ...progress, phase: result === undefined ? reading(plan) : { at: "settled", result } };
  }
  const { looks, buckets: read } = phase.at === "reading" ? phase : { looks: LOOKS_MAX, buckets: [] };
  const shown = wholes.map(({ cache }, i): Whole => {
    const isRead = read.some(({ id }) => id === cache.key.id);
    return isRead ? { cache, images: imagesOf(cache.key, event.seen) } : (progress.shown[i] ?? { cache, images: [] });
  });
  const isDone = (i: number) => [wholes, shown].every((some) => isWhole(some[i] as Whole));
  const buckets = wholes.flatMap(({ cache }, i) => (isDone(i) ? [] : [cache.key]));
  if (buckets.length > 0 && looks + 1 < LOOKS_MAX) {
    return { ...progress, phase: { at: "reading", looks: looks + 1, buckets }, shown };
  }
  return { ...progress, phase: { at: "verified" }, wholes, shown };
}

function imagesOf({ id }: BucketKey, seen: readonly (Seen | undefined)[]): readonly Image[] {
  const images = seen.flatMap((one) => one?.image ?? []);
  return images.filter(({ key }) => key.bucket.id === id);
}

function onTransaction<Result>(
  progress: TransactProgress<Result>,
  sent: DrawnTransaction<Result>,
  event: Event,
  plan: Plan<Result>,
): TransactProgress<Result> {
  const { phase } = progress;
  if (event.kind === "committed") return { ...progress, phase: { at: "settled", result: sent.result } };
  // An unknown outcome stays unknown, unless the store has it on record.
  if (phase.at === "ambiguous") return { ...progress, phase: { at: "settled", result: plan.unknown(phase.cause) } };
  switch (event.kind) {
    case "outrun":
      return { ...progress, phase: plan.policy.waitsWhenOutrun ? { at: "pausing" } : again(plan), cause: undefined };
    case "refused": {
      // A conflict is an answer: others were faster. That may go on for longer than a store that may be down.
      if (event.why === "conflict") return { ...progress, phase: { at: "pausing" }, cause: undefined };
      const refusals = progress.refusals + 1;
      if (refusals > plan.policy.resends) {
        return { ...progress, phase: gaveUpAs(plan, { ...progress, cause: event.cause }, progress.wholes) };
      }
      return { ...progress, phase: { at: "pausing" }, refusals, cause: event.cause };
    }
    case "unknown":
      // If there is no record, the transaction may still be on its way.
      if (plan.record !== undefined) {
        return { ...progress, phase: { at: "pausing" }, cause: event.cause, lost: event.cause ?? "no answer" };
      }
      return { ...progress, phase: { at: "ambiguous", sent, cause: event.cause } };
    default:
      return progress;
  }
}

function draw<Result>(
  { phase, shown }: TransactProgress<Result>,
  { wholes, token }: TransactFacts,
  plan: Plan<Result>,
): TransactDo<Result> {
  const drawn = plan.draw(wholes, shown);
  if (drawn.kind === "transact") {
    const { writes, event, result } = drawn;
    return { do: "transact", writes, token, event, result, wholes };
  }
  // A guess refuses nothing and concludes nothing else.
  if (phase.at === "guess") return settle(again(plan), wholes);
  switch (drawn.kind) {
    case "wait":
      return settle({ at: "pausing" }, wholes);
    case "install":
      return settle({ at: "installing", writes: drawn.installs, next: again(plan) }, wholes);
    case "result": {
      const { installs: writes, result } = drawn;
      return settle({ at: "installing", writes, next: { at: "settled", result } }, wholes);
    }
  }
}

/** "Not done" is reported only where it is certain. */
function gaveUpAs<Result>(
  plan: Plan<Result>,
  { cause, lost }: TransactProgress<Result>,
  wholes: readonly Whole[],
): TransactPhase<Result> {
  return { at: "settled", result: lost === undefined ? plan.gaveUp(wholes, cause) : plan.unknown(lost) };
}

function settle<Result>(to: TransactPhase<Result>, wholes: readonly Whole[]): TransactDo<Result> {
  return { do: "settle", to, wholes };
}

function again<Result>(plan: Plan<Result>): TransactPhase<Result> {
  return plan.record === undefined ? reading(plan) : { at: "record" };
}

function reading<Result>({ buckets }: Plan<Result>): TransactPhase<Result> {
  return { at: "reading", looks: 0, buckets };
}

function read<Result>({ readingMs }: Plan<Result>, keys: readonly ItemKey[]): ReadAction {
  return { do: "read", keys, consistent: true, atMs: readingMs, sets: undefined };
}

function shardsOf(wholes: readonly Whole[], bucket: BucketKey): ItemKey[] {
  const count = wholes.find(({ cache }) => cache.key.id === bucket.id)?.cache.shardCount ?? 1;
  return Array.from({ length: count }, (_, shard) => ({ bucket, shard }));
}

/** True if all shards have been seen, and agree on their number. */
export function isWhole({ cache, images }: Whole): boolean {
  // A transaction of this process may have dropped the images meanwhile: the bucket may exist.
  if (images.length === 0) return cache.shardCount === 1 && !cache.isUnknown;
  return images.every(({ shardCount }) => shardCount === images.length);
}
