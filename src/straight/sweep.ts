import { type BucketKey, bucketKey } from "../domain/bucket/bucket-key.ts";
import type { BucketState } from "../domain/bucket/bucket-state.ts";
import { ItemUnreadable } from "../domain/bucket/item-unreadable.ts";
import type { Calendar } from "../domain/limits/schedule.ts";
import { NotFoundError, VersionError } from "../domain/names/errors.ts";
import type { BatchStore, IdleBucket, LookedAtBucket } from "../ports/batch-store.ts";
import type { ConfigStore } from "../ports/config-store.ts";
import { usageOfEndedHolds } from "../stored/bucket-record.ts";
import { IDLE_MS, limitsIn, mayForget, type RuleContext } from "../stored/bucket-rules.ts";
import { recordOfRow } from "./row-codec.ts";

/** One step looks at this many buckets. */
export const STEP_BUCKETS = 50;

/** The stored limits of buckets, and the generation that they are of. */
type SweptConfig = Pick<ConfigStore, "generation" | "askGeneration" | "resolve">;

/** Drops buckets that have been full for an hour: the next one of the same name begins as they would go on. */
export class BucketSweep {
  readonly #store: BatchStore;
  readonly #calendar: Calendar;
  readonly #countsUsage: boolean;
  readonly #configOf: (namespaceId: string) => SweptConfig;
  /** The place where the next step begins, by namespace. */
  readonly #places = new Map<string, BucketKey>();

  constructor(
    store: BatchStore,
    calendar: Calendar,
    countsUsage: boolean,
    configOf: (namespaceId: string) => SweptConfig,
  ) {
    this.#store = store;
    this.#calendar = calendar;
    this.#countsUsage = countsUsage;
    this.#configOf = configOf;
  }

  /**
   * Looks at some, from where the last step ended; answers how many went. The first step begins at `first`: processes that live
   * shortly would otherwise all look at the same beginning.
   */
  async step(namespaceId: string, first: BucketKey, nowMs: number): Promise<number> {
    const found = await this.#some(namespaceId, this.#places.get(namespaceId) ?? first, nowMs);
    this.#places.set(namespaceId, after(found) ?? BEGINNING);
    return this.#forget(namespaceId, found, nowMs);
  }

  /** Looks at all of them. */
  async toEnd(namespaceId: string, nowMs: number): Promise<number> {
    let forgotten = 0;
    for (let from: BucketKey | undefined = BEGINNING; from !== undefined; ) {
      const found: readonly LookedAtBucket[] = await this.#some(namespaceId, from, nowMs);
      const went = await this.#forget(namespaceId, found, nowMs);
      forgotten += went;
      from = after(found);
    }
    return forgotten;
  }

  #some(namespaceId: string, from: BucketKey, nowMs: number): Promise<readonly LookedAtBucket[]> {
    return this.#store.some(namespaceId, from, { limitMax: STEP_BUCKETS, epochBeforeMs: nowMs - IDLE_MS });
  }

  async #forget(namespaceId: string, found: readonly LookedAtBucket[], nowMs: number): Promise<number> {
    const full = found.flatMap((bucket) => this.#ifFull(bucket, nowMs) ?? []);
    if (full.length === 0) return 0;
    const config = this.#configOf(namespaceId);
    await config.askGeneration?.();
    const left = await Promise.all(full.map((one) => this.#ifIdle(one, config, nowMs)));
    const idle = left.flatMap((one) => one ?? []);
    return idle.length === 0 ? 0 : this.#store.forget(namespaceId, idle);
  }

  /** The bucket, where it has been full by the limits that it went by last. */
  #ifFull({ key, row }: LookedAtBucket, nowMs: number): FullBucket | undefined {
    if (row === undefined) return undefined;
    try {
      const { state } = recordOfRow(row, key, this.#calendar);
      const isFull = mayForget(state, key, this.#contextAt(nowMs, 0, undefined));
      return isFull ? { key, state, version: row.version } : undefined;
    } catch (error) {
      // A take from this bucket reports the damage.
      if (error instanceof ItemUnreadable) return undefined;
      throw error;
    }
  }

  /** The bucket, where it has been full also by the limits that were changed since, or ended by themselves. */
  async #ifIdle(
    { key, state, version }: FullBucket,
    config: SweptConfig,
    nowMs: number,
  ): Promise<IdleBucket | undefined> {
    const idle = { key, version, left: this.#countsUsage ? usageOfEndedHolds(state, nowMs) : [] };
    const { generation } = state.origin;
    const isMet = generation === config.generation() && nowMs < state.validUntilMs;
    if (generation === null || isMet) return idle;
    try {
      const level = await config.resolve(key.entityId, key.resource);
      const now = level.generation ?? 0;
      const stored = limitsIn(level, key.resource, now, nowMs);
      return mayForget(state, key, this.#contextAt(nowMs, now, { of: () => stored })) ? idle : undefined;
    } catch (error) {
      // The namespace is deleted, and may be recovered; or its configuration is damaged, which a take reports.
      if (error instanceof NotFoundError || error instanceof VersionError) return undefined;
      throw error;
    }
  }

  #contextAt(nowMs: number, generation: number, current: RuleContext["current"]): RuleContext {
    return { nowMs, calendar: this.#calendar, generation, current, countsUsage: this.#countsUsage };
  }
}

/** A bucket that is full by its own limits. */
interface FullBucket extends Pick<IdleBucket, "key" | "version"> {
  readonly state: BucketState;
}

export const BEGINNING = bucketKey("", "");

/** The next possible key after these; undefined: they are the last. */
function after(found: readonly LookedAtBucket[]): BucketKey | undefined {
  const last = found.at(-1)?.key;
  if (last === undefined || found.length < STEP_BUCKETS) return undefined;
  return bucketKey(last.entityId, `${last.resource}\u0001`);
}
