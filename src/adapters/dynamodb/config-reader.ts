import type { BucketKey } from "../../domain/bucket-key.ts";
import { type LevelConfig, scopesOf } from "../../domain/config.ts";
import { resolveChanges } from "../../domain/config-versions.ts";
import type { Item } from "../../ports/item-store.ts";
import type { Clock } from "../../ports/system.ts";
import type { ConfigReadings } from "../../protocol/config-readings.ts";
import type { DynamoAudit } from "./audit.ts";
import { type Attributes, decodeItem } from "./codec.ts";
import { decodeConfig, historyIn } from "./config-codec.ts";
import { entityOf, isBeingDeleted } from "./entities-record.ts";
import type { NamespaceWatch } from "./namespaces-record.ts";
import type { Records } from "./records.ts";
import { configKey, entityKey, itemTableKey, namespaceIdKey } from "./schema.ts";
import type { UsageKept } from "./usage-kept.ts";

interface ReaderParts {
  readonly records: Records;
  /** Bounded by the time of a request, for the reads that a request waits for. */
  readonly urgent: Records;
  readonly watch: NamespaceWatch;
  readonly audit: DynamoAudit;
  readonly kept: UsageKept;
  readonly readings: ConfigReadings;
  readonly recent: RecentChange;
  readonly clock: Clock;
  /** The original writes to this table too. */
  readonly shared: boolean;
}

/** Takes in the item of a bucket that was read together with its configuration. */
export type OnFirstRead = (item: Item | undefined, atMs: number) => void;

/** Reads what is configured for a bucket, in one call for all levels. */
export class ConfigReader {
  readonly #namespaceId: string;
  readonly #parts: ReaderParts;

  constructor(namespaceId: string, parts: ReaderParts) {
    this.#namespaceId = namespaceId;
    this.#parts = parts;
  }

  /** For a request: eventually consistent, unless the bucket or this process knows of a change that such a read may miss. */
  resolve(bucket: BucketKey, { consistent: isAsked, onFirstRead }: ResolveOptions): Promise<LevelConfig> {
    const { readings, recent, urgent } = this.#parts;
    const consistent = isAsked || readings.mustBeConsistent(bucket.id) || recent.isFresh;
    return this.#resolve(bucket, urgent, { consistent, onFirstRead });
  }

  /** Strongly consistent: every change that was answered before this call is in it. */
  resolveNow(bucket: BucketKey): Promise<LevelConfig> {
    return this.#resolve(bucket, this.#parts.records, { consistent: true, onFirstRead: undefined });
  }

  async #resolve(bucket: BucketKey, records: Records, options: ResolveOptions): Promise<LevelConfig> {
    const { readings, watch, audit, kept, clock } = this.#parts;
    const { consistent, onFirstRead } = options;
    const { entityId, resource } = bucket;
    const namespaceId = this.#namespaceId;
    const reading = readings.begin();
    const atMs = clock.now();
    const scopes = scopesOf(entityId, resource);
    const isWatched = consistent || !watch.wasActive(namespaceId);
    const found = await records.getAll(
      [
        ...scopes.map((scope) => configKey(namespaceId, scope)),
        entityKey(namespaceId, entityId),
        ...(isWatched ? [namespaceIdKey(namespaceId)] : []),
        ...(onFirstRead === undefined ? [] : [itemTableKey(namespaceId, { bucket, shard: 0 })]),
      ],
      { consistent },
    );
    const meta = found[scopes.length];
    if (isWatched) watch.requireActive(namespaceId, found[scopes.length + 1]);
    onFirstRead?.(decoded(found[scopes.length + (isWatched ? 2 : 1)]), atMs);
    for (const one of [audit, kept]) one.learn(found[scopes.length - 1]);
    const stored = scopes.map((scope, i) =>
      "entityId" in scope && isBeingDeleted(meta) ? undefined : decodeConfig(found[i]),
    );
    const histories = scopes.map((scope, i) =>
      this.#parts.shared || ("entityId" in scope && isBeingDeleted(meta)) ? undefined : historyIn(found[i]),
    );
    const resolved = { ...resolveChanges(stored, histories, scopes, entityOf(meta)), reading };
    return consistent ? { ...resolved, isConsistent: true } : resolved;
  }
}

/**
 * When this process last changed configuration. A read that begins soon after must be strongly consistent, or it might miss
 * the process's own change.
 */
export class RecentChange {
  readonly #clock: Clock;
  #changedAtMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Configuration is changed now. */
  note(): void {
    this.#changedAtMs = this.#clock.now();
  }

  /** Whether an eventually consistent read that begins now might miss the change. */
  get isFresh(): boolean {
    const ageMs = this.#clock.now() - this.#changedAtMs;
    return ageMs >= 0 && ageMs < FRESH_MS;
  }
}

interface ResolveOptions {
  readonly consistent: boolean;
  readonly onFirstRead: OnFirstRead | undefined;
}

/** Longer than a replica of the table lags behind. */
const FRESH_MS = 5_000;

function decoded(item: Attributes | undefined): Item | undefined {
  return item === undefined ? undefined : decodeItem(item);
}
