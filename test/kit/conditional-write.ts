import { Buffer } from "node:buffer";
import { plus } from "../../src/bucket/integers.ts";
import type { AuditEvent } from "../../src/domain/config/audit.ts";
import { LimiterError } from "../../src/domain/names/errors.ts";
import type { Clause, Comparison, Item, ItemKey, ItemValue, ItemWrite, Presence } from "../../src/ports/item-store.ts";

/** The effect of a write on the item as it is. `after` undefined: there is no item then. */
type WriteOutcome =
  | { readonly kind: "applied"; readonly after: Item | undefined }
  | { readonly kind: "failed"; readonly after?: never };

/** What a conditional write does to an item, whether or not anybody lets it. Checked writes only: see `checkWrite`. */
export function outcomeOf(write: ItemWrite, before: Item | undefined): WriteOutcome {
  if (!holds(write, before)) return FAILED;
  switch (write.kind) {
    case "check":
      return { kind: "applied", after: before };
    case "delete":
      return { kind: "applied", after: undefined };
    case "put":
      return { kind: "applied", after: frozenItem(write.set) };
    case "update":
      return { kind: "applied", after: updated(write, before) };
  }
}

/** Throws where no store could carry out the write: a mistake of ours, whatever the state of the item. */
export function checkWrite(write: ItemWrite): void {
  const { kind, key, set, add, remove, copy, when } = write;
  if (!Number.isSafeInteger(key.shard) || key.shard < 0) {
    throw new Error(`Shard ${key.shard} of ${shownKey(key)} is no shard; count them from 0.`);
  }
  const changes = kind === "update" || kind === "put";
  for (const name in set) {
    if (!changes) throw useless(write, `sets "${name}"`);
    checkValue(set[name], name, key);
  }
  for (const name in add) {
    if (kind !== "update") throw useless(write, `adds to "${name}"`);
    checkValue(add[name], name, key);
    if (typeOf(add[name]) !== "number") throw new Error(`"${name}" of ${shownKey(key)}: only a number can be added.`);
    if (Object.hasOwn(set, name)) throw twice(write, name);
  }
  for (const name of remove) {
    if (kind !== "update") throw useless(write, `removes "${name}"`);
    if (Object.hasOwn(set, name) || Object.hasOwn(add, name)) throw twice(write, name);
    if (remove.indexOf(name) !== remove.lastIndexOf(name)) throw twice(write, name);
  }
  for (const name of Object.keys(copy ?? NOTHING)) {
    if (kind !== "update") throw useless(write, `copies to "${name}"`);
    if (Object.hasOwn(set, name) || Object.hasOwn(add, name) || remove.includes(name)) throw twice(write, name);
  }
  for (const clause of when) checkClause(clause, key);
}

/** Throws where no store could carry out the transaction. */
export function checkTransaction(
  writes: readonly ItemWrite[],
  { token, event }: { readonly token: string; readonly event: AuditEvent | undefined },
): void {
  // The event is an item like the others.
  const items = writes.length + (event === undefined ? 0 : 1);
  if (items < 1 || items > TRANSACTION_ITEMS_MAX) {
    throw new Error(
      `A transaction of ${items} items, its event included; it holds from 1 to ${TRANSACTION_ITEMS_MAX}.`,
    );
  }
  if (token.length < 1 || token.length > TOKEN_LENGTH_MAX) {
    throw new Error(`The token "${token}" has ${token.length} characters; it needs from 1 to ${TOKEN_LENGTH_MAX}.`);
  }
  const ids = new Set<string>();
  for (const write of writes) {
    checkWrite(write);
    const id = itemId(write.key);
    if (ids.has(id)) throw new Error(`A transaction writes ${shownKey(write.key)} twice; join the two writes.`);
    ids.add(id);
  }
}

/** Which item of a namespace, in one string, for maps. */
export function itemId({ bucket, shard, operation, sheet }: ItemKey): string {
  // Neither half of a bucket's id has a newline, and what is kept beside a shard stands last, so no two keys give one string.
  if (sheet !== undefined) return `${bucket.id}\n${shard}\n\u0000${sheet}`;
  return operation === undefined ? `${bucket.id}\n${shard}` : `${bucket.id}\n${shard}\n${operation}`;
}

/** The item as a store keeps it: a frozen copy. */
export function frozenItem(item: Item): Item {
  const copy: Record<string, ItemValue> = {};
  for (const name in item) copy[name] = stored(item[name] as ItemValue);
  return Object.freeze(copy);
}

/** Throws unless every attribute holds what a store can hold exactly. */
export function checkItem(item: Item, key: ItemKey): void {
  for (const name in item) checkValue(item[name], name, key);
}

const TRANSACTION_ITEMS_MAX = 100;
const TOKEN_LENGTH_MAX = 36;
const FAILED: WriteOutcome = { kind: "failed" };
const NOTHING: Item = Object.freeze({});

