import { VersionError } from "../names/errors.ts";
import { shown } from "../names/names.ts";
import type { Ways } from "../names/shown.ts";
import type { BucketKey } from "./bucket-key.ts";

/** Something in a stored item, or row, that this package never writes. */
export interface Damage {
  /** The attribute, or the column. */
  readonly attribute: string;
  /** The value that stands there. */
  readonly value: unknown;
  /** The value that belongs there: "a whole number from 1". */
  readonly wants: string;
}

/** The item that is damaged: a shard of a bucket, or a record beside it. */
export interface DamagedItem {
  readonly bucket: Pick<BucketKey, "entityId" | "resource">;
  readonly shard: number;
  /** The record of a purchase or reset, by its key. */
  readonly operation?: string | undefined;
  /** The usage of a day, `2026-03-15`. */
  readonly sheet?: string | undefined;
}

/** A bucket, or a record beside it, cannot be read: it is damaged, or another program wrote it. Nothing is taken from it. */
export class ItemUnreadable extends VersionError {
  /** Whose bucket. */
  readonly entityId: string;
  /** On which resource. */
  readonly resource: string;
  /** Which shard of it, from 0. */
  readonly shard: number;
  /** The attribute of the item, or the column of the row. */
  readonly attribute: string;
  /** The value that is stored there. */
  readonly value: unknown;
  /** Which part of the bucket: its balance, the record of a top-up or reset, or the usage of a day. */
  readonly part: "balance" | "operation" | "usage";

  constructor(item: DamagedItem, { attribute, value, wants }: Damage) {
    const { bucket, shard, operation, sheet } = item;
    super(
      "item_unreadable",
      (ways) =>
        `"${attribute}" of ${placeText(item)} is ${shownValue(value)}, not ${wants}: it is damaged, or another program wrote ` +
        `it. ${remedyFor(item, ways)}`,
    );
    this.entityId = bucket.entityId;
    this.resource = bucket.resource;
    this.shard = shard;
    this.attribute = attribute;
    this.value = value;
    this.part = operation !== undefined ? "operation" : sheet === undefined ? "balance" : "usage";
  }
}

function placeText({ bucket: { entityId, resource }, shard, operation, sheet }: DamagedItem): string {
  const bucket = `the bucket of ${entityId} on ${resource}, shard ${shard}`;
  if (operation !== undefined) return `the operation "${operation}" on ${bucket},`;
  return sheet === undefined ? `${bucket},` : `the usage of ${sheet} of ${bucket},`;
}

function remedyFor({ operation, sheet }: DamagedItem, ways: Ways): string {
  if (operation !== undefined)
    return "Check whether it was done, then use another idempotencyKey; or correct the item.";
  if (sheet !== undefined) return "Correct the item, or delete it together with its usage.";
  return `Reset the whole bucket (${ways.resetBucket}), which recreates the item; or correct it.`;
}

const SHOWN_MAX = 100;

function shownValue(value: unknown): string {
  if (typeof value === "bigint") return String(value);
  const text = value instanceof Uint8Array ? `${value.length} bytes` : shown(value);
  return text.length <= SHOWN_MAX ? text : `${text.slice(0, SHOWN_MAX)}...`;
}
