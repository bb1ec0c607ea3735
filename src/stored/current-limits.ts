import type { BucketKey } from "../domain/bucket/bucket-key.ts";
import type { SourcedLimits } from "../domain/bucket/limited-bucket.ts";
import type { LevelConfig } from "../domain/config/config.ts";
import { changesIn } from "../domain/config/level-changes.ts";
import { asTotals, TOTAL_RESOURCE } from "../domain/config/totals.ts";
import { limitSet } from "../domain/limits/limit-set.ts";

/** Of so many buckets the limits are remembered. */
const KNOWN_MAX = 10_000;

/** The stored limits of buckets, for writes that bring none of their own: each is worked out once a generation. */
export class CurrentLimits {
  readonly #levelOf: (entityId: string, resource: string) => LevelConfig | undefined;
  readonly #known = new Map<string, SourcedLimits | undefined>();
  #generation = 0;

  /** `levelOf` answers undefined where there is no such namespace any more. */
  constructor(levelOf: (entityId: string, resource: string) => LevelConfig | undefined) {
    this.#levelOf = levelOf;
  }

  of({ id, entityId, resource }: BucketKey, generation: number, nowMs: number): SourcedLimits | undefined {
    if (generation !== this.#generation || this.#known.size >= KNOWN_MAX) this.#known.clear();
    this.#generation = generation;
    if (!this.#known.has(id)) {
      const level = this.#levelOf(entityId, resource);
      this.#known.set(id, level && limitsIn(level, resource, generation, nowMs));
    }
    return this.#known.get(id);
  }
}

/** The limits of a bucket as a level of configuration has them; undefined where its scopes do not go together. */
export function limitsIn(
  level: LevelConfig,
  resource: string,
  generation: number,
  nowMs: number,
): SourcedLimits | undefined {
  if (level.problem !== undefined) return undefined;
  const config = resource === TOTAL_RESOURCE ? asTotals(level) : level;
  return { set: limitSet(config.limits), origin: { asOfMs: nowMs, generation, ...changesIn(config, limitSet) } };
}
