import { type BucketKey, bucketKey } from "../../domain/bucket/bucket-key.ts";
import { refuseCountsShared } from "../../domain/charge/shared-counts.ts";
import type { AuditEvent } from "../../domain/config/audit.ts";
import type { ConfigScope, LevelConfig, LimitsChange, PolicyChange, StoredConfig } from "../../domain/config/config.ts";
import {
  type ConfigChange,
  type Conflict,
  limitsChanged,
  limitsChangedIf,
  limitsDeleted,
  policyChanged,
  withoutLimits,
} from "../../domain/config/config-change.ts";
import { refuseUsageKeptDaysShared } from "../../domain/config/retention.ts";
import { refuseBeyondRatesShared } from "../../domain/limits/beyond-rates.ts";
import { VersionError } from "../../domain/names/errors.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { ConfigStore, SetReply } from "../../ports/config-store.ts";
import type { Attributes } from "./codec.ts";
import { type ChangeParts, ConfigChanges } from "./config-changes.ts";
import { decodeConfig, decodePolicy, hasLimits } from "./config-codec.ts";
import type { ConfigPropagation } from "./config-propagation.ts";
import type { ConfigReader, OnFirstRead } from "./config-reader.ts";
import { isBeingDeleted } from "./entities-record.ts";
import { cursorOf, inChunks, pageOf, placeAfter } from "./paging.ts";
import { planOf } from "./plans-record.ts";
import type { Records } from "./records.ts";
import {
  CONFIG_VERSION,
  configKey,
  DEFAULT_RESOURCE,
  ENTITY_INDEX,
  entityConfigRegistryKey,
  entityConfigsPk,
  entityKey,
  entityPk,
  GSI3PK,
  GSI3SK,
  PK,
  parseConfigKey,
  planKey,
  RESOURCES,
  resourceRegistryKey,
  SK,
} from "./schema.ts";
import { refuseLevelShared } from "./shared-table.ts";
import type { VersionGate } from "./version-gate.ts";

interface ConfigParts extends ChangeParts {
  readonly reader: ConfigReader;
  readonly gate: VersionGate;
  readonly propagation: ConfigPropagation;
  /** Called with the item of a bucket that is read together with its configuration; undefined where it need not be read. */
  onFirstRead(bucket: BucketKey): OnFirstRead | undefined;
}

/** Stored limits of one namespace, in the format of the original. */
export class DynamoConfig implements ConfigStore {
  readonly #namespaceId: string;
  readonly #parts: ConfigParts;
  readonly #records: Records;
  readonly #changes: ConfigChanges;

  constructor(namespaceId: string, parts: ConfigParts) {
    this.#namespaceId = namespaceId;
    this.#parts = parts;
    this.#records = parts.records;
    this.#changes = new ConfigChanges(namespaceId, parts);
  }

  /** A table has no counter of changes; a change is announced on the buckets instead. */
  generation(): undefined {
    return undefined;
  }

  resolve(entityId: string, resource: string, read?: "consistent"): Promise<LevelConfig> {
    const bucket = bucketKey(entityId, resource);
    const onFirstRead = this.#parts.onFirstRead(bucket);
    return this.#parts.reader.resolve(bucket, { consistent: read === "consistent", onFirstRead });
  }

  async get(scope: ConfigScope): Promise<StoredConfig | undefined> {
    const key = configKey(this.#namespaceId, scope);
    if ("entityId" in scope) {
      const [item, meta] = await this.#records.getAll([key, entityKey(this.#namespaceId, scope.entityId)], CONSISTENT);
      return isBeingDeleted(meta) ? undefined : decodeConfig(item);
    }
    if (!("planId" in scope)) return decodeConfig(await this.#records.get(key));
    const [item, meta] = await this.#records.getAll([key, planKey(this.#namespaceId, scope.planId)], CONSISTENT);
    return planOf(meta) === undefined ? undefined : decodeConfig(item);
  }

  async set(scope: ConfigScope, change: LimitsChange, event: AuditEvent): Promise<SetReply> {
    const { shared, gate, propagation } = this.#parts;
    if (shared) {
      refuseUsageKeptDaysShared(change);
      refuseLevelShared(scope, change);
      refuseCountsShared(change.limits ?? []);
      refuseBeyondRatesShared(change.limits ?? []);
    }
    await gate.demandFor(change.limits ?? []);
    const reply = await this.#changes.make(scope, event, (before) => changedItem(before, change));
    // The original goes by its buckets alone, so they are told again, also where an earlier call was cut off before it told them.
    if (reply === "written" || (reply === "unchanged" && shared)) await propagation.limitsChanged(scope);
    return reply;
  }

  /** Live buckets are told of a switch in any case: an earlier call may have been cut off before it told them. */
  async setPolicy(scope: ConfigScope, change: PolicyChange, event: AuditEvent): Promise<boolean> {
    await this.#parts.gate.demandForPolicy(change);
    const reply = await this.#changes.make(scope, event, (before) => policyChanged(decodeConfig(before), change));
    if (change.access !== undefined) await this.#parts.propagation.accessChanged(scope, change.access);
    if (change.cascade !== undefined) await this.#parts.propagation.cascadeChanged(scope);
    return reply === "written";
  }

  async delete(scope: ConfigScope, event: AuditEvent): Promise<boolean> {
    const reply = await this.#changes.make(scope, event, (before) => {
      // Limits that are deleted need not be legible.
      const policy = decodePolicy(before);
      return hasLimits(before) ? withoutLimits(policy) : limitsDeleted(policy);
    });
    if (reply === "written") await this.#parts.propagation.limitsChanged(scope);
    return reply === "written";
  }

