import type { Part } from "../../bucket/share.ts";
import { assembled, type BucketState, bornAs, freshBucket } from "../../domain/bucket/bucket-state.ts";
import { fullLimit } from "../../domain/bucket/limit-state.ts";
import type { OperationReply } from "../../ports/bucket-store.ts";
import type { Clause, Item, ItemKey, ItemValue, ItemWrite } from "../../ports/item-store.ts";
import type { ProtocolContext } from "../context.ts";
import { BN, BYPASS, DISABLED, namesOf, RF, SHARD_COUNT, TTL, UH, UP, VU, WCU } from "../item/attributes.ts";
import { isCounter, isSound, SHARDS_MAX } from "../item/damage.ts";
import { newItem } from "../item/encode-item.ts";
import { birthOf } from "../item/nonces.ts";
import { SPARE_S } from "../item/ttl.ts";
import { putNew, removal } from "../item/write-builder.ts";
import { drive } from "../process/drive.ts";
import type { Event, Machine, ReadAction, TransactAction, Turn } from "../process/machine.ts";
import { RETRY } from "../process/retry-policy.ts";
import { keptUntil } from "../take/expiry.ts";
import { hourEndFor } from "../usage/hours.ts";
import type { OperationParts } from "./operation-parts.ts";

/*
 * Resets a bucket that cannot be read. Nothing of its balance is to be kept, so nothing of it has to be understood: every shard
 * is replaced by a full one, in one transaction with the record that makes it happen once and the audit event. What was counted
 * stays, where it can be read. The items are pinned as they were seen: a process that knew the bucket before it was damaged may
 * still write to it.
 */
export function replaceAll(context: ProtocolContext, parts: OperationParts): Promise<OperationReply> {
  const policy = RETRY.operation;
  const budget = { policy, attemptsMax: policy.attempts, caller: undefined };
  const untilMs = context.clock.now() + policy.timeoutMs;
  return drive(new Replacing(context, parts, untilMs), READING, budget, context);
}

type Progress =
  | { readonly at: "reading"; readonly lost: unknown }
  | { readonly at: "seen"; readonly lost: unknown; readonly items: readonly (Item | undefined)[] }
  /** Others were faster, or the store refused: wait, then read. `lost`: a transaction may have been done unseen. */
  | { readonly at: "pausing"; readonly lost: unknown; readonly cause: unknown }
  | { readonly at: "settled"; readonly result: OperationReply };

type Act =
  | ReadAction
  | TransactAction
  | { readonly do: "pause" }
  | { readonly do: "settle"; readonly result: OperationReply };

const READING: Progress = { at: "reading", lost: undefined };

class Replacing implements Machine<Progress, Act, OperationReply> {
  readonly #context: ProtocolContext;
  readonly #parts: OperationParts;
  readonly #untilMs: number;

  constructor(context: ProtocolContext, parts: OperationParts, untilMs: number) {
    this.#context = context;
    this.#parts = parts;
    this.#untilMs = untilMs;
  }

  ended(progress: Progress) {
    return progress.at === "settled" ? progress : undefined;
  }

  next(progress: Progress, { over }: Turn): Act {
    const { operation, key, gaveUp, unknown } = this.#parts;
    const { bucket, nowMs, event } = operation;
    if (progress.at === "settled") return { do: "settle", result: progress.result };
    if (over !== undefined) {
      const cause = progress.at === "pausing" ? progress.cause : undefined;
      return { do: "settle", result: progress.lost === undefined ? gaveUp(cause) : unknown(progress.lost) };
    }
    if (progress.at === "pausing") return { do: "pause" };
    if (progress.at === "reading") {
      const shards = Array.from({ length: SHARDS_MAX }, (_, shard): ItemKey => ({ bucket, shard }));
      return { do: "read", keys: [key, ...shards], consistent: true, atMs: nowMs, sets: undefined, raw: true };
    }
    const writes = [...this.#replaced(progress.items), this.#parts.recordOf([])];
    const token = `t${this.#context.nonces.next().toString(36)}`;
    return { do: "transact", writes, token, event };
  }

  on(progress: Progress, action: Act, event: Event): Progress {
    if (action.do === "settle") return { at: "settled", result: action.result };
    const lost = progress.at === "settled" ? undefined : progress.lost;
    switch (event.kind) {
      case "read": {
        const [record, ...items] = event.items;
        const done = this.#parts.done(record);
        return done === undefined ? { at: "seen", lost, items } : { at: "settled", result: done };
      }
      case "committed":
        return { at: "settled", result: { kind: "done", repeated: false, amounts: [] } };
      case "unknown":
        return { at: "pausing", lost: event.cause, cause: event.cause };
      case "unread":
      case "refused":
        return { at: "pausing", lost, cause: event.cause };
      case "outrun":
        return { at: "pausing", lost, cause: undefined };
      default:
        return { at: "reading", lost };
    }
  }

  untilMs(): number {
    return this.#untilMs;
  }

  throttled(): void {}

  #replaced(items: readonly (Item | undefined)[]): ItemWrite[] {
    const { operation } = this.#parts;
    const { bucket } = operation;
    const count = shardCountIn(items);
    const birth = this.#context.nonces.next();
    return items.flatMap((before, shard): ItemWrite[] => {
      const key = { bucket, shard };
      const parts = [{ of: operation, kind: "reset", amounts: [] }] as const;
      const trace = {
        form: "operation",
        readingMs: operation.nowMs,
        parts: shard === 0 ? parts : [],
        spare: [],
      } as const;
      if (shard >= count) return before === undefined ? [] : [removal(key, pinsOf(before), trace)];
      const item = this.#fresh(shard, count, birth, before);
      if (before === undefined) return [putNew(key, item, trace)];
      return [{ ...putNew(key, item, trace), item: "exists", when: pinsOf(before) }];
    });
  }

