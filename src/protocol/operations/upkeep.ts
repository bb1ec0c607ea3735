import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { type BucketState, wholeOf } from "../../domain/bucket/bucket-state.ts";
import type { SourcedLimits } from "../../domain/bucket/limited-bucket.ts";
import type { Amount } from "../../domain/charge/amounts.ts";
import type { Access } from "../../domain/config/config.ts";
import type { Crossed } from "../../domain/limits/thresholds.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { BucketOwner, ListedBucket, Operation, OperationReply } from "../../ports/bucket-store.ts";
import type { Item, ItemKey } from "../../ports/item-store.ts";
import { announce, installLimits, stampAccess } from "../config/apply.ts";
import type { ProtocolContext } from "../context.ts";
import type { CloseOptions, ShardClosed } from "../decide/close.ts";
import { resize } from "../shards/resize.ts";
import { readWhole, withoutDeadline } from "../shards/whole.ts";
import { closeHours } from "../usage/close-hours.ts";
import { bucketsOn } from "./list-buckets.ts";
import { resetAll, topUpAll } from "./operate.ts";

/** What is done with buckets besides taking and giving back: purchases, lists, sizes, closed hours, changed configuration. */
export abstract class BucketUpkeep {
  protected abstract readonly context: ProtocolContext;

  async topUp(operation: Operation, amounts: readonly Amount[]): Promise<OperationReply> {
    this.context.env.dialect.checkTopUp(operation.bucket);
    return topUpAll(this.context, operation, amounts);
  }

  reset(operation: Operation, limits: readonly string[] | undefined): Promise<OperationReply> {
    return resetAll(this.context, operation, limits);
  }

  watchThresholds(listener: (crossed: Crossed) => void): () => void {
    return this.context.marks.watch(listener);
  }

  thresholdsTold(): Promise<void> {
    return this.context.marks.told();
  }

  async read(keys: readonly BucketKey[]): Promise<readonly (BucketState | undefined)[]> {
    const readingMs = this.context.clock.now();
    const wholes = await readWhole(this.context, keys, withoutDeadline(readingMs));
    return wholes.map(({ images }) =>
      images.length === 0
        ? undefined
        : wholeOf(
            images.map(({ state }) => state),
            this.context.env.calendar,
          ),
    );
  }

  listByResource(resource: string, page: PageRequest): Promise<Page<ListedBucket>> {
    return bucketsOn(this.context, resource, page);
  }

  async listKeys(owner: BucketOwner, page: PageRequest): Promise<Page<BucketKey>> {
    return this.context.items.listKeys(owner, page);
  }

  /** Doubles, halves or joins the shards of a bucket now, whatever it is used. True when it was done. */
  resize(bucket: BucketKey, to: "more" | "fewer" | 1, readingMs: number): Promise<boolean> {
    return resize(this.context, bucket, to, readingMs);
  }

  /** Closes hours of shards that have been over for some time; see close-hours.ts. At most 100 shards. */
  closeHours(shards: readonly ItemKey[], options: CloseOptions): Promise<readonly ShardClosed[]> {
    return closeHours(this.context, shards, options);
  }

  /** Marks a bucket with "configuration changed"; how many shards were written. */
  announce(bucket: BucketKey, readingMs: number): Promise<number> {
    return announce(this.context, bucket, readingMs);
  }

  /** Stamps what is allowed on a bucket; how many shards were written. */
  stampAccess(bucket: BucketKey, access: Access, readingMs: number): Promise<number> {
    return stampAccess(this.context, bucket, access, readingMs);
  }

  /** Installs limits on every shard of a bucket that exists. True when all go by them. */
  installLimits(bucket: BucketKey, { set, origin }: SourcedLimits, readingMs: number): Promise<boolean> {
    return installLimits(this.context, { bucket, set, origin, readingMs, configConfirmed: true });
  }

  /** For a bucket that nothing is known of: takes in its first item from a caller that reads it anyway. */
  onFirstRead(bucket: BucketKey): ((item: Item | undefined, atMs: number) => void) | undefined {
    const cache = this.context.caches.of(bucket);
    if (!cache.isUnknown) return undefined;
    const about = {
      eventuallyConsistent: true,
      set: undefined,
      ownWrites: 0,
      sentAtSequence: this.context.caches.sequence,
    };
    return (item, atMs) => this.context.caches.observe(cache, { bucket, shard: 0 }, item, { ...about, atMs });
  }

  /** Drops what is cached of a bucket: it was deleted, or another program wrote it. */
  forget(bucket: BucketKey): void {
    this.context.caches.of(bucket).forgetShards();
  }
}
