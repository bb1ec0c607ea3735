import { inChunks } from "../adapters/dynamodb/paging.ts";
import { namespaceIndex, type Records } from "../adapters/dynamodb/records.ts";
import { keyIn } from "../adapters/dynamodb/records-write.ts";
import { DELETING_PREFIX, entityPk, parseItemKey } from "../adapters/dynamodb/schema.ts";
import { putClosedUntil, readClosedUntil, UsedResources } from "../adapters/dynamodb/usage-resources.ts";
import { ItemUnreadable } from "../domain/bucket/item-unreadable.ts";
import { HOUR_MS, hourOf } from "../domain/charge/usage.ts";
import type { Namespace } from "../domain/config/namespace.ts";
import { given } from "../domain/names/given.ts";
import type { ItemKey } from "../ports/item-store.ts";
import type { Clock } from "../ports/system.ts";
import type { HourCloser, ShardClosed } from "../protocol/usage/close-hours.ts";
import { faultFields, type Log } from "./log.ts";
import type { Metrics } from "./metrics.ts";
import type { SweepLedger, SweepPosition } from "./sweep-ledger.ts";

/** The operations of the sweep on one namespace. */
export interface SweepScope {
  /** Undefined: the original keeps its usage. */
  readonly hours: HourCloser | undefined;
  /** Finishes the deletion, if one is under way. */
  finishDeletion(entityId: string): Promise<void>;
}

export interface SweepParts {
  readonly records: Records;
  readonly ledger: SweepLedger;
  /** All namespaces, including deleted ones, ordered by id. */
  readonly namespaces: () => AsyncIterable<Namespace>;
  readonly scope: (namespaceId: string) => SweepScope;
  /** Finishes the interrupted purge of a namespace. */
  readonly finishPurge: (namespace: Namespace) => Promise<void>;
  /** Copies closed hours for the original's readers; undefined: no copies. */
  readonly copySnapshots: ((namespaceId: string, closedUntilMs: number) => Promise<void>) | undefined;
  /** An hour is closed this many hours after its end. */
  readonly afterHours: number;
  /** Begins a new pass, whatever another sweep is doing. */
  readonly anew: boolean;
  /** The sweep stops at this time; the next one continues. */
  readonly untilMs: number;
  readonly stopping: AbortSignal;
  readonly metrics: Metrics;
  readonly log: Log;
  readonly clock: Clock;
}

/** Finishes interrupted deletions of entities; returns their number. */
async function finishDeletions(namespaceId: string, { records, scope, log }: SweepParts): Promise<number> {
  const marked = records.query(namespaceIndex(namespaceId, { prefix: DELETING_PREFIX }));
  let count = 0;
  for await (const item of marked) {
    const entityId = keyIn(item).pk.slice(entityPk(namespaceId, "").length);
    // It removes only what is still marked.
    await scope(namespaceId).finishDeletion(entityId);
    log.debug("deletion finished", { namespace: namespaceId, entity: entityId });
    count += 1;
  }
  return count;
}

async function finishPurge(namespace: Namespace, { finishPurge: finish, log }: SweepParts): Promise<number> {
  await finish(namespace);
  log.info("purge finished", { namespace: namespace.id });
  return 1;
}

