import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import { type ConfigScope, isTotal, type LevelConfig, scopesOf } from "../../domain/config/config.ts";
import { resolveChanges, saidOver } from "../../domain/config/config-versions.ts";
import { formerPlans } from "../../domain/config/plan-stints.ts";
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
  /** The original writes to this table too: there are neither plans nor totals, and no history of limits. */
  readonly shared: boolean;
}

/** Takes in the item of a bucket that was read together with its configuration. */
export type OnFirstRead = (item: Item | undefined, atMs: number) => void;

/**
 * Reads what is configured for a bucket, in one call for all levels. Which plan an entity has stands in the entity: a process
 * that has not seen it before reads the plan's limits in a second call, and from then on together with the rest.
 */
export class ConfigReader {
  readonly #namespaceId: string;
  readonly #parts: ReaderParts;
  /** The plans that an entity had when it was last read: that of now, and those whose limits may count for the time before. */
  readonly #plans = new BoundedMap<readonly string[]>(PLANS_REMEMBERED / 2);

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
    const likelyPlans = this.#plans.get(entityId) ?? NO_PLANS;
    const likely = this.#stored([
      ...scopesOf(entityId, resource, undefined),
      ...likelyPlans.flatMap((planId) => planScopes(planId, resource)),
    ]);
    const isWatched = consistent || !watch.wasActive(namespaceId);
    const read = await records.getAll(
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
    for (const one of [audit, kept]) one.learn(items.get(textOf({ level: "system" })));
    const entity = entityOf(meta);
    const planId = entity?.planId;
    const stints = entity === undefined ? undefined : stintsIn(meta);
    const plans = [...new Set([...(planId === undefined ? [] : [planId]), ...formerPlans(stints)])];
    const unread = plans.filter((id) => !likelyPlans.includes(id)).flatMap((id) => planScopes(id, resource));
    if (unread.length > 0) {
      const keys = unread.map((scope) => configKey(namespaceId, scope));
      const more = await records.getAll(keys, { consistent });
      for (const [i, scope] of unread.entries()) items.set(textOf(scope), more[i]);
    }
    if (plans.length === 0) this.#plans.delete(entityId);
    else this.#plans.set(entityId, plans);
    const scopesWith = (id: string | undefined) => scopesOf(entityId, resource, id);
    const scopes = scopesWith(planId);
    const itemOf = (scope: ConfigScope) =>
      "entityId" in scope && isBeingDeleted(meta) ? undefined : items.get(textOf(scope));
    const stored = scopes.map((scope) => decodeConfig(itemOf(scope)));
    const historyOf = (scope: ConfigScope) => (this.#parts.shared ? undefined : historyIn(itemOf(scope)));
    const saidBy = (scope: ConfigScope) => saidOver(historyOf(scope), decodeConfig(itemOf(scope)));
    const past = stints === undefined ? undefined : { stints, scopesWith, historyOf: saidBy };
    const resolved = { ...resolveChanges(stored, scopes.map(historyOf), scopes, entity, past), reading };
    return consistent ? { ...resolved, isConsistent: true } : resolved;
  }

  /** Those that may be in the table. */
  #stored(scopes: readonly ConfigScope[]): readonly ConfigScope[] {
    return this.#parts.shared ? scopes.filter((scope) => !isTotal(scope)) : scopes;
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

const PLANS_REMEMBERED = 20_000;
const NO_PLANS: readonly string[] = Object.freeze([]);

function planScopes(planId: string, resource: string): readonly ConfigScope[] {
  return scopesOf("", resource, planId).filter((scope) => "planId" in scope);
}

function textOf(scope: ConfigScope): string {
  return "planId" in scope ? `${scope.level} ${scope.planId}` : scope.level;
}

/** Longer than a replica of the table lags behind. */
const FRESH_MS = 5_000;

function decoded(item: Attributes | undefined): Item | undefined {
  return item === undefined ? undefined : decodeItem(item);
}
