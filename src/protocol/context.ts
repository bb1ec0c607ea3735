import type { ServerTime } from "../clock/clock-bounds.ts";
import type { Calendar } from "../domain/limits/schedule.ts";
import type { Returned } from "../ports/bucket-store.ts";
import type { ItemStore } from "../ports/item-store.ts";
import type { Clock } from "../ports/system.ts";
import type { ConfigReadings } from "./config/config-readings.ts";
import type { Nonces } from "./item/attributes.ts";
import type { Image } from "./item/codec.ts";
import type { Dialect } from "./item/dialect.ts";
import type { ThresholdMarks } from "./marks/mark.ts";
import type { BackgroundTasks } from "./process/background-tasks.ts";
import type { BucketCaches } from "./process/bucket-caches.ts";
import type { Env } from "./take/intent.ts";

/** Shared by all work of the protocol in one process. */
export interface ProtocolContext
  extends Pick<ProtocolOptions, "items" | "clock" | "random" | "readings" | "coalesce" | "exact"> {
  readonly env: Env;
  readonly caches: BucketCaches;
  readonly nonces: Nonces;
  readonly marks: ThresholdMarks;
  readonly background: BackgroundTasks;
  /** Called when tokens have come back, or may have. */
  readonly returned: (returned: Returned) => void;
  /** Called when a write of this process closed an hour of usage; `image` shows the item after it. */
  readonly rolled: (image: Image) => void;
}

/** The options of a process that takes part in the protocol; every value is given, defaults belong to the public edge. */
export interface ProtocolOptions {
  readonly items: ItemStore;
  readonly calendar: Calendar;
  readonly clock: Clock;
  readonly random: () => number;
  /** Numbers the reads of stored limits. */
  readonly readings: ConfigReadings;
  /** Join claims on one bucket that are under way together. */
  readonly coalesce: boolean;
  /** No tolerance: a limit is never cut by more than needed (ADR 7). */
  readonly exact: boolean;
  /** OWN, or SHARED if the original writes the same items. */
  readonly dialect: Dialect;
  /** An image may refuse without a call for this long; 0 = never. */
  readonly denyMemoryMs: number;
  /** The time of the server, as far as this process knows it. */
  readonly serverTime: ServerTime;
  /** The time that usage is kept, in seconds; configuration may change it at any time. */
  readonly usageKeptS: () => number;
  /** The most buckets that are remembered, besides those in use. */
  readonly bucketsMax: number;
}
