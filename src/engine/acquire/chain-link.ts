import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import {
  type Access,
  type Frozen,
  type LevelConfig,
  type LimitSource,
  levelAt,
  type OnUnavailable,
} from "../../domain/config/config.ts";
import { LEVELS_MAX } from "../../domain/config/entity.ts";
import type { Limit } from "../../domain/limits/limit.ts";
import type { LimitSet } from "../../domain/limits/limit-set.ts";
import { type MergeProblem, mergeError } from "../../domain/limits/merged-limits.ts";
import { ResourceDisabled, type ValidationError } from "../../domain/names/errors.ts";
import type { PlacedBucket } from "../../ports/bucket-store.ts";

/** One entity of a chain, with its configuration. A chain runs from the caller to its root. `set` has all limits of the bucket. */
export interface ChainLink extends PlacedBucket {
  readonly created: boolean;
  /** The limits that this request is charged to: all of the set, and of a parent those that apply to everyone. */
  readonly limits: readonly Limit[];
  /** `limits` as a set. */
  readonly charged: LimitSet;
  readonly source: LimitSource;
  /** The level of each limit by name, if levels were merged; undefined: all are of `source`. */
  readonly sources: Readonly<Record<string, LimitSource>> | undefined;
  readonly planId: string | undefined;
  readonly access: Access;
  readonly accessSource: LimitSource;
  readonly cascade: boolean;
  readonly cascadeSource: LimitSource;
  readonly parentId: string | undefined;
  /** The parent that is charged too, if any. */
  readonly next: string | undefined;
  readonly onUnavailable: OnUnavailable | undefined;
  /** The namespace is frozen, whatever `access` says. */
  readonly frozen: Frozen | undefined;
  readonly generation: number | undefined;
  /** The value of the cache's `#expired` when this was read. */
  readonly expired: number;
  /** The number of the read; later reads have higher numbers. */
  readonly readNumber: number;
  /** True if the read contains every change that was confirmed before it began. */
  readonly isConsistent: boolean;
  /** The chain of an entity that charges no parent, made once. */
  readonly singleChain: readonly ChainLink[];
  /** This link as the parent of a caller; undefined if it is the same. */
  readonly asParent: ChainLink | undefined;
  /** The limits over all resources; undefined if there are none. */
  readonly totals: ChainLink | undefined;
  /** From then on the link is another one, without a read: `after` says when, and what applies. */
  readonly untilMs: number;
  readonly after: LevelConfig["next"];
}

/** True if the link was read consistently after the read `sinceRead`. */
export function isJustRead({ isConsistent, readNumber }: ChainLink, sinceRead: number): boolean {
  return isConsistent && readNumber > sinceRead;
}

/** The link and what hangs on it, as of a later generation that has not changed it. Its limits keep the origin of their read. */
export function ofGeneration(link: ChainLink, generation: number | undefined): ChainLink {
  const singleChain = [undefined as unknown as ChainLink];
  const totals = link.totals && ofGeneration(link.totals, generation);
  const asParent = link.asParent && ofGeneration(link.asParent, generation);
  const made = { ...link, generation, singleChain, totals, asParent };
  singleChain[0] = made;
  return made;
}

/** The error for a link whose levels do not go together once an override of it has ended. */
export function conflictAt({ bucket, after }: ChainLink, nowMs: number): ValidationError {
  const { problem } = levelAt(after?.level as LevelConfig, nowMs);
  return mergeError(bucket, problem as MergeProblem);
}

/**
 * The next parent of a chain, if any. Cached links may be of different times, so two entities that swapped places may seem to be
 * above each other; each is charged once all the same.
 */
export function nextOf(chain: readonly ChainLink[]): string | undefined {
  const next = chain.at(-1)?.next;
  if (next === undefined || chain.length >= LEVELS_MAX) return undefined;
  return chain.some(({ bucket }) => bucket.entityId === next) ? undefined : next;
}

/** The error of a frozen namespace. */
export function frozenError({ entityId, resource }: BucketKey, frozen: Frozen): ResourceDisabled {
  return new ResourceDisabled({ entityId, resource, level: "system", frozen });
}

/** The error of a frozen namespace, or of the first disabled level, parents included. */
export function disabledIn(chain: readonly ChainLink[]): ResourceDisabled | undefined {
  for (const { bucket, frozen } of chain) if (frozen !== undefined) return frozenError(bucket, frozen);
  for (let i = 0; i < chain.length; i++) {
    const link = chain[i] as ChainLink;
    if (link.access !== "disabled") continue;
    // A disabled resource counts at the entity itself, which may be exempt. A parent that is not exempt must not refuse an exempt entity.
    if (i > 0 && link.accessSource === "resource") continue;
    const { entityId, resource } = link.bucket;
    return new ResourceDisabled({ entityId, resource, level: link.accessSource });
  }
  return undefined;
}

/** Throws if the namespace is frozen, or a level of the chain is disabled. */
export function enabled(chain: readonly ChainLink[]): readonly ChainLink[] {
  const disabled = disabledIn(chain);
  if (disabled !== undefined) throw disabled;
  return chain;
}
