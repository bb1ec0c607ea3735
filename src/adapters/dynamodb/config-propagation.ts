import { type BucketKey, bucketKey } from "../../domain/bucket/bucket-key.ts";
import {
  type Access,
  type ConfigScope,
  type LevelConfig,
  levelAt,
  type PolicyChange,
} from "../../domain/config/config.ts";
import { LEVELS_MAX } from "../../domain/config/entity.ts";
import { limitSet } from "../../domain/limits/limit-set.ts";
import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import { Propagation } from "../../protocol/config/propagate.ts";
import { childrenOf } from "./entities-hierarchy.ts";
import { stampOwner } from "./items-owner.ts";
import type { NamespaceParts } from "./namespace-parts.ts";
import { RETRY } from "./retry-policy.ts";
import { bucketsUnder } from "./store-buckets.ts";

/** Applies a stored change of configuration to the live buckets. */
export class ConfigPropagation {
  readonly #parts: NamespaceParts;
  readonly #switches: Propagation;

  constructor(parts: NamespaceParts) {
    const { buckets, clock, shared, settle } = parts;
    this.#parts = parts;
    this.#switches = new Propagation({
      buckets,
      clock,
      settle,
      // The original does not read announcements, so changes are written to the buckets at once.
      stampsBelow: shared,
      places: {
        under: (scope) => bucketsUnder(parts, scope),
        childrenOf: (entityId) => childrenOf(parts, entityId),
      },
      accessOf: (bucket) => this.#accessOf(bucket),
    });
  }

  /** Writes access (`enforce`, `bypass`, `disabled`) to every bucket, so that it counts from the next request on. */
  async accessChanged(scope: ConfigScope, access: PolicyChange["access"]): Promise<void> {
    await this.#afterChange(() => this.#switches.accessChanged(scope, access));
  }

  /** Writes an entity's limits to its buckets, or announces them there. Changed defaults are noticed when they are read. */
  async limitsChanged(scope: ConfigScope): Promise<void> {
    if (!("entityId" in scope)) return;
    const tell = (bucket: BucketKey, readingMs: number) => this.#renew(bucket, readingMs);
    await this.#afterChange(() => this.#switches.reach([{ scope, tell }], undefined));
  }

  async planChanged(entityId: string): Promise<void> {
    await this.limitsChanged({ level: "entityDefault", entityId });
  }

  /** Called when an entity has another parent, or cascades differently. */
  async ownerChanged(entityId: string): Promise<void> {
    if (this.#parts.shared) {
      this.#parts.recent.note();
      await stampOwner(this.#parts, entityId);
      return;
    }
    await this.#afterChange(() => this.#switches.ownerChanged({ level: "entityDefault", entityId }));
  }

  async cascadeChanged(scope: ConfigScope): Promise<void> {
    if ("entityId" in scope) await this.ownerChanged(scope.entityId);
  }

  async #afterChange(carry: () => Promise<void>): Promise<void> {
    this.#parts.recent.note();
    try {
      await carry();
    } catch (cause) {
      if (!(cause instanceof RateLimiterUnavailable)) throw cause;
      throw new RateLimiterUnavailable(
        "The change is stored, but some live buckets will get it only when their configuration is read again. " +
          "Repeat the change to reach them now.",
        { cause },
      );
    }
  }

  /** The access of a bucket. On a shared table it includes the levels above, because the original reads the bucket only. */
  async #accessOf(bucket: BucketKey): Promise<Access> {
    const { reader, shared } = this.#parts;
    const own = await reader.resolveNow(bucket);
    // A mark would outlast the end: configuration alone decides then.
    if (hasAccessEnd(own, this.#parts.clock.now())) return "enforce";
    let above = shared && own.cascade ? own.parentId : undefined;
    for (let level = 1; above !== undefined && level < LEVELS_MAX; level++) {
      const { access, accessSource, cascade, parentId } = await reader.resolveNow(bucketKey(above, bucket.resource));
      // A resource that is off for all entities counts at the entity itself.
      if (access === "disabled" && accessSource !== "resource") return "disabled";
      above = cascade ? parentId : undefined;
    }
    return own.access;
  }

  async #renew(bucket: BucketKey, readingMs: number): Promise<number> {
    const { shared, buckets, clock } = this.#parts;
    if (!shared) return buckets.announce(bucket, readingMs);
    // Configuration is read again before each attempt, so that a concurrent change of the original is not undone.
    for (let attempt = 0; attempt < RETRY.installsMax; attempt++) {
      const asOfMs = clock.now();
      const { limits, reading } = await this.#parts.reader.resolveNow(bucket);
      if (limits.length === 0) return 1;
      const origin = { asOfMs, generation: null, ...given({ reading }) };
      if (await buckets.installLimits(bucket, { set: limitSet(limits), origin }, clock.now())) return 1;
    }
    throw new RateLimiterUnavailable(
      `Others changed the bucket of ${bucket.entityId} on ${bucket.resource} at each of ${RETRY.installsMax} attempts.`,
    );
  }
}

/** Whether access becomes another one by itself. */
function hasAccessEnd(level: LevelConfig, nowMs: number): boolean {
  const now = levelAt(level, nowMs);
  for (let next = now.next?.level; next !== undefined; next = next.next?.level) {
    if (next.access !== now.access) return true;
  }
  return false;
}
