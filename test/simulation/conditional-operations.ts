import type { SetOrigin } from "../../src/domain/limits/limit-set.ts";
import type { Calendar } from "../../src/domain/limits/schedule.ts";
import type { Operation as StoreOperation } from "../../src/ports/bucket-store.ts";
import type { TracePart } from "../../src/ports/item-store.ts";
import { LW } from "../../src/protocol/item/attributes.ts";
import type { AppliedChange } from "../kit/conditional-table.ts";
import { itemId } from "../kit/conditional-write.ts";
import type { ModelLimit } from "../kit/model.ts";
import { ModelBucket } from "../kit/model-bucket.ts";
import { isNewer, sameLimits } from "../kit/model-origin.ts";
import { storedMilli } from "../kit/model-stored.ts";
import type { ConditionalCalls } from "./conditional-calls.ts";
import type { PromiseLedger } from "./conditional-promise.ts";
import type { Shard } from "./conditional-shares.ts";
import { type ReadItem, readItem } from "./item-reader.ts";
import type { Journal } from "./journal.ts";
import { shownKey } from "./operation.ts";

interface Context {
  readonly journal: Journal;
  readonly calendar: Calendar;
  readonly calls: ConditionalCalls;
  readonly promise: PromiseLedger;
}

/** A key is remembered for three days, by clocks that may be off by an hour and calls that take a while. */
const KEPT_MS = 3 * 24 * 3_600_000 - 2 * 3_600_000;

/** Of limits that replace none: those that are missing come beside the others. */
const OLDER: SetOrigin = { asOfMs: Number.NEGATIVE_INFINITY, generation: null };

/** One shard while an operation acts on it. */
interface Touched {
  readonly change: AppliedChange;
  readonly model: ModelBucket;
  readonly image: ReadItem;
}

/** What operators bought and reset: exactly that, over all shards together, and once for each key. */
export class Purchased {
  readonly #context: Context;
  readonly #keys = new Map<string, number>();

  constructor(context: Context) {
    this.#context = context;
  }

