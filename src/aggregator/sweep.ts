import { inChunks } from "../adapters/dynamodb/paging.ts";
import { keyIn } from "../adapters/dynamodb/records-write.ts";
import { GSI4PK, GSI4SK, NAMESPACE_INDEX, parseItemKey } from "../adapters/dynamodb/schema.ts";
import { putClosedUntil, readClosedUntil } from "../adapters/dynamodb/usage-closed.ts";
import { UsedResources } from "../adapters/dynamodb/usage-resources.ts";
import { ItemUnreadable } from "../domain/bucket/item-unreadable.ts";
import { HOUR_MS, hourOf } from "../domain/charge/usage.ts";
import type { Namespace } from "../domain/config/namespace.ts";
import type { ItemKey } from "../ports/item-store.ts";
import type { HourCloser } from "../protocol/usage/close-hours.ts";
import { faultFields } from "./log.ts";
import type { SweepPosition } from "./sweep-ledger.ts";
import { finishDeletions, finishPurge } from "./sweep-leftovers.ts";
import type { SweepParts } from "./sweep-parts.ts";

/** What a sweep did. */
export interface SweepReport {
  /** Whether it went through every namespace. If not, the next sweep goes on where this one stopped. */
  readonly complete: boolean;
  /** Shards of buckets that it looked at. */
  readonly bucketsSwept: number;
  /** Hours of usage that it closed. */
  readonly hoursClosed: number;
  /** How often it halved the shards of an idle bucket. */
  readonly shardsJoined: number;
  /** Interrupted deletions of entities that it finished. */
  readonly deletionsFinished: number;
  /** Interrupted purges of namespaces that it finished. */
  readonly purgesFinished: number;
  /** Steps that failed; the next sweep tries them again. Damaged shards are among them. */
  readonly failures: number;
  /** Shards of buckets that are damaged; the log names them. They wait until they are mended, or their buckets are reset. */
  readonly shardsUnreadable: number;
  /** All hours before this instant are closed, in every namespace. Absent: that is not known yet. */
  readonly closedUntilMs?: number;
}

/** One pass over all namespaces, or as much of it as there is time for. */
export async function sweepAll(parts: SweepParts): Promise<SweepReport> {
  return new Sweep(parts).run();
}

/** Buckets that are closed together. */
const CHUNK = 100;
/** Each call halves the number of shards, of which there are at most 32. */
const JOINS_MAX = 5;

