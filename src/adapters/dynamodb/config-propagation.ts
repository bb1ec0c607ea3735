import { type BucketKey, bucketKey } from "../../domain/bucket/bucket-key.ts";
import type { Access, ConfigScope, PolicyChange } from "../../domain/config/config.ts";
import { LEVELS_MAX } from "../../domain/config/entity.ts";
import { limitSet } from "../../domain/limits/limit-set.ts";
import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { Clock } from "../../ports/system.ts";
import type { ProtocolBuckets } from "../../protocol/buckets.ts";
import { Propagation } from "../../protocol/config/propagate.ts";
import type { ConfigReader, RecentChange } from "./config-reader.ts";
import type { DynamoHierarchy } from "./entities-hierarchy.ts";
import { stampOwner } from "./entities-owner.ts";
import type { Records } from "./records.ts";
import { RETRY } from "./retry-policy.ts";
import type { LiveBuckets } from "./store-buckets.ts";

interface PropagationParts {
  readonly records: Records;
  readonly live: LiveBuckets;
  readonly hierarchy: DynamoHierarchy;
  readonly buckets: ProtocolBuckets;
  readonly clock: Clock;
  /** The original writes the same buckets and does not read announcements, so changes are written to the buckets at once. */
  readonly shared: boolean;
  readonly reader: ConfigReader;
  readonly recent: RecentChange;
  /** See `PropagationParts.settle` of the protocol. */
  readonly settle: () => Promise<void>;
}

/** Carries a change of configuration, once it is stored, to the live buckets that it concerns. */
export class ConfigPropagation {
  readonly #namespaceId: string;
  readonly #parts: PropagationParts;
  readonly #switches: Propagation;

  constructor(namespaceId: string, parts: PropagationParts) {
    const { live, hierarchy, buckets, clock, shared, settle } = parts;
    this.#namespaceId = namespaceId;
    this.#parts = parts;
    this.#switches = new Propagation({
      ...{ buckets, clock, settle, stampsBelow: shared },
      places: { under: (scope) => live.under(scope), childrenOf: (entityId) => hierarchy.childrenOf(entityId) },
      accessOf: (bucket) => this.#accessOf(bucket),
    });
  }

  /** Access (`enforce`, `bypass`, `disabled`) is written to every bucket, so that it counts from the next request on. */
  async accessChanged(scope: ConfigScope, access: PolicyChange["access"]): Promise<void> {
    await this.#afterChange(() => this.#switches.accessChanged(scope, access));
  }

  /** An entity's limits are written to its buckets, or announced there. Defaults of many are noticed when they are read. */
  async limitsChanged(scope: ConfigScope): Promise<void> {
    if (!("entityId" in scope)) return;
    const tell = (bucket: BucketKey, readingMs: number) => this.#renew(bucket, readingMs);
    await this.#afterChange(() => this.#switches.reach([{ scope, tell }], undefined));
  }

  /** An entity has another plan, or none any more. */
  async planChanged(entityId: string): Promise<void> {
    await this.limitsChanged({ level: "entityDefault", entityId });
  }

  /** An entity's parent changed, or whether the parent is charged too. */
  async ownerChanged(entityId: string): Promise<void> {
    const { shared, records, live, reader, recent } = this.#parts;
    if (shared) {
      recent.note();
      await stampOwner(this.#namespaceId, entityId, { records, live, reader });
      return;
    }
    await this.#afterChange(() => this.#switches.ownerChanged({ level: "entityDefault", entityId }));
  }

  /** Configuration changed whether parents are charged. */
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

  /** On a shared table, with what the levels above say: the original goes by the bucket alone. */
  async #accessOf(bucket: BucketKey): Promise<Access> {
    const { reader, shared } = this.#parts;
    const own = await reader.resolveNow(bucket);
    let above = shared && own.cascade ? own.parentId : undefined;
    for (let level = 1; above !== undefined && level < LEVELS_MAX; level++) {
      const { access, accessSource, cascade, parentId } = await reader.resolveNow(bucketKey(above, bucket.resource));
      // That a resource is off for everybody counts at the entity itself.
      if (access === "disabled" && accessSource !== "resource") return "disabled";
      above = cascade ? parentId : undefined;
    }
    return own.access;
  }

  async #renew(bucket: BucketKey, readingMs: number): Promise<number> {
    const { shared, buckets, clock } = this.#parts;
    if (!shared) return buckets.announce(bucket, readingMs);
    // Configuration is read again before each try, so that a change which the original makes in between is not undone.
    for (let attempt = 0; attempt < RETRY.installsMax; attempt++) {
      const asOfMs = clock.now();
      const { limits, reading } = await this.#parts.reader.resolveNow(bucket);
      if (limits.length === 0) return 1;
      const origin = { asOfMs, generation: null, ...(reading === undefined ? {} : { reading }) };
      if (await buckets.installLimits(bucket, { set: limitSet(limits), origin }, clock.now())) return 1;
    }
    throw new RateLimiterUnavailable(
      `Others changed the bucket of ${bucket.entityId} on ${bucket.resource} at each of ${RETRY.installsMax} attempts.`,
    );
  }
}
