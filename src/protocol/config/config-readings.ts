import { BoundedMap } from "../../domain/names/bounded-map.ts";
import { BN, BYPASS, DISABLED } from "../item/attributes.ts";
import { canonicalOfSet } from "../item/limit-words.ts";
import type { BucketCache, Seen } from "../process/bucket-cache.ts";
import type { Env } from "../take/intent.ts";
import type { Job } from "../take/job.ts";

/** `configSuspect`: read configuration again. `confirmed`: that was done since. `none`: there is nothing to doubt. */
export type Doubt = "none" | "configSuspect" | "confirmed";

/**
 * Numbers the reads of configuration that this process begins. A bucket that disagrees with the limits of a claim, or says
 * that configuration changed, is a reason to read configuration, not to write: only limits that were read after the
 * disagreement was seen are installed on the bucket.
 */
export class ConfigReadings {
  #last = 0;
  /** Buckets whose configuration has to be read consistently. */
  readonly #suspects: BoundedMap<true>;

  /** How many doubts are remembered. One that is forgotten is found again with the next claim. */
  constructor(doubtsMost = DOUBTS_MOST) {
    this.#suspects = new BoundedMap(doubtsMost / 2);
  }

  /** The number of a read that begins now. */
  begin(): number {
    return ++this.#last;
  }

  /** Whether configuration of this bucket has to be read consistently: an older state would not answer the doubt. */
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
      const differs =
        of.origin.given !== true && canonical !== canonicalOfSet(of.set) && dialect.mayBeNewer(of.origin, state.origin);
      if (!isStamped && !differs && !dialect.hasSoftStampOver(image, readingMs)) continue;
      const { shard } = image.key;
      const says = `${dialect.doubtAbout(image, isStamped)}/${item[BN]}`;
      const before = cache.doubts[shard];
      // A doubt that was forgotten may have been answered by a read that did not have to be consistent.
      const isStanding =
        before?.says === says && !dialect.isReadTooOld(of.origin, readingMs) && this.mustBeConsistent(cache.key.id);
      // An image that may be old says nothing about a doubt that arose since: were it to replace that one, a process that keeps
      // being shown the old one would read configuration without end.
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
