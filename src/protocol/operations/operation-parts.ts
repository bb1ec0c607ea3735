import { ItemUnreadable } from "../../domain/bucket/item-unreadable.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import { operatedOfText, operatedText } from "../../domain/lease/idempotency.ts";
import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { Operation, OperationReply } from "../../ports/bucket-store.ts";
import type { Item, ItemKey, ItemWrite } from "../../ports/item-store.ts";
import type { ProtocolContext } from "../context.ts";
import { TTL } from "../item/attributes.ts";

const KEPT_S = 30 * 24 * 3_600;

const WRITER = "writer";
const AMOUNTS = "amounts";

/** Shared by all operations: the record that makes one happen once, and the errors if it was not done, or perhaps not. */
export interface OperationParts {
  readonly operation: Operation;
  readonly key: ItemKey;
  recordOf(gained: readonly Amount[]): ItemWrite;
  /** The reply that the record proves; undefined: it was not done. */
  done(record: Item | undefined): OperationReply | undefined;
  gaveUp(cause: unknown): never;
  unknown(cause: unknown): never;
}

export function partsOf({ nonces }: ProtocolContext, operation: Operation): OperationParts {
  const { bucket, nowMs, idempotencyKey } = operation;
  const key: ItemKey = { bucket, shard: 0, operation: idempotencyKey };
  const writer = nonces.next();
  const what = `the operation ${idempotencyKey} on ${bucket.entityId}/${bucket.resource}`;
  return {
    operation,
    key,
    recordOf: (gained) => {
      const ttl = Math.ceil(nowMs / 1000) + KEPT_S;
      const text = operatedText({ asks: operation.asks, amounts: gained });
      return recordWrite(key, { [WRITER]: writer, [AMOUNTS]: text, [TTL]: ttl }, nowMs);
    },
    done: (record) => replyOf(key, record, writer, nowMs),
    gaveUp: (cause) => {
      const why = cause === undefined ? "others changed the bucket at every attempt" : "the store did not accept it";
      throw new RateLimiterUnavailable(
        `${what[0]?.toUpperCase()}${what.slice(1)} was not done: ${why}. Repeat it with the same idempotencyKey; it is applied only once.`,
        { cause },
      );
    },
    unknown: (cause) => {
      throw new RateLimiterUnavailable(
        `The store did not answer, so ${what} may or may not be applied. ` +
          `Repeat it with the idempotencyKey "${idempotencyKey}": it is applied only once, and the result says whether it had been applied before.`,
        { cause },
      );
    },
  };
}

function replyOf(key: ItemKey, record: Item | undefined, writer: number, nowMs: number): OperationReply | undefined {
  // DynamoDB removes it some time after it has expired.
  const untilS = record?.[TTL];
  if (record === undefined || (typeof untilS === "number" && untilS <= Math.floor(nowMs / 1000))) return undefined;
  const operated = operatedOfText(record[AMOUNTS]);
  if (operated !== undefined) return { kind: "done", repeated: record[WRITER] !== writer, ...operated };
  // This is money: do not guess whether it was done.
  const damage = { attribute: AMOUNTS, value: record[AMOUNTS], wants: "a list of limits and millitokens" };
  throw new ItemUnreadable(key, damage);
}

function recordWrite(key: ItemKey, record: Item, nowMs: number): ItemWrite {
  const isOver = [
    { name: TTL, is: "absent" },
    { name: TTL, is: "<=", value: Math.floor(nowMs / 1000) },
  ] as const;
  return { key, kind: "put", item: "either", when: [isOver], set: record, add: {}, remove: [], trace: undefined };
}
