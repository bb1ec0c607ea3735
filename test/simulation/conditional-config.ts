import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { ConfigScope, LevelConfig } from "../../src/domain/config/config.ts";
import type { ConfigStore } from "../../src/ports/config-store.ts";
import type { ItemStore } from "../../src/ports/item-store.ts";
import { VU } from "../../src/protocol/item/attributes.ts";
import type { SeededRandom } from "../../src/testing/random.ts";
import type { ConditionalWorld } from "../kit/conditional-store.ts";
import type { Journal } from "./journal.ts";
import { overriding } from "./port.ts";
import type { Stage, Truth } from "./truth.ts";
import type { Merged, Version } from "./truth-levels.ts";

export interface SeenOptions {
  readonly world: ConditionalWorld;
  readonly truth: Truth;
  readonly journal: Journal;
  readonly random: SeededRandom;
  readonly nowMs: () => number;
  /** How old what is read may be, unless the read is consistent. */
  readonly staleMs: number;
  readonly mustBeConsistent: (bucketId: string) => boolean;
  /** How a change reaches the live buckets of the entity; undefined: it does not. */
  readonly announceBy: ItemStore | undefined;
}

/** Configuration as one process sees it: perhaps as it was a while ago. Its own changes it announces, or not. */
export function seenConfig(config: ConfigStore, options: SeenOptions): ConfigStore {
  const { truth, journal, random, nowMs, staleMs, mustBeConsistent, announceBy } = options;
  const announced = async <Reply>(scope: ConfigScope, reply: Reply | Promise<Reply>): Promise<Reply> => {
    const told = await reply;
    if (announceBy !== undefined) await announce(announceBy, scope, options);
    return told;
  };
  return overriding(config, {
    resolve: async (entityId, resource, read) => {
      const isFresh = staleMs === 0 || read === "consistent" || mustBeConsistent(bucketKey(entityId, resource).id);
      const found = await config.resolve(entityId, resource, read);
      if (isFresh) return found;
      const then = asOf(found, truth.stagesAt(entityId, resource, nowMs() - random.integer(0, staleMs)));
      const isOld = textOf(then) !== textOf(found);
      if (isOld) journal.count("old configuration read");
      return then;
    },
    set: (scope, stored, event) => announced(scope, config.set(scope, stored, event)),
    delete: (scope, event, part) => announced(scope, config.delete(scope, event, part)),
  });
}

/** "Read it again" on every live shard of the entity's buckets. */
async function announce(items: ItemStore, scope: ConfigScope, { world, journal }: SeenOptions): Promise<void> {
  if (!("entityId" in scope)) return;
  for (const [key] of world.table.entries("default")) {
    if (key.operation !== undefined || key.bucket.entityId !== scope.entityId) continue;
    if (scope.level === "entity" && key.bucket.resource !== scope.resource) continue;
    const write = { key, kind: "update", item: "exists", when: [], set: { [VU]: 0 }, add: {}, remove: [] } as const;
    await items.write({ ...write, trace: undefined }, { timeoutMs: 1_000 });
    journal.count("announcements");
  }
}

function textOf({ limits, totals, next }: LevelConfig): string {
  return JSON.stringify([limits, totals, next?.atMs]);
}

/** The level as it is read, with what the ends of it leave. */
function asOf(found: LevelConfig, [first, ...later]: readonly Stage[]): LevelConfig {
  const level = staged(found, (first as Stage).version);
  const [next] = later;
  return next === undefined ? level : { ...level, next: { atMs: next.fromMs, level: asOf(found, later) } };
}

function isForAll({ limits, forEveryone }: Merged): boolean {
  return limits.length === forEveryone.length;
}

function staged(found: LevelConfig, { onResource, totals, access, accessAbove, planId, next }: Version): LevelConfig {
  const { created, reading, onUnavailable } = found;
  const isTorn = onResource.isTorn || totals.isTorn;
  return {
    created,
    ...(reading === undefined ? {} : { reading }),
    ...(onUnavailable === undefined ? {} : { onUnavailable }),
    ...{ limits: onResource.limits, source: onResource.source, sources: onResource.sources },
    ...(isForAll(onResource) ? {} : { forEveryone: onResource.forEveryone }),
    ...(onResource.changes.length === 0 ? {} : { changes: onResource.changes }),
    ...{ totals: totals.limits, totalsSource: totals.source, totalsSources: totals.sources },
    ...(isForAll(totals) ? {} : { totalsForEveryone: totals.forEveryone }),
    ...(totals.changes.length === 0 ? {} : { totalsChanges: totals.changes }),
    ...(isTorn ? { problem: { code: "limits_zones", message: "The zones differ." } } : {}),
    ...(planId === undefined ? {} : { planId }),
    access,
    // The access of a resource counts for the entity that asks, not for its parents.
    accessSource: access === accessAbove ? "entity" : "resource",
    cascade: next !== undefined,
    cascadeSource: "none",
    ...(next === undefined ? {} : { parentId: next }),
  };
}
