import { knowsMore } from "../../domain/limits/limit-set.ts";
import { BoundedMap } from "../../domain/names/bounded-map.ts";
import { BN, BYPASS, DISABLED } from "../item/attributes.ts";
import { canonicalOfSet } from "../item/limit-words.ts";
import type { BucketCache, Seen } from "../process/bucket-cache.ts";
import type { Env } from "../take/intent.ts";
import type { Job } from "../take/job.ts";

/** `configSuspect`: read configuration again. `confirmed`: it was read since. `none`: there is nothing to doubt. */
export type Doubt = "none" | "configSuspect" | "confirmed";

/**
 * Numbers the reads of configuration that this process begins. A bucket that disagrees with the limits of a claim, or says
 * that configuration changed, is a reason to read configuration, not to write: only limits that were read after the
 * disagreement was seen are installed on the bucket.
 */
export class ConfigReadings {
  #last = 0;
  readonly #suspects: BoundedMap<true>;

  /** `doubtsMost` bounds the doubts that are remembered. A forgotten one is found again with the next claim. */
  constructor(doubtsMost = DOUBTS_MOST) {
    this.#suspects = new BoundedMap(doubtsMost / 2);
  }

  begin(): number {
    return ++this.#last;
  }

  /** True if configuration of this bucket must be read consistently: an older state would not answer the doubt. */
  mustBeConsistent(bucketId: string): boolean {
    return this.#suspects.get(bucketId) === true;
  }

  doubtOf(cache: BucketCache, seen: DoubtedImage, jobs: readonly Job[], env: Env): Doubt {
    const { image, eventuallyConsistent } = seen;
    if (image === undefined) return "none";
    const { dialect } = env;
    let verdict: Doubt = "none";
    for (const { of, kind, readingMs } of jobs) {
      const { reading } = of.origin;
      if (reading === undefined || kind !== "take") continue;
      const { item, state, canonical } = image;
      const isStamped = DISABLED in item || (BYPASS in item && !of.bypass) || dialect.announcesConfig(item);
      // The reader of an override knows its end: the bucket has yet to go through it.
      const isEnded = of.origin.ended === true && knowsMore(of.origin, state.origin);
      const isOther = of.origin.given !== true && !isEnded && canonical !== canonicalOfSet(of.set);
      const differs = isOther && dialect.mayBeNewer(of.origin, state.origin);
      if (!isStamped && !differs && !dialect.hasSoftStampOver(image, readingMs)) continue;
      const { shard } = image.key;
      const says = `${dialect.doubtAbout(image, isStamped)}/${item[BN]}`;
      const before = cache.doubts[shard];
      // A forgotten doubt may have been answered by a read that was not consistent.
      const isStanding =
        before?.says === says && !dialect.isReadTooOld(of.origin, readingMs) && this.mustBeConsistent(cache.key.id);
      // An image that may be old says nothing about a doubt that arose since. If it replaced that one, a process that keeps
      // seeing the old image would read configuration without end.
      if (eventuallyConsistent && before !== undefined && !isStanding && this.mustBeConsistent(cache.key.id)) {
        return "configSuspect";
      }
      const doubt = isStanding ? before : { upTo: this.#last, says, isStamped };
      cache.doubts[shard] = doubt;
      if (reading <= doubt.upTo) {
        this.#suspects.set(cache.key.id, true);
        return "configSuspect";
      }
      verdict = "confirmed";
    }
    if (verdict === "none" && !eventuallyConsistent && cache.doubts[image.key.shard] !== undefined) {
      cache.doubts[image.key.shard] = undefined;
      if (cache.doubts.every((doubt) => doubt === undefined)) this.#suspects.delete(cache.key.id);
    }
    return verdict;
  }
}

type DoubtedImage = Pick<Seen, "image" | "eventuallyConsistent">;

const DOUBTS_MOST = 20_000;
