import { BoundedMap } from "../domain/bounded-map.ts";
import { supersedes } from "../domain/limit-set.ts";
import { BYPASS, DISABLED, VU } from "./attributes.ts";
import type { BucketCache, Seen } from "./bucket-cache.ts";
import { canonicalOfSet } from "./codec.ts";
import { isStampOver } from "./forms.ts";
import type { Env } from "./intent.ts";
import type { Job } from "./job.ts";

/**
 * Numbers the readings of configuration that this process begins. A bucket that disagrees with what a claim goes by, or
 * says that configuration changed, is a reason to read, not to write: only what was read after the doubt arose is brought
 * to the bucket.
 */
export class ConfigReadings {
  #last = 0;
  readonly #doubted: BoundedMap<true>;

  /** So many doubts are remembered; one that is forgotten arises anew. */
  constructor(doubtsMost = DOUBTS_MOST) {
    this.#doubted = new BoundedMap(doubtsMost / 2);
  }

  /** The number of a reading that begins now. */
  begin(): number {
    return ++this.#last;
  }

  /** Whether configuration of this bucket has to be read so that nothing older is seen. */
  mustBeConsistent(bucketId: string): boolean {
    return this.#doubted.get(bucketId) === true;
  }

  /** `configSuspect`: ask for configuration again. `resolved`: that was done since. `none`: there is nothing to doubt. */
  doubtOf(
    cache: BucketCache,
    { image }: Pick<Seen, "image">,
    jobs: readonly Job[],
    env: Env,
  ): "none" | "configSuspect" | "resolved" {
    if (image === undefined || !env.rules.configOrder || (env.shared && !env.rules.sharedReadsAfter)) return "none";
    let verdict: "none" | "resolved" = "none";
    for (const { of, kind, readingMs } of jobs) {
      const { reading } = of.origin;
      if (reading === undefined || kind === "debit") continue;
      const { item, state, canonical } = image;
      const isStamped = DISABLED in item || (BYPASS in item && !of.bypass) || (item[VU] === 0 && !env.shared);
      // The original does not say when it read what it writes: there, any difference is a reason to read.
      const differs =
        of.origin.given !== true &&
        canonical !== canonicalOfSet(of.set) &&
        (env.shared || supersedes(of.origin, state.origin));
      const isOver = env.shared && state.limits.some(({ name }) => isStampOver(item, name, readingMs));
      if (!isStamped && !differs && !isOver) continue;
      const { shard } = image.key;
      // Where the original writes too, the item may say something new in between: that has to be read after, too.
      const says = env.shared ? `${canonical}/${isStamped}` : "";
      const before = cache.doubts[shard];
      // And it may say the same again that it said long ago: an older reading does not answer that.
      const isOld = env.shared && readingMs - of.origin.asOfMs > READ_MS;
      // One that was forgotten may have been answered by a reading that did not have to be consistent.
      const isStanding = before?.says === says && !isOld && this.mustBeConsistent(cache.key.id);
      const doubted = isStanding ? before : { upTo: this.#last, says };
      cache.doubts[shard] = doubted;
      if (reading <= doubted.upTo) {
        this.#doubted.set(cache.key.id, true);
        return "configSuspect";
      }
      verdict = "resolved";
    }
    if (verdict === "none" && cache.doubts[image.key.shard] !== undefined) {
      cache.doubts[image.key.shard] = undefined;
      if (cache.doubts.every((doubt) => doubt === undefined)) this.#doubted.delete(cache.key.id);
    }
    return verdict;
  }
}

const DOUBTS_MOST = 20_000;

/** Beside the original, configuration is brought to an item only so soon after it was read. */
const READ_MS = 1_000;
