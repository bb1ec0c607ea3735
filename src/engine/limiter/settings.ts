import type { UnnamedLimits } from "../../domain/charge/charges.ts";
import type { OnUnavailable, OutageShareOption, UnknownEntities } from "../../domain/config/config.ts";
import type { Calendar } from "../../domain/limits/schedule.ts";
import type { MaybePromise } from "../../ports/bucket-store.ts";
import type { Events } from "../../ports/events.ts";
import type { ScopedStore, Store } from "../../ports/store.ts";
import type { Clock, Digest, Random, Turns, Warnings } from "../../ports/system.ts";

/** The settings of a limiter, all given: defaults belong to the public edge. */
export interface Settings {
  readonly namespace: string;
  /** The id of the namespace; asks the store until it has answered. */
  readonly namespaceId: () => MaybePromise<string>;
  readonly configTtlMs: number;
  readonly denyMemoryMs: number;
  readonly timeoutMs: number;
  /** Overrides the stored setting. */
  readonly onUnavailable: OnUnavailable | OutageShareOption | undefined;
  readonly unknownEntities: UnknownEntities;
  readonly unnamedLimits: UnnamedLimits;
  readonly countRefusals: boolean;
  /** Single refusals are kept, where they are counted. */
  readonly refusalLog: boolean;
  /** Whether usage of callers is counted that no bucket counts. */
  readonly countCallers: boolean;
  /** Size of each cache (configuration, refusals, request limits), in buckets. */
  readonly bucketsMax: number;
}

/** The ports of a namespace, and its id. */
export interface NamedScope {
  readonly scoped: ScopedStore;
  readonly namespaceId: Settings["namespaceId"];
}

/** The dependencies of the engine. */
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
