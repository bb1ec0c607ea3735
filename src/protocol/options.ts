import type { ServerTime } from "../clock/server-time.ts";
import type { Calendar } from "../domain/limits/calendar.ts";
import type { ItemStore } from "../ports/item-store.ts";
import type { Clock } from "../ports/system.ts";
import type { ConfigReadings } from "./config/config-readings.ts";
import type { Dialect } from "./item/dialect.ts";

/** How a process takes part in the protocol; every value is given, defaults belong to the public edge. */
export interface ProtocolOptions {
  readonly items: ItemStore;
  readonly calendar: Calendar;
  readonly clock: Clock;
  /** A number in [0, 1). */
  readonly random: () => number;
  /** When the stored limits were last read. */
  readonly readings: ConfigReadings;
  /** Join claims on one bucket that are under way together. */
  readonly coalesce: boolean;
  /** No tolerance: a limit is never cut by more than needed (tolerance.ts). */
  readonly exact: boolean;
  /** Whether the original writes the same items, and what follows from that. */
  readonly dialect: Dialect;
  /** How long an image may refuse without asking; 0 = never. */
  readonly denyMemoryMs: number;
  /** What is known of the store's time. */
  readonly serverTime: ServerTime;
  /** How long usage is kept, in seconds; configuration may change it at any time. */
  readonly usageKeptS: () => number;
  /** How many buckets are remembered at most, beside those that are written to. */
  readonly bucketsMax: number;
}