function holds({ item, when }: ItemWrite, before: Item | undefined): boolean {
  if (item === "exists" && before === undefined) return false;
  if (item === "missing" && before !== undefined) return false;
  const seen = before ?? NOTHING;
  return when.every((clause) => clause.some((test) => passes(test, seen)));
}

function passes(test: Comparison | Presence, item: Item): boolean {
  const found = Object.hasOwn(item, test.name) ? item[test.name] : undefined;
  if (!("value" in test)) return (found !== undefined) === (test.is === "present");
  // Values of two types do not compare, and what is not there compares with nothing: neither is even unequal.
  if (typeOf(found) !== typeOf(test.value)) return false;
  if (test.is === "=") return found === test.value;
  if (test.is === "<>") return found !== test.value;
  const order = compared(found as number | bigint | string, test.value as number | bigint | string);
  switch (test.is) {
    case "<":
      return order < 0;
    case "<=":
      return order <= 0;
    case ">":
      return order > 0;
    case ">=":
      return order >= 0;
  }
}

/** Below 0, 0 or above, as a is before, the same as or after b. Both are numbers, or both strings. */
function compared(a: number | bigint | string, b: number | bigint | string): number {
  if (typeof a !== "string") return a < (b as number | bigint) ? -1 : a > (b as number | bigint) ? 1 : 0;
  // By the bytes of UTF-8, as the store does: code units order a surrogate pair differently.
  return Buffer.compare(Buffer.from(a), Buffer.from(b as string));
}

function typeOf(value: ItemValue | undefined): string {
  return typeof value === "bigint" ? "number" : typeof value;
}

function updated({ key, set, add, remove, copy = {} }: ItemWrite, before: Item | undefined): Item {
  const after: Record<string, ItemValue> = { ...before };
  for (const [name, from] of Object.entries(copy)) {
    after[name] = before !== undefined && Object.hasOwn(before, from) ? (before[from] as ItemValue) : 0;
  }
  for (const name in set) after[name] = stored(set[name] as ItemValue);
  for (const name in add) {
    const found = Object.hasOwn(after, name) ? after[name] : 0;
    if (typeof found !== "number" && typeof found !== "bigint") {
      // As DynamoDB answers it: an operand of the wrong type.
      throw new LimiterError(
        "store_refused",
        `"${name}" of ${shownKey(key)} is ${JSON.stringify(found)}; only to a number can be added.`,
      );
    }
    const isOurs = Number.isSafeInteger(found);
    const isFraction = typeof found === "number" && !isOurs;
    const sum = isFraction ? found + (add[name] as number) : plus(found, add[name] as number);
    // A store adds exactly, and a counter of what was used may outgrow the safe integers; nothing else may by what we add.
    if (isOurs && !USED.test(name)) checkValue(sum, name, key);
    after[name] = stored(sum);
  }
  for (const name of remove) delete after[name];
  return Object.freeze(after);
}

const USED = /^b_(rqp?|.+_(tc|by|od|wr|hu|tp|bp|op|wv|hv))$/;

/** A store knows no negative zero. */
function stored(value: ItemValue): ItemValue {
  return typeof value === "number" ? value + 0 : value;
}

function checkClause(clause: Clause, key: ItemKey): void {
  if (clause.length === 0) throw new Error(`A clause on ${shownKey(key)} has no tests; leave it out.`);
  for (const test of clause) {
    if (!("value" in test)) continue;
    // What was seen on an item may stand in a condition, however large it is.
    if (typeof test.value !== "bigint") checkValue(test.value, test.name, key);
    if (typeof test.value === "boolean" && test.is !== "=" && test.is !== "<>") {
      throw new Error(`"${test.name}" ${test.is} ${test.value} on ${shownKey(key)}: truth has no order; use = or <>.`);
    }
  }
}

function checkValue(value: unknown, name: string, key: ItemKey): void {
  if (typeof value === "string" || typeof value === "boolean" || Number.isSafeInteger(value)) return;
  // A count that is kept.
  if (typeof value === "bigint" && USED.test(name)) return;
  throw new Error(
    `"${name}" of ${shownKey(key)} is ${value}; an attribute holds a safe integer, a string or a boolean.`,
  );
}

function useless(write: ItemWrite, what: string): Error {
  return new Error(`A ${write.kind} of ${shownKey(write.key)} ${what}, which it cannot; make it an update.`);
}

function twice(write: ItemWrite, name: string): Error {
  return new Error(`A write of ${shownKey(write.key)} changes "${name}" in two ways; set, add or remove it, once.`);
}

function shownKey({ bucket, shard, operation, sheet }: ItemKey): string {
  const item = `${bucket.entityId} on ${bucket.resource}, shard ${shard}`;
  if (sheet !== undefined) return `${item}, usage of ${sheet}`;
  return operation === undefined ? item : `${item}, operation ${operation}`;
}
