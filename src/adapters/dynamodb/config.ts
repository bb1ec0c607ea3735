import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import type { AuditEvent } from "../../domain/config/audit.ts";
import {
  auditIdOf,
  type ConfigScope,
  type LevelConfig,
  type LimitsChange,
  type PolicyChange,
  type StoredConfig,
} from "../../domain/config/config.ts";
import {
  type ConfigChange,
  type Conflict,
  type DeletedPart,
  detailsOf,
  limitsChanged,
  limitsChangedIf,
  limitsDeleted,
  policyChanged,
  withoutLimits,
} from "../../domain/config/config-change.ts";
import type { StoredLevel } from "../../domain/config/config-versions.ts";
import { limitsAnything } from "../../domain/config/overrides.ts";
import { refuseUsageKeptDaysShared } from "../../domain/config/retention.ts";
import { refuseLimitsShared } from "../../domain/limits/beyond-rates.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { ConfigStore, SetReply } from "../../ports/config-store.ts";
import { failAfterMaxConflicts } from "./changes.ts";
import type { Attributes } from "./codec.ts";
import {
  type ConfigPlace,
  countConfigs,
  decodeConfig,
  decodePolicy,
  encodeConfig,
  FLAGS,
  hasBase,
  hasLimits,
  historyAfter,
  ifReadable,
  isCounted,
  isHistoryOnly,
  listResource,
  wordsIn,
} from "./config-codec.ts";
import type { ConfigPropagation } from "./config-propagation.ts";
import { DELETING, isBeingDeleted, isOwnerGone, isPlan, planOf } from "./entities-record.ts";
import { finishRemoval } from "./entities-removal.ts";
import { changeIn, type NamespaceParts, readActive } from "./namespace-parts.ts";
import { pageAfter } from "./paging.ts";
import { entityIndex, type Records, tablePartition } from "./records.ts";
import {
  all,
  type Condition,
  checkRecord,
  deleteRecord,
  isStill,
  keyIn,
  missing,
  putRecord,
  type RecordWrite,
} from "./records-write.ts";
import {
  CONFIG_VERSION,
  configKey,
  configOwnerKeys,
  configResource,
  DEFAULT_RESOURCE,
  entityConfigRegistryKey,
  entityConfigsPk,
  entityKey,
  entityPk,
  GSI3SK,
  parseConfigKey,
  RESOURCES,
  resourceRegistryKey,
  type TableKey,
} from "./schema.ts";
import { notShared, refuseLevelShared } from "./version-gate.ts";

interface ConfigParts extends NamespaceParts {
  readonly propagation: ConfigPropagation;
}

/** Stored limits of one namespace, in the format of the original. */
export class DynamoConfig implements ConfigStore {
  readonly #namespaceId: string;
  readonly #parts: ConfigParts;
  readonly #records: Records;

  constructor(parts: ConfigParts) {
    this.#namespaceId = parts.namespaceId;
    this.#parts = parts;
    this.#records = parts.records;
  }

  /** A table has no counter of changes; changes are announced on the buckets instead. */
  generation(): undefined {
    return undefined;
  }

  resolve(entityId: string, resource: string, read?: "consistent"): Promise<LevelConfig> {
    const bucket = bucketKey(entityId, resource);
    const { shared, buckets, reader } = this.#parts;
    // On a table shared with the original, configuration counts only if it was read after the bucket.
    const onFirstRead = shared ? undefined : buckets.onFirstRead(bucket);
    return reader.resolve(bucket, { consistent: read === "consistent", onFirstRead });
  }

  history(entityId: string, resource: string): Promise<StoredLevel> {
    return this.#parts.reader.history(bucketKey(entityId, resource));
  }

