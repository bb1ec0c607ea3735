import type { AuditEvent } from "../domain/config/audit.ts";
import type { ChangeTime } from "../domain/config/change-number.ts";
import { type ConfigScope, type LevelConfig, type StoredConfig, scopesOf } from "../domain/config/config.ts";
import {
  type ConfigChange,
  detailsOf,
  limitsChangedIf,
  limitsDeleted,
  policyChanged,
} from "../domain/config/config-change.ts";
import { formerPlans, resolveLevel, type StoredLevel, stintsFrom } from "../domain/config/config-versions.ts";
import { namespaceNotActive } from "../domain/config/namespace.ts";
import { refuseUsageKeptDays } from "../domain/config/retention.ts";
import type { PageRequest } from "../domain/names/paging.ts";
import { run, type Steps, waitFor } from "../domain/steps.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import type { ConfigStore, SetReply } from "../ports/config-store.ts";
import type { RecordList, StoredRecord } from "../ports/record-store.ts";
import { scopeOfRow } from "../stored/config-keys.ts";
import {
  configKey,
  configOf,
  configPut,
  entityKey,
  entityOf,
  historyOf,
  namespaceKey,
  namespaceOf,
  planKey,
  stintsOf,
  textOf,
  versionPuts,
  versionsIn,
} from "./bodies.ts";
import type { Decision, ScopedRecords } from "./scoped-records.ts";

/** Limits at all levels, and what applies by them: in one question, or two. */
export function configOn(records: ScopedRecords): ConfigStore {
  const resolver = new Resolver(records);
  const { isUnchanged } = records;
  return {
    ...storedConfigOn(records),
    ...(isUnchanged === undefined ? {} : { isUnchanged }),
    askGeneration: () => records.askGeneration(),
    resolve: (entityId, resource) => run(resolver.resolve(entityId, resource)),
    history: (entityId, resource) => run(resolver.history(entityId, resource)),
  };
}

/** Limits at all levels, as they are stored. What applies by them is for each store to say. */
export function storedConfigOn(records: ScopedRecords): Omit<ConfigStore, "resolve" | "history"> {
  const change = (
    scope: ConfigScope,
    event: AuditEvent,
    changed: (before: StoredConfig | undefined) => ConfigChange,
  ): MaybePromise<boolean> =>
    records.make([configKey(scope), historyOf(scope)], event, ([record, history], reading) => {
      const before = record && configOf(record);
      return decisionOf(scope, { before, history }, changed(before), { time: reading.timeOf(event), event }, [
        true,
        false,
      ]);
    });
  const names = (list: RecordList, page: PageRequest, part: 1 | 2) =>
    records.page(list, page, 1, ({ key }) => key[part] as string);
  return {
    generation: () => records.generation(),
    get: (scope) => records.one(configKey(scope), configOf),
    set: (scope, limits, event) => {
      refuseUsageKeptDays(limits);
      const keys = [configKey(scope), historyOf(scope), ...("planId" in scope ? [planKey(scope.planId)] : [])];
      return records.make(keys, event, ([record, history, plan], reading): Decision<SetReply> => {
        if ("planId" in scope && plan === undefined) return { reply: "planMissing" };
        const before = record && configOf(record);
        const changed = limitsChangedIf(before, limits, event.atMs);
        if (changed.kind === "conflict") return { reply: "conflict" };
        const made = { time: reading.timeOf(event), event };
        return decisionOf(scope, { before, history }, changed, made, ["written", "unchanged"]);
      });
    },
    setPolicy: (scope, policy, event) => change(scope, event, (before) => policyChanged(before, policy, event.atMs)),
    delete: (scope, event, part) => change(scope, event, (before) => limitsDeleted(before, part, event.atMs)),
    listForEntity: (entityId, nowMs, page) => {
      const list = { kind: "config", of: "entity", entityId, nowMs } as const;
      return records.page(list, page, 1, ({ key, body }) => ({
        scope: scopeOfRow(entityId, key[2] as string),
        config: configOf({ kind: "config", key, body }),
      }));
    },
    listEntities: (resource, nowMs, page) => names({ kind: "config", of: "resource", resource, nowMs }, page, 1),
    listEntityResources: (nowMs, page) => names({ kind: "config", of: "entityResources", nowMs }, page, 2),
    listResources: (nowMs, page) => names({ kind: "config", of: "defaults", nowMs }, page, 2),
  };
}

