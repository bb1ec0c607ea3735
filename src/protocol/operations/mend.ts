import type { Part } from "../../bucket/balance.ts";
import { assembled, bornAs, freshBucket } from "../../domain/bucket/bucket-state.ts";
import { fullLimit } from "../../domain/bucket/limit-state.ts";
import type { Operation, OperationReply } from "../../ports/bucket-store.ts";
import type { Clause, Item, ItemKey, ItemValue, ItemWrite } from "../../ports/item-store.ts";
import type { ProtocolContext } from "../context.ts";
import { BN, BYPASS, birthOf, DISABLED, namesOf, RF, SHARD_COUNT, UH, UP, VU, WCU } from "../item/attributes.ts";
import { isCounter, isSound, SHARDS_MAX } from "../item/damage.ts";
import { newItem } from "../item/encode-item.ts";
import { putNew, removal } from "../item/write-builder.ts";
import { drive } from "../process/drive.ts";
import type { Machine, ReadAction, TransactAction } from "../process/machine.ts";
import { RETRY } from "../process/retry-policy.ts";
import { setExpiry } from "../take/expiry.ts";
import type { Env } from "../take/intent.ts";
import type { OperationParts } from "./operation-parts.ts";

/*
 * Resets a bucket that cannot be read. Nothing of its balance is to be kept, so nothing of it has to be understood: every shard
 * is replaced by a full one, in one transaction with the record that makes it happen once and the audit event. What was counted
 * stays, where it can be read. The items are pinned as they were seen: a process that knew the bucket before it was damaged may
 * still write to it.
 */
export function replaceAll(context: ProtocolContext, parts: OperationParts): Promise<OperationReply> {
  const policy = RETRY.operation;
  const untilMs = context.clock.now() + policy.timeoutMs;
  const { operation, key, done, gaveUp, unknown } = parts;
  const machine: Machine<Progress, Act, OperationReply> = {
    ended: (progress) => (progress.at === "settled" ? progress : undefined),
    next: (progress, { over }) => {
      if (progress.at === "settled") return { do: "end", result: progress.result };
      if (over !== undefined) {
        const cause = progress.at === "pausing" ? progress.cause : undefined;
        return { do: "end", result: progress.lost === undefined ? gaveUp(cause) : unknown(progress.lost) };
      }
      if (progress.at === "pausing") return { do: "pause" };
      const { bucket, nowMs, event } = operation;
      if (progress.at === "reading") {
        const shards = Array.from({ length: SHARDS_MAX }, (_, shard): ItemKey => ({ bucket, shard }));
        return { do: "read", keys: [key, ...shards], consistent: true, atMs: nowMs, sets: undefined, raw: true };
      }
      const writes = [...replacements(context, operation, progress.items), parts.recordOf([])];
      return { do: "transact", writes, token: context.nonces.token(), event };
    },
    on: (progress, _, event) => {
      const lost = progress.at === "settled" ? undefined : progress.lost;
      switch (event.kind) {
        case "read": {
          const [record, ...items] = event.items;
          const reply = done(record);
          return reply === undefined ? { at: "seen", lost, items } : { at: "settled", result: reply };
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
    },
    untilMs: () => untilMs,
  };
  return drive(machine, { at: "reading", lost: undefined }, { policy }, context);
}

type Progress =
  | { readonly at: "reading"; readonly lost: unknown }
  | { readonly at: "seen"; readonly lost: unknown; readonly items: readonly (Item | undefined)[] }
  /** Others were faster, or the store refused: wait, then read. `lost`: a transaction may have been committed unseen. */
  | { readonly at: "pausing"; readonly lost: unknown; readonly cause: unknown }
  | { readonly at: "settled"; readonly result: OperationReply };

type Act = ReadAction | TransactAction | { readonly do: "pause" };

function replacements(
  context: ProtocolContext,
  operation: Operation,
  items: readonly (Item | undefined)[],
): ItemWrite[] {
  const { bucket, nowMs } = operation;
  const count = shardCountIn(items);
  const birth = context.nonces.next();
  return items.flatMap((before, shard): ItemWrite[] => {
    const key = { bucket, shard };
    const parts = shard === 0 ? [{ of: operation, kind: "reset", amounts: [] } as const] : [];
    const trace = { form: "operation", readingMs: nowMs, parts, spare: [] } as const;
    if (shard >= count) return before === undefined ? [] : [removal(key, pinsOf(before), trace)];
    const put = putNew(key, freshItem(context.env, operation, { shard, count, birth }, before), trace);
    return [before === undefined ? put : { ...put, item: "exists", when: pinsOf(before) }];
  });
}

function freshItem(
  env: Env,
  { set, origin, nowMs }: Operation,
  { shard, count, birth }: { readonly shard: number; readonly count: number; readonly birth: number },
  before: Item | undefined,
): Item {
  const { calendar, dialect } = env;
  // The epoch is later than any readable one: a process that is behind must not take the item for an older one.
  const epochMs = Math.max(nowMs, isSound(RF, before?.[RF]) ? Number(before?.[RF]) + 1 : 0);
  const part: Part | undefined = count === 1 ? undefined : { index: shard, count, rounding: dialect.partRounding };
  const fresh = freshBucket(set, origin, epochMs, calendar);
  const limits = fresh.limits.map(({ limit }) => fullLimit(limit, true, epochMs, calendar, part));
  const born = bornAs(assembled({ ...fresh, limits }, calendar), birthOf(birth));
  // Configuration must be read again: the item's own is lost.
  const item = { ...newItem(born, birth, env), [VU]: 0, ...keptOf(before, dialect.countsByHour) };
  if (!origin.own && count === 1) setExpiry(item, born.limits, [], nowMs, env);
  return item;
}

/** The parts of an item that stay: its access, and readable counters. */
function keptOf(before: Item | undefined, countsByHour: boolean): Item {
  if (before === undefined) return {};
  const kept: Record<string, ItemValue> = {};
  for (const name of [DISABLED, BYPASS]) if (before[name] !== undefined) kept[name] = before[name];
  // Only the item says which hour the counters belong to.
  if (!countsByHour || !isSound(UH, before[UH])) return kept;
  const hasClosed = isSound(UP, before[UP]);
  for (const [name, value] of Object.entries(before)) {
    const of = isCounter(name);
    if (of === undefined || (of === "closed" && !hasClosed) || !isSound(name, value)) continue;
    if (name !== namesOf(WCU).tc) kept[name] = value;
  }
  return kept;
}

/** The number of shards that most of the readable items say. */
function shardCountIn(items: readonly (Item | undefined)[]): number {
  const votes = new Map<number, number>();
  for (const item of items) {
    const count = item?.[SHARD_COUNT];
    if (isSound(SHARD_COUNT, count)) votes.set(Number(count), (votes.get(Number(count)) ?? 0) + 1);
  }
  const [most] = [...votes].sort(([a, x], [b, y]) => y - x || b - a);
  return most?.[0] ?? 1;
}

/** Every write is counted on the item, so these pin it as it was seen. */
function pinsOf(item: Item): Clause[] {
  return [RF, BN, namesOf(WCU).tc].flatMap((name): Clause[] => {
    const value = item[name];
    if (value === undefined) return [[{ name, is: "absent" }]];
    // A fraction cannot be compared exactly; none of our processes writes to an item damaged like that.
    return typeof value === "number" && !Number.isSafeInteger(value) ? [] : [[{ name, is: "=", value }]];
  });
}