  async listForEntity(
    entityId: string,
    { limit, cursor }: PageRequest,
  ): Promise<Page<{ readonly scope: ConfigScope; readonly config: StoredConfig }>> {
    const [after] = placeAfter(cursor, 1) ?? [];
    if (isBeingDeleted(await this.#records.get(entityKey(this.#namespaceId, entityId)))) return { items: [] };
    return pageOf(this.#ofEntity(entityId, after), limit, ({ scope }) =>
      cursorOf(scope.level === "entity" ? scope.resource : ""),
    );
  }

  async listEntities(resource: string, { limit, cursor }: PageRequest): Promise<Page<string>> {
    const [after] = placeAfter(cursor, 1) ?? [];
    return pageOf(this.#entitiesOn(resource, after, limit + 1), limit, (entityId) => cursorOf(entityId));
  }

  /** Those that configuration of entities was counted for; it may say nothing but a policy. */
  async listEntityResources({ limit, cursor }: PageRequest): Promise<Page<string>> {
    const [after = ""] = placeAfter(cursor, 1) ?? [];
    const counts = Object.entries((await this.#records.get(entityConfigRegistryKey(this.#namespaceId))) ?? {});
    const counted = counts.flatMap(([name, { N }]) => (N !== undefined && Number(N) > 0 ? [name] : []));
    const names = counted.filter((name) => name > after && name !== DEFAULT_RESOURCE).sort();
    return pageOf(this.#withEntities(names), limit, (name) => cursorOf(name));
  }

  async *#withEntities(resources: readonly string[]): AsyncGenerator<string> {
    for (const resource of resources) {
      for await (const _ of this.#entitiesOn(resource, undefined, 1)) {
        yield resource;
        break;
      }
    }
  }

  async listResources({ limit, cursor }: PageRequest): Promise<Page<string>> {
    const [after] = placeAfter(cursor, 1) ?? [];
    const registry = await this.#records.get(resourceRegistryKey(this.#namespaceId));
    const names = (registry?.[RESOURCES]?.SS ?? []).toSorted();
    return pageOf(
      names.filter((name) => after === undefined || name > after),
      limit,
      (name) => cursorOf(name),
    );
  }

  async *#ofEntity(
    entityId: string,
    after: string | undefined,
  ): AsyncGenerator<{ readonly scope: ConfigScope; readonly config: StoredConfig }> {
    const standard: ConfigScope = { level: "entityDefault", entityId };
    if (after === undefined) {
      const config = decodeConfig(await this.#records.get(configKey(this.#namespaceId, standard)));
      if (config !== undefined && config.limits.length > 0) yield { scope: standard, config };
    }
    const items = this.#records.query({
      partition: [PK, entityPk(this.#namespaceId, entityId)],
      // `!` sorts before every character of a resource, `$` right after the `#` before it.
      range: { name: SK, from: after ? `#CONFIG#${after}!` : "#CONFIG#", to: "#CONFIG$" },
      consistent: true,
    });
    for await (const item of items) {
      const scope = parseConfigKey({ pk: item[PK]?.S ?? "", sk: item[SK]?.S ?? "" });
      const config = decodeConfig(item);
      // The entity's default was yielded first, wherever it sorts.
      if (scope?.level === "entity" && config !== undefined && config.limits.length > 0) yield { scope, config };
    }
  }

  // The index has the ids; whether there are limits, or only a policy, is looked up.
  async *#entitiesOn(resource: string, after: string | undefined, count: number): AsyncGenerator<string> {
    const items = this.#records.query({
      index: ENTITY_INDEX,
      partition: [GSI3PK, entityConfigsPk(this.#namespaceId, resource)],
      range: { name: GSI3SK, from: after === undefined ? "!" : `${after}!`, to: "~" },
    });
    for await (const chunk of inChunks(items, count)) {
      const ids = chunk.flatMap((item) => item[GSI3SK]?.S ?? []);
      const keys = ids.map((entityId) => configKey(this.#namespaceId, { level: "entity", entityId, resource }));
      const configs = await this.#records.getAll(keys, CONSISTENT);
      yield* ids.filter((_, i) => hasLimits(configs[i]));
    }
  }
}

const CONSISTENT = { consistent: true } as const;

function changedItem(before: Attributes | undefined, change: LimitsChange): ConfigChange | Conflict {
  // What is expected was read before, so it is legible.
  if (change.expected !== undefined) return limitsChangedIf(decodeConfig(before), change);
  if (change.limits === undefined) return limitsChanged(decodeConfig(before), change);
  if (change.ifAbsent === true && hasLimits(before)) return { kind: "unchanged" };
  // Limits that are replaced need not be legible. Without a version it was made by the original's provisioner, which lists
  // nothing: it is written again, so that it is listed.
  const legible = before?.[CONFIG_VERSION] === undefined ? undefined : readOrNothing(before);
  return limitsChanged(legible ?? decodePolicy(before), change);
}

function readOrNothing(item: Attributes): StoredConfig | undefined {
  try {
    return decodeConfig(item);
  } catch (error) {
    if (error instanceof VersionError) return undefined;
    throw error;
  }
}