function decisionOf<Reply>(
  scope: ConfigScope,
  { before, history }: { readonly before: StoredConfig | undefined; readonly history: StoredRecord | undefined },
  change: ConfigChange,
  { time, event }: { readonly time: ChangeTime; readonly event: AuditEvent },
  [written, unchanged]: readonly [written: Reply, unchanged: Reply],
): Decision<Reply> {
  if (change.kind === "unchanged") return { reply: unchanged };
  const { config: after } = change;
  const puts = versionPuts(scope, history, { before, after }, time);
  const write =
    after === undefined ? { puts, deletes: [configKey(scope)] } : { puts: [...puts, configPut(scope, after)] };
  return { reply: written, write, event: { ...event, details: detailsOf(event.details, change) } };
}

const ENTITIES_MAX = 10_000;
const RESOURCES_MAX = 1_000;
const TRIES_MAX = 50;

/**
 * Resolves one level of a chain in one question, where the plans of an entity are known: what they say must be asked for in the same one,
 * and who has them is in its answer. So an entity that has a plan is asked for twice by a process, the first time.
 */
class Resolver {
  readonly #records: ScopedRecords;
  readonly #plansOf = new Map<string, readonly string[]>();
  /** By resource: the last level that was resolved, and all that it follows from. */
  readonly #last = new Map<string, { readonly from: readonly unknown[]; readonly level: LevelConfig }>();

  constructor(records: ScopedRecords) {
    this.#records = records;
  }

  *resolve(entityId: string, resource: string): Steps<LevelConfig> {
    const stored = yield* this.history(entityId, resource);
    return { ...this.#levelOf(entityId, resource, stored), generation: stored.generation };
  }

  /** Ids that have nothing of their own all go by the same: what follows from that is worked out once. */
  #levelOf(entityId: string, resource: string, stored: StoredLevel): LevelConfig {
    const { entity, stints, configOf, historyOf } = stored;
    const scopes = scopesOf(entityId, resource, entity?.planId);
    const from = [entity, stints, ...scopes.map(configOf), ...scopes.map(historyOf)];
    const last = this.#last.get(resource);
    // The plans that an id had before say something, too, and are not compared.
    const isSame = stints === undefined && last !== undefined && last.from.every((one, i) => one === from[i]);
    if (isSame && last.from.length === from.length) return last.level;
    const level = resolveLevel({ entityId, resource }, entity, stints, stored);
    if (this.#last.size >= RESOURCES_MAX) this.#last.clear();
    this.#last.set(resource, { from, level });
    return level;
  }

  *history(entityId: string, resource: string): Steps<StoredLevel & { readonly generation: number }> {
    let asked = this.#plansOf.get(entityId) ?? [];
    for (let tries = 1; ; tries++) {
      const found = yield* this.#read(entityId, resource, asked);
      const entity = found.entity && entityOf(found.entity);
      const stints = found.stints && stintsFrom(textOf(found.stints));
      const wanted = [...(entity?.planId === undefined ? [] : [entity.planId]), ...formerPlans(stints)];
      if (wanted.every((planId) => asked.includes(planId)) || tries === TRIES_MAX) {
        return { ...found, entity, stints };
      }
      if (this.#plansOf.size >= ENTITIES_MAX) this.#plansOf.clear();
      this.#plansOf.set(entityId, wanted);
      asked = wanted;
    }
  }

  *#read(entityId: string, resource: string, planIds: readonly string[]) {
    const { scope: namespaceId } = this.#records;
    const scopes = [
      ...scopesOf(entityId, resource, undefined),
      ...planIds.flatMap((planId) => scopesOf(entityId, resource, planId).filter((scope) => "planId" in scope)),
    ];
    const { generation, records } = yield* waitFor(
      this.#records.found([
        ...[namespaceKey(namespaceId), entityKey(entityId), stintsOf(entityId)],
        ...scopes.map(configKey),
        ...scopes.map(historyOf),
      ]),
    );
    const [namespace, entity, stints, ...rest] = records;
    if (namespace === undefined || namespaceOf(namespace).status !== "active") throw namespaceNotActive(namespaceId);
    const places = new Map(scopes.map((scope, i) => [placeOf(scope), i]));
    const at = (scope: ConfigScope, offset: number) => {
      const i = places.get(placeOf(scope));
      return i === undefined ? undefined : rest[offset + i];
    };
    return {
      generation,
      entity,
      stints,
      configOf: (scope: ConfigScope) => {
        const record = at(scope, 0);
        return record && configOf(record);
      },
      historyOf: (scope: ConfigScope) => versionsIn(at(scope, scopes.length)),
    };
  }
}

function placeOf(scope: ConfigScope): string {
  return configKey(scope).key.join("\0");
}
