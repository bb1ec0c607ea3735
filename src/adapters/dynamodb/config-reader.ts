import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { type ConfigScope, isTotal, type LevelConfig, scopesOf } from "../../domain/config/config.ts";
import { formerPlans, resolveLevel, type StoredLevel } from "../../domain/config/config-versions.ts";
import { BoundedMap } from "../../domain/names/bounded-map.ts";
import type { Item } from "../../ports/item-store.ts";
import type { Clock } from "../../ports/system.ts";
import type { ConfigReadings } from "../../protocol/config/config-readings.ts";
import type { DynamoAudit } from "./audit.ts";
import { type Attributes, decodeItem } from "./codec.ts";
import { decodeConfig, historyIn } from "./config-codec.ts";
import { entityOf, isBeingDeleted, stintsIn } from "./entities-record.ts";
import type { NamespaceWatch } from "./namespaces-record.ts";
import type { Records } from "./records.ts";
import type { Retention } from "./retention.ts";
import { configKey, entityKey, itemTableKey, namespaceIdKey } from "./schema.ts";

interface ReaderParts {
  readonly namespaceId: string;
  readonly records: Records;
  /** Bounded by the time of a request; requests wait for these reads. */
  readonly urgent: Records;
  readonly watch: NamespaceWatch;
  readonly audit: DynamoAudit;
  readonly kept: Retention;
  readonly readings: ConfigReadings;
  readonly recent: RecentChange;
  readonly clock: Clock;
  /** The original writes to this table too: it has no plans, totals or versions of limits. */
  readonly shared: boolean;
}

/** Receives the item of a bucket that was read together with its configuration. */
type OnFirstRead = (item: Item | undefined, atMs: number) => void;

/**
 * Reads the configuration of a bucket, in one call for all levels. The plan of an entity is in the entity: a process
 * that has not seen it before reads the plan's limits in a second call, and from then on together with the rest.
 */
export class ConfigReader {
  readonly #parts: ReaderParts;
  /** The plans of an entity when it was last read: its current one, and former ones whose limits may still count. */
  readonly #plans = new BoundedMap<readonly string[]>(PLANS_REMEMBERED / 2);

  constructor(parts: ReaderParts) {
    this.#parts = parts;
  }

  /**
   * Reads for a request: eventually consistent, unless the bucket or this process knows of a change that such a read
   * may miss.
   */
  resolve(bucket: BucketKey, { consistent: isAsked, onFirstRead }: ResolveOptions): Promise<LevelConfig> {
    const { readings, recent, urgent } = this.#parts;
    const consistent = isAsked || readings.mustBeConsistent(bucket.id) || recent.isFresh;
    return this.#resolve(bucket, urgent, { consistent, onFirstRead });
  }

  /** Strongly consistent: includes every change that was confirmed before this call. */
  resolveNow(bucket: BucketKey): Promise<LevelConfig> {
    return this.#resolve(bucket, this.#parts.records, { consistent: true, onFirstRead: undefined });
  }

  history(bucket: BucketKey): Promise<StoredLevel> {
    return this.#stored(bucket, this.#parts.records, { consistent: true, onFirstRead: undefined });
  }

  async #resolve(bucket: BucketKey, records: Records, options: ResolveOptions): Promise<LevelConfig> {
    const reading = this.#parts.readings.begin();
    const stored = await this.#stored(bucket, records, options);
    const resolved = { ...resolveLevel(bucket, stored.entity, stored.stints, stored), reading };
    return options.consistent ? { ...resolved, isConsistent: true } : resolved;
  }

  async #stored(bucket: BucketKey, records: Records, options: ResolveOptions): Promise<StoredLevel> {
    const { namespaceId, watch, audit, kept, clock } = this.#parts;
    const { consistent, onFirstRead } = options;
    const { entityId, resource } = bucket;
    const atMs = clock.now();
    const likelyPlans = this.#plans.get(entityId) ?? NO_PLANS;
    const likely = this.#scopesOf([
      ...scopesOf(entityId, resource, undefined),
      ...likelyPlans.flatMap((planId) => planScopes(planId, resource)),
    ]);
    const isWatched = consistent || !watch.wasActive(namespaceId);
    const read = await records.readAll(
      [
        ...likely.map((scope) => configKey(namespaceId, scope)),
        entityKey(namespaceId, entityId),
        ...(isWatched ? [namespaceIdKey(namespaceId)] : []),
        ...(onFirstRead === undefined ? [] : [itemTableKey(namespaceId, { bucket, shard: 0 })]),
      ],
      { consistent },
    );
    const meta = read[likely.length];
    if (isWatched) watch.requireActive(namespaceId, read[likely.length + 1]);
    onFirstRead?.(decoded(read[likely.length + (isWatched ? 2 : 1)]), atMs);
    const items = new Map(likely.map((scope, i) => [textOf(scope), read[i]]));
    for (const retention of [audit.retention, kept]) retention.learn(items.get(textOf({ level: "system" })));
    const entity = entityOf(meta);
    const planId = entity?.planId;
    const stints = entity === undefined ? undefined : stintsIn(meta);
    const plans = [...new Set([...(planId === undefined ? [] : [planId]), ...formerPlans(stints)])];
    const unread = plans.filter((id) => !likelyPlans.includes(id)).flatMap((id) => planScopes(id, resource));
    if (unread.length > 0) {
      const keys = unread.map((scope) => configKey(namespaceId, scope));
      const more = await records.readAll(keys, { consistent });
      for (const [i, scope] of unread.entries()) items.set(textOf(scope), more[i]);
    }
    if (plans.length === 0) this.#plans.delete(entityId);
    else this.#plans.set(entityId, plans);
    const itemOf = (scope: ConfigScope) =>
      "entityId" in scope && isBeingDeleted(meta) ? undefined : items.get(textOf(scope));
    return {
      ...{ entity, stints },
      configOf: (scope) => decodeConfig(itemOf(scope)),
      historyOf: (scope) => (this.#parts.shared ? undefined : historyIn(itemOf(scope))),
    };
  }

  /** The scopes that the table may have. */
  #scopesOf(scopes: readonly ConfigScope[]): readonly ConfigScope[] {
    return this.#parts.shared ? scopes.filter((scope) => !isTotal(scope)) : scopes;
  }
}

/**
 * The time of this process's last change of configuration. A read soon after it must be strongly consistent, or it
 * might miss that change.
 */
export class RecentChange {
  readonly #clock: Clock;
  #changedAtMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  note(): void {
    this.#changedAtMs = this.#clock.now();
  }

  /** True if an eventually consistent read that begins now may miss the change. */
  get isFresh(): boolean {
    const ageMs = this.#clock.now() - this.#changedAtMs;
    return ageMs >= 0 && ageMs < FRESH_MS;
  }
}

interface ResolveOptions {
  readonly consistent: boolean;
  readonly onFirstRead: OnFirstRead | undefined;
}

const PLANS_REMEMBERED = 20_000;
const NO_PLANS: readonly string[] = Object.freeze([]);

function planScopes(planId: string, resource: string): readonly ConfigScope[] {
  return scopesOf("", resource, planId).filter((scope) => "planId" in scope);
}

function textOf(scope: ConfigScope): string {
  return "planId" in scope ? `${scope.level} ${scope.planId}` : scope.level;
}

/** Longer than the lag of a replica. */
const FRESH_MS = 5_000;

function decoded(item: Attributes | undefined): Item | undefined {
  return item === undefined ? undefined : decodeItem(item);
}