  async get(scope: ConfigScope): Promise<StoredConfig | undefined> {
    const key = configKey(this.#namespaceId, scope);
    const owners = configOwnerKeys(this.#namespaceId, scope);
    if (owners.length === 0) return decodeConfig(await this.#records.get(key));
    const [item, owner] = await this.#records.getAll([key, ...owners]);
    return isOwnerGone(scope, owner) ? undefined : decodeConfig(item);
  }

  async set(scope: ConfigScope, change: LimitsChange, event: AuditEvent): Promise<SetReply> {
    const { shared, gate, propagation } = this.#parts;
    if (shared) {
      refuseUsageKeptDaysShared(change);
      refuseLevelShared(scope, change);
      refuseLimitsShared(change.limits ?? []);
    }
    await gate.demandFor(change.limits ?? []);
    if (change.untilMs !== undefined) await gate.demandOverrides();
    const reply = await changeConfig(this.#parts, scope, event, (before) => changedItem(before, change, event.atMs));
    // The original uses its buckets only, so they are updated even if nothing changed: an earlier call may have been
    // interrupted.
    if (reply === "written" || (reply === "unchanged" && shared)) await propagation.limitsChanged(scope);
    return reply;
  }

  /** Live buckets are updated even if nothing changed: an earlier call may have been interrupted. */
  async setPolicy(scope: ConfigScope, change: PolicyChange, event: AuditEvent): Promise<boolean> {
    const { shared, gate } = this.#parts;
    if (shared && change.untilMs !== undefined) throw notShared("Access with an end");
    // The original would go on granting.
    if (shared && change.frozen !== undefined) throw notShared("Frozen namespaces");
    await gate.demandForPolicy(change);
    if (change.untilMs !== undefined) await gate.demandOverrides();
    const reply = await changeConfig(this.#parts, scope, event, (before) =>
      policyChanged(decodeConfig(before), change, event.atMs),
    );
    if (change.access !== undefined) await this.#parts.propagation.accessChanged(scope, change.access);
    if (change.cascade !== undefined) await this.#parts.propagation.cascadeChanged(scope);
    return reply === "written";
  }

  async delete(scope: ConfigScope, event: AuditEvent, part: DeletedPart): Promise<boolean> {
    const { atMs } = event;
    const reply = await changeConfig(this.#parts, scope, event, (before) => {
      // Limits that are deleted may be unreadable.
      if (part === "all" && hasBase(before)) return withoutLimits(decodePolicy(before), atMs);
      return limitsDeleted(decodeConfig(before), part, atMs);
    });
    if (reply === "written") await this.#parts.propagation.limitsChanged(scope);
    return reply === "written";
  }

  listForEntity(entityId: string, nowMs: number, page: PageRequest): Promise<Page<ScopedConfig>> {
    return pageAfter(
      page,
      (after) => this.#ofEntity({ entityId, nowMs }, after),
      ({ scope }) => (scope.level === "entity" ? scope.resource : ""),
    );
  }

  listEntities(resource: string, nowMs: number, page: PageRequest): Promise<Page<string>> {
    return pageAfter(page, (after, count) => this.#entitiesOn({ resource, nowMs }, after, count), itself);
  }

  /** Resources with configuration of entities, which may be only a policy. */
  listEntityResources(nowMs: number, page: PageRequest): Promise<Page<string>> {
    return pageAfter(page, (after) => this.#entityResources(nowMs, after), itself);
  }

  async *#entityResources(nowMs: number, after = ""): AsyncGenerator<string> {
    const counts = Object.entries((await this.#records.get(entityConfigRegistryKey(this.#namespaceId))) ?? {});
    const counted = counts.flatMap(([name, { N }]) => (N !== undefined && Number(N) > 0 ? [name] : []));
    for (const resource of counted.filter((name) => name > after && name !== DEFAULT_RESOURCE).sort()) {
      for await (const _ of this.#entitiesOn({ resource, nowMs }, undefined, 1)) {
        yield resource;
        break;
      }
    }
  }

  listResources(nowMs: number, page: PageRequest): Promise<Page<string>> {
    return pageAfter(page, (after, count) => this.#resources(nowMs, after, count), itself);
  }

  // The registry has the names; the items show whether an override is over. A shared table has none.
  async *#resources(nowMs: number, after: string | undefined, count: number): AsyncGenerator<string> {
    const registry = await this.#records.get(resourceRegistryKey(this.#namespaceId));
    const listed = (registry?.[RESOURCES]?.SS ?? []).toSorted();
    const names = listed.filter((name) => after === undefined || name > after);
    if (this.#parts.shared) return yield* names;
    const keyOf = (resource: string) => configKey(this.#namespaceId, { level: "resource", resource });
    for await (const [name, item] of this.#records.lookUp(names, count, keyOf)) if (hasLimits(item, nowMs)) yield name;
  }

  async *#ofEntity(
    { entityId, nowMs }: { readonly entityId: string; readonly nowMs: number },
    after: string | undefined,
  ): AsyncGenerator<ScopedConfig> {
    if (isBeingDeleted(await this.#records.get(entityKey(this.#namespaceId, entityId)))) return;
    const standard: ConfigScope = { level: "entityDefault", entityId };
    if (after === undefined) {
      const config = decodeConfig(await this.#records.get(configKey(this.#namespaceId, standard)));
      if (config !== undefined && limitsAnything(config, nowMs)) yield { scope: standard, config };
    }
    // `!` sorts before every character of a resource, `$` right after the `#` before it.
    const range = { from: after ? `#CONFIG#${after}!` : "#CONFIG#", to: "#CONFIG$" };
    const items = this.#records.query(tablePartition(entityPk(this.#namespaceId, entityId), range));
    for await (const item of items) {
      const scope = parseConfigKey(keyIn(item));
      const config = decodeConfig(item);
      // The entity's default was yielded first.
      if (scope?.level === "entity" && config !== undefined && limitsAnything(config, nowMs)) yield { scope, config };
    }
  }

  // The index has the ids; the items show whether there are limits or only a policy.
  async *#entitiesOn(
    { resource, nowMs }: { readonly resource: string; readonly nowMs: number },
    after: string | undefined,
    count: number,
  ): AsyncGenerator<string> {
    const range = { from: after === undefined ? "!" : `${after}!`, to: "~" };
    const items = this.#records.query(entityIndex(entityConfigsPk(this.#namespaceId, resource), range));
    const idIn = (item: Attributes) => item[GSI3SK]?.S ?? "";
    const keyOf = (item: Attributes) =>
      configKey(this.#namespaceId, { level: "entity", entityId: idIn(item), resource });
    for await (const [item, config] of this.#records.lookUp(items, count, keyOf)) {
      if (hasLimits(config, nowMs)) yield idIn(item);
    }
  }
}

interface ScopedConfig {
  readonly scope: ConfigScope;
  readonly config: StoredConfig;
}

function itself(name: string): string {
  return name;
}

function changedItem(before: Attributes | undefined, change: LimitsChange, nowMs: number): ConfigChange | Conflict {
  // The expected configuration was read before, so it is readable.
  if (change.expected !== undefined) return limitsChangedIf(decodeConfig(before), change, nowMs);
  // An override leaves the base as it is.
  if (change.limits === undefined || change.untilMs !== undefined) {
    return limitsChanged(decodeConfig(before), change, nowMs);
  }
  if (change.ifAbsent === true && hasBase(before)) return { kind: "unchanged" };
  // Limits that are replaced may be unreadable. Without a version the item was made by the original's provisioner,
  // which lists nothing: it is written again, so that it is listed.
  const legible = before?.[CONFIG_VERSION] === undefined ? undefined : ifReadable(() => decodeConfig(before));
  return limitsChanged(legible ?? decodePolicy(before), change, nowMs);
}

/**
 * Makes a change of configuration: the item, both registries and the audit event in one transaction. Its condition is that
 * every configured attribute is as it was read. A version number would not do: the original replaces the whole item,
 * and the number would start again.
 */
function changeConfig(
  parts: NamespaceParts,
  scope: ConfigScope,
  event: AuditEvent,
  decide: (before: Attributes | undefined) => ConfigChange | Conflict,
): Promise<SetReply> {
  const { namespaceId, recent, shared } = parts;
  return changeIn<SetReply>(parts, whatOf(scope), event, async () => {
    const { before, owner } = await readConfig(parts, scope);
    if ("planId" in scope && planOf(owner) === undefined) return { reply: "planMissing" };
    const changed = decide(before);
    if (changed.kind !== "changed") return { reply: changed.kind };
    recent.note();
    const history = shared ? undefined : historyAfter(before, changed.config, event.atMs);
    const place = { namespaceId, scope };
    const after = encodeConfig(changed.config, before, place, history);
    return {
      reply: "written",
      event: { ...event, details: detailsOf(event.details, changed) },
      writes: [
        ...itemWrites(configKey(namespaceId, scope), before, after),
        ...registryWrites(place, before, after),
        ...ownerChecks(place),
      ],
      onApplied: () => recent.note(),
    };
  });
}

/** The item, and its owner's. Finishes the removal of a deleted entity first. */
async function readConfig(parts: NamespaceParts, scope: ConfigScope) {
  const { namespaceId } = parts;
  for (let attempt = 0; ; attempt++) {
    failAfterMaxConflicts(attempt, whatOf(scope));
    const keys = [configKey(namespaceId, scope), ...configOwnerKeys(namespaceId, scope)];
    const [before, owner] = await readActive(parts, keys);
    if (!("entityId" in scope) || !isBeingDeleted(owner)) return { before, owner };
    await finishRemoval(parts, scope.entityId);
  }
}

function itemWrites(
  key: TableKey,
  before: Attributes | undefined,
  after: Attributes | undefined,
): readonly RecordWrite[] {
  if (after !== undefined) return [putRecord(key, after, before === undefined ? missing : isSameConfig(before))];
  return before === undefined ? [] : [deleteRecord(key, isSameConfig(before))];
}

function registryWrites(
  { namespaceId, scope }: ConfigPlace,
  before: Attributes | undefined,
  after: Attributes | undefined,
): readonly RecordWrite[] {
  const resource = configResource(scope);
  if (resource === undefined) return [];
  if ("entityId" in scope) {
    // Items with only a policy are counted too.
    const change = Number(after !== undefined && !isHistoryOnly(after)) - Number(isCounted(before));
    return countConfigs(namespaceId, { [resource]: change });
  }
  const isListed = hasLimits(after);
  // The original's provisioner neither lists resources nor counts versions.
  const wasListed = hasLimits(before) && before?.[CONFIG_VERSION] !== undefined;
  return isListed === wasListed ? [] : [listResource(namespaceId, resource, isListed)];
}

// If the owner was deleted meanwhile, its removal may have passed this item already. An entity need not exist.
function ownerChecks({ namespaceId, scope }: ConfigPlace): readonly RecordWrite[] {
  const stands = "planId" in scope ? isPlan : isStill(DELETING, undefined);
  return configOwnerKeys(namespaceId, scope).map((key) => checkRecord(key, stands));
}

function whatOf(scope: ConfigScope): string {
  return `The configuration of ${auditIdOf(scope)}`;
}

function isSameConfig(item: Attributes): Condition {
  const words = wordsIn(item);
  const names = new Set([...Object.keys(words), ...FLAGS]);
  return all(...[...names].map((name) => isStill(name, words[name])));
}
