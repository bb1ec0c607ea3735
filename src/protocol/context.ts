import type { BucketKey } from "../domain/bucket/bucket-key.ts";
import type { ItemStore } from "../ports/item-store.ts";
import type { Clock } from "../ports/system.ts";
import type { ConfigReadings } from "./config/config-readings.ts";
import type { Image } from "./item/codec.ts";
import type { Nonces } from "./item/nonces.ts";
import type { ThresholdMarks } from "./marks/mark.ts";
import type { BucketCache } from "./process/bucket-cache.ts";
import type { BucketCaches } from "./process/bucket-caches.ts";
import type { Env } from "./take/intent.ts";
import type { Sent } from "./take/job.ts";

/** What all work of the protocol in one process shares. */
export interface ProtocolContext {
  readonly items: ItemStore;
  readonly env: Env;
  readonly clock: Clock;
  /** A number in [0, 1). */
  readonly random: () => number;
  readonly caches: BucketCaches;
  readonly nonces: Nonces;
  readonly readings: ConfigReadings;
  readonly marks: ThresholdMarks;
  /** No tolerance: a limit is never cut by more than needed (tolerance.ts). */
  readonly exact: boolean;
  /** Called when a write whose outcome was reported as unknown turns out to have been applied. */
  readonly landedLate: (sent: Sent) => void;
  /** Called when a give-back ended that went on after its caller was answered: tokens may have come back. */
  readonly returnedLate: (bucket: BucketKey) => void;
  /** Called when a write of this process closed an hour of usage; the image shows the item after it. */
  readonly rolled: (image: Image) => void;
  /** Called when the store throttled a write of a take. */
  readonly throttled: (cache: BucketCache) => void;
}
