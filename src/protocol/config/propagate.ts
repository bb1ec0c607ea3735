import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import type { Access, ConfigScope, PolicyChange } from "../../domain/config/config.ts";
import { LEVELS_MAX } from "../../domain/config/entity.ts";
import type { Clock } from "../../ports/system.ts";
import type { ProtocolBuckets } from "../buckets.ts";
import { PASSES, TOLD_AT_ONCE } from "../process/retry-policy.ts";

/** Finds the buckets that a change of configuration concerns. */
export interface LivePlaces {
  /** Buckets that a scope may configure; a bucket made a moment ago may be missing, a listed one need not exist. */
  under(scope: ConfigScope): Promise<readonly BucketKey[]>;
  /** Every child that was there before the call, whether it charges its parent or not. */
  childrenOf(entityId: string): Promise<readonly string[]>;
}

interface PropagationParts {
  readonly buckets: Pick<ProtocolBuckets, "announce" | "stampAccess">;
  readonly places: LivePlaces;
  readonly clock: Clock;
  /** The access of a bucket by current configuration. */
  readonly accessOf: (bucket: BucketKey) => Promise<Access>;
  /**
   * Resolves when no request that was under way can make a bucket any more, and `places` is complete: after a switch the buckets
   * are listed once more then.
   */
  readonly settle: () => Promise<void>;
  /**
   * True if buckets below a switched level are stamped by `accessOf`, also when it is switched on again: for a writer that does
   * not look at the levels above. Otherwise they say "read configuration again".
   */
  readonly stampsBelow: boolean;
}

/** The write for the live buckets of a scope; `tell` returns the number of shards written. */
interface Told {
  readonly scope: ConfigScope;
  readonly tell: (bucket: BucketKey, readingMs: number) => Promise<number>;
}

/**
 * Carries a stored change of access, of a parent or of cascading to the live buckets of the entity and of every entity below it.
 * A request goes by configuration that its process remembers, for all levels, and the one bucket that it always writes is that of
 * its own entity: so that bucket must announce changes of every level above (docs/adr/0020-switches-reach-what-is-below.md).
 */
export class Propagation {
  readonly #parts: PropagationParts;

  constructor(parts: PropagationParts) {
    this.#parts = parts;
  }

  /** Once it resolves, a switch that turned something off counts for every new request. */
  async accessChanged(scope: ConfigScope, access: PolicyChange["access"]): Promise<void> {
    const { buckets, accessOf, stampsBelow, settle } = this.#parts;
    const stamp: Told["tell"] = async (bucket, readingMs) =>
      buckets.stampAccess(bucket, await accessOf(bucket), readingMs);
    // A scope without access of its own goes by an outer scope, which may be switched off.
    const mayBeOff = access === "disabled" || access === null;
    const below = mayBeOff || stampsBelow ? await this.#below(scope) : [];
    const tell = stampsBelow ? stamp : this.#announce;
    const told = [{ scope, tell: stamp }, ...below.map((one) => ({ scope: one, tell }))];
    await this.reach(told, mayBeOff ? settle : undefined);
  }

  /** The parent of an entity changed, or whether the parent is charged too; all entities below are told as well. */
  async ownerChanged(scope: Extract<ConfigScope, { readonly entityId: string }>): Promise<void> {
    const scopes = [scope, ...(await this.#below(scope))];
    await this.reach(
      scopes.map((one) => ({ scope: one, tell: this.#announce })),
      undefined,
    );
  }

  /** Writes to all buckets, twice: the second pass finds those that `places` did not have yet at the first. */
  async reach(told: readonly Told[], settle: (() => Promise<void>) | undefined): Promise<void> {
    const { places, clock } = this.#parts;
    const reached = new Set<string>();
    for (let pass = 0; pass < PASSES; pass++) {
      if (pass > 0) await settle?.();
      for (const some of chunksOf(told, TOLD_AT_ONCE)) {
        const found = await Promise.all(some.map(({ scope }) => places.under(scope)));
        const left = found.flatMap((buckets, i) =>
          buckets.flatMap((bucket) => (reached.has(bucket.id) ? [] : [{ bucket, tell: (some[i] as Told).tell }])),
        );
        for (const chunk of chunksOf(left, TOLD_AT_ONCE)) {
          const shards = await Promise.all(chunk.map(({ bucket, tell }) => tell(bucket, clock.now())));
          // A missing bucket may be made meanwhile, which matters to a switch.
          for (const [i, { bucket }] of chunk.entries()) {
            if (shards[i] !== 0 || settle === undefined) reached.add(bucket.id);
          }
        }
      }
    }
  }

  readonly #announce: Told["tell"] = (bucket, readingMs) => this.#parts.buckets.announce(bucket, readingMs);

  /** Returns the scopes of every entity below. A switched-off resource counts at each entity itself. */
  async #below(scope: ConfigScope): Promise<readonly ConfigScope[]> {
    if (!("entityId" in scope)) return [];
    const found = new Set<string>();
    let row: readonly string[] = [scope.entityId];
    for (let level = 0; row.length > 0 && level < LEVELS_MAX; level++) {
      const next: string[] = [];
      for (const some of chunksOf(row, TOLD_AT_ONCE)) {
        next.push(...(await Promise.all(some.map((id) => this.#parts.places.childrenOf(id)))).flat());
      }
      row = next.filter((id) => !found.has(id) && id !== scope.entityId);
      for (const id of row) found.add(id);
    }
    return [...found].map((entityId) => ({ ...scope, entityId }));
  }
}

function chunksOf<One>(all: readonly One[], size: number): readonly (readonly One[])[] {
  return Array.from({ length: Math.ceil(all.length / size) }, (_, i) => all.slice(i * size, (i + 1) * size));
}
