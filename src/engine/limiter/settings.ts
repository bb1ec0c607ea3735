import type { UnnamedLimits } from "../../domain/charge/charges.ts";
import type { OnUnavailable, OutageShareOption, UnknownEntities } from "../../domain/config/config.ts";
import type { Calendar } from "../../domain/limits/calendar.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import type { Events } from "../../ports/events.ts";
import type { ScopedStore, Store } from "../../ports/store.ts";
import type { Clock, Digest, Random, Turns, Warnings } from "../../ports/system.ts";

/** How a limiter behaves; every value given, defaults belong to the public edge. */
export interface Settings {
  readonly namespace: string;
  /** Asks the store which id the name has, until it has answered. */
  readonly namespaceId: () => MaybePromise<string>;
  readonly configTtlMs: number;
  readonly denyMemoryMs: number;
  readonly timeoutMs: number;
  /** Overrides what is stored. */
  readonly onUnavailable: OnUnavailable | OutageShareOption | undefined;
  readonly unknownEntities: UnknownEntities;
  readonly unnamedLimits: UnnamedLimits;
  /** Whether refused requests are counted, and can be asked for. */
  readonly countRefusals: boolean;
  /** Of how many buckets at most configuration, refusals and limits of requests are remembered. */
  readonly bucketsMax: number;
}

/** What the engine works with. */
export interface EngineDeps {
  readonly store: Store;
  readonly scope: ScopedStore;
  readonly clock: Clock;
  readonly calendar: Calendar;
  readonly random: Random;
  readonly digest: Digest;
  readonly events: Events;
  readonly turns: Turns;
  readonly warnings: Warnings;
}
