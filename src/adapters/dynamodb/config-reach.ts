import type { BucketKey } from "../../domain/bucket-key.ts";
import type { ConfigScope, LevelConfig } from "../../domain/config.ts";
import { RateLimiterUnavailable } from "../../domain/errors.ts";
import { limitSet } from "../../domain/limit-set.ts";
import type { Clock } from "../../ports/system.ts";
import type { ProtocolBuckets } from "../../protocol/buckets.ts";
import { stampOwner } from "./entities-owner.ts";
import { chunksOf, type Records } from "./records.ts";
import { RETRY } from "./retry-policy.ts";
import type { LiveBuckets } from "./store-buckets.ts";

export interface ReachParts {
  readonly records: Records;
  readonly live: LiveBuckets;
  readonly buckets: ProtocolBuckets;
  readonly clock: Clock;
  /** The original writes the same buckets: nobody may be relied on to hear of a change. */
  readonly shared: boolean;
  /** What counts on a bucket now, read with all that was answered before. */
  resolve(bucket: BucketKey): Promise<LevelConfig>;
}

/** Carries a change of configuration, once it is stored, to the live buckets that it concerns. */
export class ConfigReach {
  readonly #namespaceId: string;
  readonly #parts: ReachParts;
  #changedAtMs = Number.NEGATIVE_INFINITY;

  constructor(namespaceId: string, parts: ReachParts) {
    this.#namespaceId = namespaceId;
    this.#parts = parts;
  }

  /** Configuration changes here and now: what is read next must not be older. */
  expire(): void {
    this.#changedAtMs = this.#parts.clock.now();
  }

  /** Whether a reading that begins now might otherwise miss a change of this very process. */
  get isFresh(): boolean {
    const ageMs = this.#parts.clock.now() - this.#changedAtMs;
    return ageMs >= 0 && ageMs < FRESH_MS;
  }

  /** Who is let through is stamped on every bucket, so that it counts from the next request on. */
  async accessChanged(scope: ConfigScope): Promise<void> {
    await this.#tell(scope, async (bucket, readingMs) => {
      const { access } = await this.#parts.resolve(bucket);
      await this.#parts.buckets.stampAccess(bucket, access, readingMs);
    });
  }

  /** Limits of an entity are brought to its buckets, or announced there. Those of many are noticed when they are read. */
  async limitsChanged(scope: ConfigScope): Promise<void> {
    if (scope.level === "resource" || scope.level === "system") return;
    await this.#tell(scope, (bucket, readingMs) => this.#renew(bucket, readingMs));
  }

  /** Parent or cascading of an entity changed. */
  async ownerChanged(entityId: string): Promise<void> {
    const { shared, buckets, records, live } = this.#parts;
    if (shared) {
      this.expire();
      await stampOwner(this.#namespaceId, entityId, {
        records,
        live,
        resolve: (bucket) => this.#parts.resolve(bucket),
      });
      return;
    }
    await this.#tell({ level: "entityDefault", entityId }, async (bucket, readingMs) => {
      await buckets.announce(bucket, readingMs);
    });
  }

  /** Whether parents are charged changed, by configuration. */
  async cascadeChanged(scope: ConfigScope): Promise<void> {
    if ("entityId" in scope) await this.ownerChanged(scope.entityId);
  }

  async #renew(bucket: BucketKey, readingMs: number): Promise<void> {
    const { shared, buckets, clock } = this.#parts;
    if (!shared) {
      await buckets.announce(bucket, readingMs);
      return;
    }
    // What the original changes in between is not undone: configuration is read again, after what the bucket says now.
    for (let attempt = 0; attempt < RETRY.bringsMax; attempt++) {
      const asOfMs = clock.now();
      const { limits, reading } = await this.#parts.resolve(bucket);
      if (limits.length === 0) return;
      const origin = { asOfMs, generation: null, ...(reading === undefined ? {} : { reading }) };
      if (await buckets.bringTo(bucket, { set: limitSet(limits), origin }, clock.now())) return;
    }
    throw new RateLimiterUnavailable(
      `The bucket of ${bucket.entityId} on ${bucket.resource} was changed all the time.`,
    );
  }

  // The second time finds what the index did not know yet.
  async #tell(scope: ConfigScope, tell: (bucket: BucketKey, readingMs: number) => Promise<void>): Promise<void> {
    const { live, clock } = this.#parts;
    this.expire();
    const told = new Set<string>();
    try {
      for (let pass = 0; pass < RETRY.indexPasses; pass++) {
        const found = (await live.under(scope)).filter(({ id }) => !told.has(id));
        for (const some of chunksOf(found, AT_ONCE)) {
          await Promise.all(some.map((bucket) => tell(bucket, clock.now())));
          for (const { id } of some) told.add(id);
        }
      }
    } catch (cause) {
      if (!(cause instanceof RateLimiterUnavailable)) throw cause;
      throw new RateLimiterUnavailable(
        "The change is stored, but not every live bucket could be told of it: those follow when configuration is read " +
          "again. Make the same change once more to tell them now.",
        { cause },
      );
    }
  }
}

const AT_ONCE = 8;
/** Longer than a copy of the table lags behind. */
const FRESH_MS = 5_000;