class Sweep {
  readonly #parts: SweepParts;
  readonly #counts = {
    ...{
      bucketsSwept: 0,
      hoursClosed: 0,
      shardsJoined: 0,
      deletionsFinished: 0,
      purgesFinished: 0,
      failures: 0,
      shardsUnreadable: 0,
    },
  };
  #position: SweepPosition;

  constructor(parts: SweepParts) {
    this.#parts = parts;
    this.#position = this.#beginning();
  }

  async run(): Promise<SweepReport> {
    const { ledger, anew, metrics, log } = this.#parts;
    const found = await ledger.begin({ anew });
    if (found === "busy") {
      log.info("another sweep is running", {});
      return { complete: false, ...this.#counts };
    }
    this.#position = found ?? this.#beginning();
    const complete = await this.#pass().catch(async (error: unknown) => {
      // The next one need not wait for the lease to end.
      await ledger.release().catch(() => {});
      // How old what is closed has become is worth an alarm most of all where no sweep comes to its end.
      await this.#closedUntil().catch(() => {});
      throw error;
    });
    await (complete ? ledger.finish() : ledger.release());
    const closedUntilMs = await this.#closedUntil();
    metrics.add("BucketsSwept", this.#counts.bucketsSwept);
    metrics.add("HoursClosed", this.#counts.hoursClosed);
    metrics.add("ShardsJoined", this.#counts.shardsJoined);
    if (this.#counts.failures > 0) metrics.add("Errors", this.#counts.failures);
    if (this.#counts.shardsUnreadable > 0) metrics.add("ShardsUnreadable", this.#counts.shardsUnreadable);
    const report = { complete, ...this.#counts, ...(closedUntilMs === undefined ? {} : { closedUntilMs }) };
    log.info("swept", report);
    return report;
  }

  async #pass(): Promise<boolean> {
    const { namespaces, log } = this.#parts;
    for await (const namespace of namespaces()) {
      const { namespaceId } = this.#position;
      // They come in the order of their ids; those before are done.
      if (namespaceId !== undefined && namespace.id < namespaceId) continue;
      if (namespaceId !== namespace.id)
        this.#position = { ...this.#beginning(), ...this.#pinned(), namespaceId: namespace.id };
      if (this.#isOver() || !(await this.#namespace(namespace))) return false;
      log.debug("namespace swept", { namespace: namespace.id });
    }
    return true;
  }

  /** False: no time is left, or somebody else has taken over. */
  async #namespace(namespace: Namespace): Promise<boolean> {
    const { scope } = this.#parts;
    if (namespace.status === "purging") {
      await this.#counted("purgesFinished", () => finishPurge(namespace, this.#parts));
      return true;
    }
    const { hours } = scope(namespace.id);
    if (namespace.status === "active") {
      await this.#counted("deletionsFinished", () => finishDeletions(namespace.id, this.#parts));
    }
    if (hours === undefined) return true;
    const resources = await UsedResources.in(this.#parts.records, namespace.id);
    for await (const shards of inChunks(this.#buckets(namespace.id), CHUNK)) {
      if (this.#isOver()) return false;
      await resources.add(shards.map(({ bucket }) => bucket.resource));
      await this.#close(namespace.id, shards);
      if (!(await this.#parts.ledger.save(this.#position))) return false;
    }
    await this.#closed(namespace.id, resources);
    return true;
  }

  async *#buckets(namespaceId: string): AsyncGenerator<ItemKey> {
    const { key: after = "BUCKET#" } = this.#position;
    const keys = this.#parts.records.query({
      index: NAMESPACE_INDEX,
      partition: [GSI4PK, namespaceId],
      range: { name: GSI4SK, from: after, to: "BUCKET$" },
      keysOnly: true,
    });
    for await (const item of keys) {
      const parsed = parseItemKey(keyIn(item));
      if (parsed === undefined || parsed.key.operation !== undefined) continue;
      const { bucket, shard } = parsed.key;
      if (shardText({ bucket, shard }) !== after) yield { bucket, shard };
    }
  }

  async #close(namespaceId: string, shards: readonly ItemKey[]): Promise<void> {
    const { scope, clock, log } = this.#parts;
    const { hours } = scope(namespaceId);
    if (hours === undefined) return;
    const { afterHours } = this.#position;
    const answers = await hours.close(shards, { nowMs: clock.now(), afterHours });
    let { openHour, hasFailed } = this.#position;
    // Whether all shards of a bucket in shards that are among these have been idle for a while.
    const split = new Map<string, { readonly bucket: ItemKey["bucket"]; isIdle: boolean }>();
    const damaged = new Set<string>();
    for (const [i, answer] of answers.entries()) {
      const key = shards[i]!;
      this.#counts.bucketsSwept += 1;
      if (answer.kind === "unreadable") {
        // What it has counted is on no sheet, so the namespace is not closed beyond it.
        hasFailed = true;
        this.#counts.failures += 1;
        this.#counts.shardsUnreadable += 1;
        damaged.add(key.bucket.id);
        const { shard, attribute } = answer.cause;
        log.error("a bucket is damaged", { namespace: namespaceId, shard, attribute, ...faultFields(answer.cause) });
        log.debug("bucket", shardFields(key));
        continue;
      }
      if (answer.kind === "failed") {
        hasFailed = true;
        this.#counts.failures += 1;
        log.warn("a bucket could not be closed", { namespace: namespaceId, ...faultFields(answer.cause) });
        log.debug("bucket", shardFields(key));
        continue;
      }
      if (answer.kind === "gone") continue;
      this.#counts.hoursClosed += answer.hours;
      if (answer.kind === "open") openHour = Math.min(openHour ?? answer.openHour, answer.openHour);
      if (answer.shardCount < 2) continue;
      const known = split.get(key.bucket.id) ?? { bucket: key.bucket, isIdle: true };
      // An hour that ended just now may have been a busy one.
      known.isIdle &&= answer.kind === "closed" && (afterHours > 0 || answer.hours === 0);
      split.set(key.bucket.id, known);
    }
    for (const { bucket, isIdle } of split.values()) {
      const mayJoin = isIdle && !damaged.has(bucket.id);
      for (let join = 0; mayJoin && join < JOINS_MAX && (await this.#joined(hours, bucket)); join++) {
        this.#counts.shardsJoined += 1;
      }
    }
    this.#position = { ...this.#position, key: shardText(shards.at(-1)!), openHour, hasFailed };
  }

  /** Another shard of the bucket may be damaged: that is told when its turn comes. */
  async #joined(hours: HourCloser, bucket: ItemKey["bucket"]): Promise<boolean> {
    try {
      return await hours.joinIdle(bucket, this.#parts.clock.now());
    } catch (error) {
      if (error instanceof ItemUnreadable) return false;
      throw error;
    }
  }

  /** All buckets of a namespace were gone through. */
  async #closed(namespaceId: string, resources: UsedResources): Promise<void> {
    const { records, copySnapshots, clock } = this.#parts;
    const { startedAtMs, afterHours, openHour, hasFailed } = this.#position;
    if (hasFailed) return;
    const overMs = hourOf(startedAtMs) - afterHours * HOUR_MS;
    const untilMs = Math.min(overMs, openHour === undefined ? overMs : openHour * HOUR_MS);
    await resources.complete(clock.now(), () => this.#isOver());
    await putClosedUntil(records, namespaceId, untilMs);
    await copySnapshots?.(namespaceId, untilMs);
  }

  /** Up to where every namespace is closed; one that never was counts from when it was made. */
  async #closedUntil(): Promise<number | undefined> {
    const { namespaces, scope, records, metrics, clock } = this.#parts;
    let earliestMs: number | undefined;
    let isKnown = true;
    for await (const { id, status, createdAtMs } of namespaces()) {
      if (status !== "active" || scope(id).hours === undefined) continue;
      const untilMs = await readClosedUntil(records, id);
      isKnown &&= untilMs !== undefined;
      earliestMs = Math.min(earliestMs ?? Number.POSITIVE_INFINITY, untilMs ?? createdAtMs);
    }
    if (earliestMs === undefined) return undefined;
    metrics.measure("ClosedUntilAgeHours", Math.max(0, (clock.now() - earliestMs) / HOUR_MS));
    return isKnown ? earliestMs : undefined;
  }

  /** One namespace's trouble does not keep the others from being swept. */
  async #counted(what: "purgesFinished" | "deletionsFinished", work: () => Promise<number>): Promise<void> {
    try {
      const done = await work();
      this.#counts[what] += done;
    } catch (error) {
      this.#counts.failures += 1;
      this.#parts.log.warn("an interrupted operation could not be finished", { what, ...faultFields(error) });
    }
  }

  #isOver(): boolean {
    const { clock, untilMs, stopping } = this.#parts;
    return stopping.aborted || clock.now() >= untilMs;
  }

  #beginning(): SweepPosition {
    const { clock, afterHours } = this.#parts;
    const none = { namespaceId: undefined, key: undefined, openHour: undefined, hasFailed: false };
    return { startedAtMs: clock.now(), afterHours, ...none };
  }

  /** What holds for a whole pass. */
  #pinned(): Pick<SweepPosition, "startedAtMs" | "afterHours"> {
    const { startedAtMs, afterHours } = this.#position;
    return { startedAtMs, afterHours };
  }
}

function shardFields({ bucket, shard }: ItemKey) {
  return { entity: bucket.entityId, resource: bucket.resource, shard };
}

/** The sort key of a bucket's shard in the index of its namespace. */
function shardText({ bucket, shard }: ItemKey): string {
  return `BUCKET#${bucket.entityId}#${bucket.resource}#${shard}`;
}
