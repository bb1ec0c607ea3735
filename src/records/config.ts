import type { AuditEvent } from "../domain/config/audit.ts";
import type { ChangeTime } from "../domain/config/change-number.ts";
import type { ConfigScope, LevelConfig, LimitsChange, PolicyChange, StoredConfig } from "../domain/config/config.ts";
import { type ConfigChange, limitsChangedIf, limitsDeleted, policyChanged } from "../domain/config/config-change.ts";
import { refuseUsageKeptDays } from "../domain/config/retention.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import { andThen } from "../domain/steps.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import type { ConfigStore, SetReply } from "../ports/config-store.ts";
import type { RecordKey, RecordList, StoredRecord } from "../ports/record-store.ts";
import { scopeOfRow } from "../stored/config-keys.ts";
import { configOf, configPut } from "./bodies.ts";
import type { Decision } from "./changes.ts";
import { versionPuts } from "./histories.ts";
import { configKey, historyOf, planKey } from "./keys.ts";
import type { RecordParts } from "./parts.ts";
import { Resolver } from "./resolve.ts";

/** Limits at all levels, as they are stored. What applies by them is for each store to say. */
export abstract class ConfigRecords {
  readonly #parts: RecordParts;
  readonly #namespaceId: string;

  constructor(parts: RecordParts, namespaceId: string) {
    this.#parts = parts;
    this.#namespaceId = namespaceId;
  }

  generation(): number {
    return this.#parts.generations.of(this.#namespaceId);
  }

  get(scope: ConfigScope): MaybePromise<StoredConfig | undefined> {
    return this.#parts.lists.one(this.#namespaceId, configKey(scope), configOf);
  }

  set(scope: ConfigScope, change: LimitsChange, event: AuditEvent): MaybePromise<SetReply> {
    refuseUsageKeptDays(change);
    const keys = [configKey(scope), historyOf(scope), ...("planId" in scope ? [planKey(scope.planId)] : [])];
    return this.#parts.changes.make(
      this.#namespaceId,
      keys,
      event,
      ([record, history, plan], reading): Decision<SetReply> => {
        if ("planId" in scope && plan === undefined) return { reply: "planMissing" };
        const before = record && configOf(record);
        const changed = limitsChangedIf(before, change);
        if (changed.kind === "conflict") return { reply: "conflict" };
        const time = reading.timeOf(event);
        return decided(scope, { before, history }, changed, time, { written: "written", unchanged: "unchanged" });
      },
    );
  }

  setPolicy(scope: ConfigScope, change: PolicyChange, event: AuditEvent): MaybePromise<boolean> {
    return this.#change(scope, event, (before) => policyChanged(before, change));
  }

  delete(scope: ConfigScope, event: AuditEvent): MaybePromise<boolean> {
    return this.#change(scope, event, limitsDeleted);
  }

  listForEntity(
    entityId: string,
    page: PageRequest,
  ): MaybePromise<Page<{ readonly scope: ConfigScope; readonly config: StoredConfig }>> {
    const list: RecordList = { kind: "config", of: "owner", owner: ["entity", entityId], which: "limits" };
    return this.#parts.lists.page(this.#namespaceId, list, page, 1, ({ key, body }) => ({
      scope: scopeOfRow(entityId, key[2] as string),
      config: configOf({ kind: "config", key, body }),
    }));
  }

  listEntities(resource: string, page: PageRequest): MaybePromise<Page<string>> {
    return this.#names({ kind: "config", of: "resource", resource }, page, 1);
  }

  listEntityResources(page: PageRequest): MaybePromise<Page<string>> {
    return this.#names({ kind: "config", of: "entityResources" }, page, 2);
  }

  listResources(page: PageRequest): MaybePromise<Page<string>> {
    return this.#names({ kind: "config", of: "defaults" }, page, 2);
  }

  #names(list: RecordList, page: PageRequest, part: 1 | 2): MaybePromise<Page<string>> {
    return this.#parts.lists.page(this.#namespaceId, list, page, 1, ({ key }) => key[part] as string);
  }

  #change(
    scope: ConfigScope,
    event: AuditEvent,
    change: (before: StoredConfig | undefined) => ConfigChange,
  ): MaybePromise<boolean> {
    const keys = [configKey(scope), historyOf(scope)];
    return this.#parts.changes.make(this.#namespaceId, keys, event, ([record, history], reading) => {
      const before = record && configOf(record);
      return decided(scope, { before, history }, change(before), reading.timeOf(event), {
        written: true,
        unchanged: false,
      });
    });
  }
}

/** Limits at all levels, and what applies by them: in one question, or two. */
export class RecordConfig extends ConfigRecords implements ConfigStore {
  readonly #ask: (keys: readonly RecordKey[]) => MaybePromise<readonly (StoredRecord | undefined)[]>;
  readonly #resolver: Resolver;

  constructor(parts: RecordParts, namespaceId: string) {
    super(parts, namespaceId);
    this.#ask = (keys) => parts.lists.get(namespaceId, keys);
    this.#resolver = new Resolver(namespaceId, this.#ask);
  }

  askGeneration(): MaybePromise<void> {
    return andThen(this.#ask([]), () => {});
  }

  resolve(entityId: string, resource: string): MaybePromise<LevelConfig> {
    return this.#resolver.resolve(entityId, resource);
  }
}

function decided<Reply>(
  scope: ConfigScope,
  found: { readonly before: StoredConfig | undefined; readonly history: StoredRecord | undefined },
  change: ConfigChange,
  time: ChangeTime,
  replies: { readonly written: Reply; readonly unchanged: Reply },
): Decision<Reply> {
  if (change.kind === "unchanged") return { reply: replies.unchanged };
  const { config: after } = change;
  const puts = versionPuts(scope, found.history, { before: found.before, after }, time);
  const write =
    after === undefined ? { puts, deletes: [configKey(scope)] } : { puts: [...puts, configPut(scope, after)] };
  return { reply: replies.written, write };
}