  applied(changes: readonly AppliedChange[], shards: Map<string, Shard>): void {
    const { calls, calendar, journal } = this.#context;
    const [part] = (changes[0]?.trace?.parts ?? []) as TracePart[];
    if (part === undefined) {
      journal.violation("an operation that nobody asked for");
      return;
    }
    const operation = part.of as StoreOperation;
    const asked = calls.of(operation);
    const { bucket, nowMs, set, origin } = operation;
    const name = shownKey(bucket.id);
    if (asked === undefined) {
      journal.violation(`${name}: an operation that nobody asked for`);
      return;
    }
    if (asked.applied) journal.violation(`${name}: an operation was applied twice`);
    asked.applied = true;
    this.#once(operation);
    const known = changes.flatMap(({ key }) => shards.get(itemId(key))?.model ?? []);
    const others = limitsOfAll(known, operation);
    const touched = changes.flatMap((change): Touched[] => {
      const { key, before, after, trace } = change;
      if (after === undefined || trace === undefined) return [];
      const image = readItem(key, after, calendar);
      const known = shards.get(itemId(key))?.model;
      if ((known === undefined) !== (before === undefined)) journal.violation(`${name}: it exists, and was never made`);
      const model = known ?? new ModelBucket(set, origin, nowMs, calendar);
      for (const by of others === undefined ? [operation] : [others, { set, origin: OLDER }]) {
        const since = journal.countMet(by.origin, model.metNumber);
        const isChanged = this.#context.promise.brought(bucket.id, model, () =>
          model.bring(by.set, by.origin, Math.max(nowMs, model.epochMs), Number(before?.[LW] ?? 0)),
        );
        // What was promised by the limits in between is not that of any one set.
        if (isChanged && since > 0) for (const limit of model.limits) this.#context.promise.lost(bucket.id, limit);
      }
      model.advance(trace.readingMs);
      return [{ change, model, image }];
    });
    const count = touched[0]?.image.shardCount ?? 0;
    if (touched.length !== count) journal.violation(`${name}: an operation on ${touched.length} of ${count} shards`);
    if (part.kind === "reset") this.#reset(bucket.id, touched, asked.limits);
    else for (const { limit, milli } of part.amounts) this.#bought(bucket.id, touched, limit, BigInt(milli));
    for (const { change, model, image } of touched) {
      const { key, trace } = change;
      for (const problem of model.problems(image.state, trace?.readingMs ?? 0)) {
        journal.violation(`${name}#${key.shard}, ${part.kind}: ${problem}`);
      }
      shards.set(itemId(key), { key, model, count, calendar });
      for (const { limit, period } of model.limits) this.#context.promise.goesBy(bucket.id, limit, period);
    }
  }

  forget(bucketId: string): void {
    for (const id of this.#keys.keys()) if (id.startsWith(`${bucketId}\n`)) this.#keys.delete(id);
  }

  #once({ bucket, idempotencyKey, nowMs }: StoreOperation): void {
    const id = `${bucket.id}\n${idempotencyKey}`;
    const before = this.#keys.get(id);
    this.#keys.set(id, nowMs);
    if (before === undefined || nowMs >= before + KEPT_MS) return;
    this.#context.journal.violation(`${shownKey(bucket.id)}: the key ${idempotencyKey} was good for a second time`);
  }

  #reset(bucketId: string, touched: readonly Touched[], limits: readonly string[] | undefined): void {
    for (const { model, change } of touched) {
      model.resetByHand(limits, change.trace?.readingMs ?? 0);
      for (const name of limits ?? model.names) this.#context.promise.forget(bucketId, name);
    }
  }

  #bought(bucketId: string, touched: readonly Touched[], name: string, milli: bigint): void {
    const { journal, promise } = this.#context;
    // Of slots there is no balance to fill.
    const isSlots = touched.some(({ model }) => model.limit(name)?.limit.holdMs !== undefined);
    let [gained, room] = [0n, 0n];
    for (const { model, image, change } of touched) {
      const state = image.state.limits.find((one) => one.name === name);
      const atMs = change.trace?.readingMs ?? 0;
      const limit = state && wayOf(model, name, storedMilli(state, image.state.epochMs, atMs), atMs);
      if (limit === undefined || state === undefined) continue;
      room += limit.brimMilli - limit.levelMilli(atMs);
      const isQuota = limit.period !== undefined;
      const own = isQuota
        ? BigInt(state.quota?.topUpMilli ?? 0) - limit.toppedUpMilli
        : storedMilli(state, image.state.epochMs, atMs) - limit.levelMilli(atMs);
      gained += own;
      if (own > 0n) model.topUp([{ limit: name, milli: Number(own) }], atMs);
      promise.gained(bucketId, limit.limit, own > 0n ? own : 0n, limit.period);
    }
    // Of a limit that was left out shards may go by different rules: a quota among them gets what others have no room for.
    const isQuota = touched.some(({ model }) => model.limit(name)?.period !== undefined);
    const due = isSlots ? 0n : isQuota || milli < room ? milli : room;
    const rounding = isQuota ? 0n : BigInt(touched.length);
    if (gained >= due - rounding && gained <= due + rounding) return;
    journal.violation(`${shownKey(bucketId)}: ${milli} of ${name} were bought, and ${gained} gained`);
  }
}

/**
 * The limits that all shards went by before, as they were read last, where the operation goes by those and its own, which differ,
 * replace none: some shards would take its own, others know theirs from a later reading or have gone through a later change.
 */
function limitsOfAll(
  shards: readonly ModelBucket[],
  { set, origin }: StoreOperation,
): Pick<StoreOperation, "set" | "origin"> | undefined {
  const [first] = shards;
  const taking = shards.filter((shard) => isReplaced(shard, origin));
  if (first === undefined || taking.length === 0 || taking.length === shards.length) return undefined;
  if (sameLimits(set, first.set) || !shards.every((shard) => sameLimits(shard.set, first.set))) return undefined;
  const newest = shards.reduce((a, b) => (b.origin.asOfMs > a.origin.asOfMs ? b : a));
  return { set: first.set, origin: newest.origin };
}

/** Whether limits of an origin replace those of a shard: of a change that it has not gone through, or read as late as its own. */
function isReplaced(shard: ModelBucket, origin: SetOrigin): boolean {
  const { changeNumber } = origin;
  return (changeNumber !== undefined && changeNumber > shard.metNumber) || isNewer(origin, shard.origin);
}

/** How a limit stood before something was bought: where that is not known, the way of which what is stored is nearest. */
function wayOf(model: ModelBucket, name: string, storedMilli: bigint, atMs: number): ModelLimit | undefined {
  const gains = (way: ModelLimit) => storedMilli - way.levelMilli(atMs);
  const [first, ...others] = model.candidates(name);
  return others.reduce((best, way) => (best && gains(way) >= 0n && gains(way) < gains(best) ? way : best), first);
}