  #fresh(shard: number, count: number, birth: number, before: Item | undefined): Item {
    const { env } = this.#context;
    const { set, origin, nowMs } = this.#parts.operation;
    // Later than any epoch that can be read: a process that is behind must not take it for an older one.
    const epochMs = Math.max(nowMs, isSound(RF, before?.[RF]) ? Number(before?.[RF]) + 1 : 0);
    const part: Part | undefined =
      count === 1 ? undefined : { index: shard, count, rounding: env.dialect.partRounding };
    const fresh = freshBucket(set, origin, epochMs, env.calendar);
    const limits = fresh.limits.map(({ limit }) => fullLimit(limit, true, epochMs, env.calendar, part));
    const born: BucketState = bornAs(assembled({ ...fresh, limits }, env.calendar), birthOf(birth));
    // Configuration is read again, as whatever the item said of it is gone.
    const item: Record<string, ItemValue> = {
      ...newItem(born, birth, env),
      [VU]: 0,
      ...keptOf(before, env.dialect.countsByHour),
    };
    const at = { readingMs: nowMs, hourEndMs: hourEndFor(nowMs, env.dialect) };
    const untilS = origin.own || count > 1 ? undefined : keptUntil(born.limits, [], at, env);
    if (untilS !== undefined) item[TTL] = untilS + SPARE_S;
    return item;
  }
}

/** What of an item stays: whether it is switched off, and what was counted, where it can be read. */
function keptOf(before: Item | undefined, countsByHour: boolean): Item {
  if (before === undefined) return {};
  const kept: Record<string, ItemValue> = {};
  for (const name of [DISABLED, BYPASS]) if (before[name] !== undefined) kept[name] = before[name];
  // Of which hour it is says only the item.
  if (!countsByHour || !isSound(UH, before[UH])) return kept;
  const hasClosed = isSound(UP, before[UP]);
  for (const [name, value] of Object.entries(before)) {
    const of = isCounter(name);
    if (of === undefined || (of === "closed" && !hasClosed) || !isSound(name, value)) continue;
    if (name !== namesOf(WCU).tc) kept[name] = value;
  }
  return kept;
}

/** How many shards there are, by what most of them say; what cannot be read has no say. */
function shardCountIn(items: readonly (Item | undefined)[]): number {
  const votes = new Map<number, number>();
  for (const item of items) {
    const count = item?.[SHARD_COUNT];
    if (isSound(SHARD_COUNT, count)) votes.set(Number(count), (votes.get(Number(count)) ?? 0) + 1);
  }
  const [most] = [...votes].sort(([a, x], [b, y]) => y - x || b - a);
  return most?.[0] ?? 1;
}

/** Every write of ours is counted on the item, so it is as it was seen while these are. */
function pinsOf(item: Item): Clause[] {
  return [RF, BN, namesOf(WCU).tc].flatMap((name): Clause[] => {
    const value = item[name];
    if (value === undefined) return [[{ name, is: "absent" }]];
    // A fraction cannot be told exactly; what is damaged so is written by no process of ours.
    return typeof value === "number" && !Number.isSafeInteger(value) ? [] : [[{ name, is: "=", value }]];
  });
}
