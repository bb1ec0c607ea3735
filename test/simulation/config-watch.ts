import { type LevelConfig, levelAt } from "../../src/domain/config/config.ts";
import type { MaybePromise } from "../../src/ports/bucket-store.ts";
import type { ScopedStore } from "../../src/ports/store.ts";
import { overriding } from "./port.ts";
import type { Stage, Truth } from "./truth.ts";
import type { Merged, Version } from "./truth-levels.ts";

export interface ConfigWatch {
  readonly truth: Truth;
  /** Gets a reply before the client that asked for it. */
  after<Reply>(reply: MaybePromise<Reply>, tell: (reply: Reply) => void): MaybePromise<Reply>;
  resolved(entityId: string, resource: string, found: LevelConfig): void;
  /** An entity was deleted, and its buckets with it. */
  deleted(entityId: string): void;
}

/** What can be changed of configuration. */
type Configured = Pick<ScopedStore, "config" | "entities" | "plans">;

/** Configuration, plans and entities of a store, with every change of them reported to `Truth`. */
export function watchedConfig(
  { config, entities, plans }: Configured,
  { truth, after, resolved, deleted }: ConfigWatch,
): Configured {
  const resolveSync = config.resolveSync?.bind(config);
  return {
    config: overriding(config, {
      ...(resolveSync === undefined
        ? {}
        : {
            resolveSync: (entityId: string, resource: string) => {
              const found = resolveSync(entityId, resource);
              resolved(entityId, resource, found);
              return found;
            },
          }),
      resolve: (entityId, resource, read) =>
        after(config.resolve(entityId, resource, read), (found) => resolved(entityId, resource, found)),
      set: (at, stored, event) =>
        after(config.set(at, stored, event), (reply) => {
          if (reply !== "planMissing" && stored.limits !== undefined) truth.setLimits(at, stored, event.atMs);
        }),
      setPolicy: (at, change, event) =>
        after(config.setPolicy(at, change, event), (isChanged) =>
          truth.setPolicy(at, isChanged ? change : { ...change, isSame: true }, event.atMs),
        ),
      delete: (at, event, part) =>
        after(config.delete(at, event, part), (was) => {
          if (was) truth.deleteLimits(at, part, event.atMs);
        }),
    }),
    plans: overriding(plans, {
      create: (plan, event) =>
        after(plans.create(plan, event), ({ kind }) => {
          if (kind === "created") truth.planMade(plan.id);
        }),
      delete: (id, event) =>
        after(plans.delete(id, event), ({ kind }) => {
          if (kind === "deleted") truth.planDeleted(id, event.atMs);
        }),
    }),
    entities: overriding(entities, {
      create: (entity, event) =>
        after(entities.create(entity, event), ({ kind }) => {
          if (kind === "created") truth.setEntity(entity.id, entity, event.atMs);
        }),
      update: (id, change, event) =>
        after(entities.update(id, change, event), (reply) => {
          if (reply.kind === "updated") truth.setEntity(id, reply.entity, event.atMs);
        }),
      delete: (id, event) =>
        after(entities.delete(id, event), ({ kind }) => {
          if (kind !== "deleted") return;
          truth.setEntity(id, undefined, event.atMs);
          deleted(id);
        }),
    }),
  };
}

/** Where what a store resolves is not what its configuration says, now and from each end on that lies ahead. */
export function resolvedProblems(stages: readonly Stage[], found: LevelConfig): string[] {
  return stages.flatMap(({ fromMs, version }) =>
    levelProblems(version, levelAt(found, fromMs)).map((problem) =>
      fromMs > 0 ? `from ${fromMs} on ${problem}` : problem,
    ),
  );
}

function levelProblems(due: Version, found: LevelConfig): string[] {
  const { access, cascade, parentId, planId, problem } = found;
  const onResource = mergedProblems("", due.onResource, limitsIn(found));
  const next = cascade ? parentId : undefined;
  const problems = [...onResource, ...mergedProblems("in total ", due.totals, totalsIn(found))];
  if (access !== due.access || next !== due.next || planId !== due.planId) {
    problems.push(`resolves to ${access}, the plan ${planId}, below ${next}`);
  }
  if ((problem !== undefined) !== (due.onResource.isTorn || due.totals.isTorn)) {
    problems.push(`resolves to ${problem?.message ?? "levels that do not go together"}`);
  }
  return problems;
}

interface FoundLimits extends Pick<LevelConfig, "limits" | "source"> {
  readonly sources: LevelConfig["sources"] | undefined;
  readonly forEveryone: LevelConfig["forEveryone"] | undefined;
  readonly changes: NonNullable<LevelConfig["changes"]>;
}

function limitsIn({ limits, source, sources, forEveryone, changes = [] }: LevelConfig): FoundLimits {
  return { limits, source, sources, forEveryone, changes };
}

function totalsIn(found: LevelConfig): FoundLimits {
  const { totals, totalsSource, totalsSources, totalsForEveryone, totalsChanges = [] } = found;
  return {
    ...{ limits: totals, source: totalsSource, sources: totalsSources },
    ...{ forEveryone: totalsForEveryone, changes: totalsChanges },
  };
}

function mergedProblems(what: string, due: Merged, found: FoundLimits): string[] {
  const { limits, source, sources = {}, forEveryone = limits, changes } = found;
  const each = Object.fromEntries(limits.map(({ name }) => [name, sources[name] ?? source]));
  const problems: string[] = [];
  const unnumbered = changes.map(({ fromMs, limits: since }) => ({ fromMs, limits: since }));
  const isInOrder = changes.every(({ number }, i) => i === 0 || number > (changes[i - 1]?.number ?? 0));
  const dueChanges = due.changes.map(({ fromMs, limits: since }) => ({ fromMs, limits: since }));
  if (!isInOrder || !isSame(unnumbered, dueChanges)) {
    problems.push(`${what}has the changes ${JSON.stringify(changes)}, not ${JSON.stringify(due.changes)}`);
  }
  if (!isSame([limits, source, each], [due.limits, due.source, due.sources])) {
    problems.push(`${what}resolves to ${JSON.stringify(limits)} of ${JSON.stringify(each)}`);
  }
  if (!isSame(forEveryone, due.forEveryone)) {
    problems.push(`${what}charges from below ${JSON.stringify(forEveryone)}, not ${JSON.stringify(due.forEveryone)}`);
  }
  return problems;
}

function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
