import type { Calendar } from "../domain/limits/calendar.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import type { Clock, Random } from "../ports/system.ts";
import type { EventFeeds } from "./event-feeds.ts";
import type { Metrics } from "./metrics.ts";
import type { ServiceSettings } from "./options.ts";
import type { Tenants } from "./tenants.ts";

/** What the routes of one service share. */
export interface ServiceParts {
  readonly settings: ServiceSettings;
  /** On the namespace that the service was opened on. */
  readonly limiter: Limiter;
  readonly tenants: Tenants;
  readonly feeds: EventFeeds;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly random: Random;
  readonly calendar: Calendar;
  /** For `/metrics` and the start line. */
  readonly storeName: string;
  readonly version: string;
  /** Whether the store answers; asked at most once a second. */
  isReady(): Promise<boolean>;
  /** True from the first sign of a stop on. */
  isStopping(): boolean;
  /** The OpenAPI document; made when it is first asked for. */
  document(): object;
}