/** The result of a sweep. */
export interface SweepReport {
  /** True where it covered every namespace. If not, the next sweep continues where this one stopped. */
  readonly complete: boolean;
  /** Shards of buckets that it looked at. */
  readonly bucketsSwept: number;
  /** Hours of usage that it closed. */
  readonly hoursClosed: number;
  /** The number of times it halved the shards of an idle bucket. */
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

/** One pass over all namespaces, as far as the time allows. */
export function sweepAll(parts: SweepParts): Promise<SweepReport> {
  return new Sweep(parts).run();
}

/** Buckets that are closed together. */
const CHUNK = 100;
/** Each call halves the number of shards, of which there are at most 32. */
const JOINS_MAX = 5;

class Sweep {
  readonly #parts: SweepParts;
  readonly #counts = {
    bucketsSwept: 0,
    hoursClosed: 0,
    shardsJoined: 0,
    deletionsFinished: 0,
    purgesFinished: 0,
    failures: 0,
    shardsUnreadable: 0,
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
      // Release the lease, so that the next sweep need not wait.
      await ledger.release().catch(() => {});
      // The age of the last closed hour matters most for alarms when no sweep finishes.
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
    const report = given({ complete, ...this.#counts, closedUntilMs });
    log.info("swept", report);
    return report;
  }

  async #pass(): Promise<boolean> {
    const { namespaces, log } = this.#parts;
    for await (const namespace of namespaces()) {
      const { namespaceId, startedAtMs, afterHours } = this.#position;
      // Namespaces are ordered by id; earlier ones are done.
      if (namespaceId !== undefined && namespace.id < namespaceId) continue;
      if (namespaceId !== namespace.id) {
        this.#position = { ...this.#beginning(), startedAtMs, afterHours, namespaceId: namespace.id };
      }
      if (this.#isOver() || !(await this.#namespace(namespace))) return false;
      log.debug("namespace swept", { namespace: namespace.id });
    }
    return true;
  }

  /** False: no time is left, or another process has taken over. */
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
    const range = { from: after, to: "BUCKET$" };
    const keys = this.#parts.records.query(namespaceIndex(namespaceId, range));
    for await (const item of keys) {
      const parsed = parseItemKey(keyIn(item));
      if (parsed === undefined || parsed.key.operation !== undefined) continue;
      const { bucket, shard } = parsed.key;
      if (shardText({ bucket, shard }) !== after) yield { bucket, shard };
    }
  }

  async #close(namespaceId: string, shards: readonly ItemKey[]): Promise<void> {
    const { scope, clock } = this.#parts;
    const { hours } = scope(namespaceId);
    if (hours === undefined) return;
    const { afterHours } = this.#position;
    const answers = await hours.close(shards, { nowMs: clock.now(), afterHours });
    let { openHour, hasFailed } = this.#position;
    // Buckets with several shards, and whether their shards among these have all been idle.
    const split = new Map<string, { readonly bucket: ItemKey["bucket"]; isIdle: boolean }>();
    const damaged = new Set<string>();
    for (const [i, answer] of answers.entries()) {
      const key = shards[i]!;
      this.#counts.bucketsSwept += 1;
      if (answer.kind === "unreadable" || answer.kind === "failed") {
        // Its counts are on no sheet, so the namespace is not closed beyond it.
        hasFailed = true;
        if (answer.kind === "unreadable") damaged.add(key.bucket.id);
        this.#noteFailed(namespaceId, key, answer);
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

  #noteFailed(
    namespace: string,
    { bucket, shard }: ItemKey,
    answer: Extract<ShardClosed, { kind: "unreadable" | "failed" }>,
  ): void {
    const { log } = this.#parts;
    const fault = { namespace, ...faultFields(answer.cause) };
    this.#counts.failures += 1;
    if (answer.kind === "unreadable") {
      this.#counts.shardsUnreadable += 1;
      log.error("a bucket is damaged", { ...fault, shard, attribute: answer.cause.attribute });
    } else log.warn("a bucket could not be closed", fault);
    log.debug("bucket", { entity: bucket.entityId, resource: bucket.resource, shard });
  }

  /** Another shard of the bucket may be damaged; it is reported when it is closed. */
  async #joined(hours: HourCloser, bucket: ItemKey["bucket"]): Promise<boolean> {
    try {
      return await hours.joinIdle(bucket, this.#parts.clock.now());
    } catch (error) {
      if (error instanceof ItemUnreadable) return false;
      throw error;
    }
  }

  /** Ends the pass over the buckets of a namespace. */
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

  /** The instant up to which every namespace is closed; one that never was counts from its creation. */
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

  /** A failure in one namespace does not stop the sweep of the others. */
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
}

/** The sort key of a bucket's shard in the index of its namespace. */
function shardText({ bucket, shard }: ItemKey): string {
  return `BUCKET#${bucket.entityId}#${bucket.resource}#${shard}`;
}
