import type { BucketKey } from "../../domain/bucket-key.ts";
import type { ConfigScope } from "../../domain/config.ts";
import { RateLimiterUnavailable } from "../../domain/errors.ts";
import { limitSet } from "../../domain/limit-set.ts";
import type { Clock } from "../../ports/system.ts";
import type { ProtocolBuckets } from "../../protocol/buckets.ts";
import type { ConfigReader, RecentChange } from "./config-reader.ts";
import { stampOwner } from "./entities-owner.ts";
import { chunksOf } from "./paging.ts";
import type { Records } from "./records.ts";
import { RETRY } from "./retry-policy.ts";
import type { LiveBuckets } from "./store-buckets.ts";

interface PropagationParts {
  readonly records: Records;
  readonly live: LiveBuckets;
  readonly buckets: ProtocolBuckets;
  readonly clock: Clock;
  /** The original writes the same buckets and does not read announcements, so changes are written to the buckets at once. */
  readonly shared: boolean;
  readonly reader: ConfigReader;
  readonly recent: RecentChange;
}

/** Carries a change of configuration, once it is stored, to the live buckets that it concerns. */
export class ConfigPropagation {
  readonly #namespaceId: string;
  readonly #parts: PropagationParts;

  constructor(namespaceId: string, parts: PropagationParts) {
    this.#namespaceId = namespaceId;
    this.#parts = parts;
  }

  /** Access (`enforce`, `bypass`, `disabled`) is written to every bucket, so that it counts from the next request on. */
  async accessChanged(scope: ConfigScope): Promise<void> {
    await this.#reach(scope, async (bucket, readingMs) => {
      const { access } = await this.#parts.reader.resolveNow(bucket);
      await this.#parts.buckets.stampAccess(bucket, access, readingMs);
    });
  }

  /** An entity's limits are written to its buckets, or announced there. Defaults of many are noticed when they are read. */
  async limitsChanged(scope: ConfigScope): Promise<void> {
    if (scope.level === "resource" || scope.level === "system") return;
    await this.#reach(scope, (bucket, readingMs) => this.#renew(bucket, readingMs));
  }

  /** An entity's parent changed, or whether the parent is charged too. */
  async ownerChanged(entityId: string): Promise<void> {
    const { shared, buckets, records, live, reader, recent } = this.#parts;
    if (shared) {
      recent.note();
      await stampOwner(this.#namespaceId, entityId, { records, live, reader });
      return;
    }
    await this.#reach({ level: "entityDefault", entityId }, async (bucket, readingMs) => {
      await buckets.announce(bucket, readingMs);
    });
  }

  /** Configuration changed whether parents are charged. */
  async cascadeChanged(scope: ConfigScope): Promise<void> {
    if ("entityId" in scope) await this.ownerChanged(scope.entityId);
  }

  async #renew(bucket: BucketKey, readingMs: number): Promise<void> {
    const { shared, buckets, clock } = this.#parts;
    if (!shared) {
      await buckets.announce(bucket, readingMs);
      return;
    }
    // Configuration is read again before each try, so that a change which the original makes in between is not undone.
    for (let attempt = 0; attempt < RETRY.installsMax; attempt++) {
      const asOfMs = clock.now();
      const { limits, reading } = await this.#parts.reader.resolveNow(bucket);
      if (limits.length === 0) return;
      const origin = { asOfMs, generation: null, ...(reading === undefined ? {} : { reading }) };
      if (await buckets.installLimits(bucket, { set: limitSet(limits), origin }, clock.now())) return;
    }
    throw new RateLimiterUnavailable(
      `The bucket of ${bucket.entityId} on ${bucket.resource} was changed by others at each of ${RETRY.installsMax} attempts.`,
    );
  }

  // Twice: the second pass finds buckets that the index did not have yet at the first.
  async #reach(scope: ConfigScope, write: (bucket: BucketKey, readingMs: number) => Promise<void>): Promise<void> {
    const { live, clock } = this.#parts;
    this.#parts.recent.note();
    const reached = new Set<string>();
    try {
      for (let pass = 0; pass < RETRY.indexPasses; pass++) {
        const found = (await live.under(scope)).filter(({ id }) => !reached.has(id));
        for (const some of chunksOf(found, AT_ONCE)) {
          await Promise.all(some.map((bucket) => write(bucket, clock.now())));
          for (const { id } of some) reached.add(id);
        }
      }
    } catch (cause) {
      if (!(cause instanceof RateLimiterUnavailable)) throw cause;
      throw new RateLimiterUnavailable(
        "The change is stored, but not every live bucket has it yet: the others follow when configuration is read again. " +
          "Make the same change once more to reach them now.",
        { cause },
      );
    }
  }
}

const AT_ONCE = 8;
