import type { AuditEvent } from "../../domain/audit.ts";
import { type BucketKey, bucketKey } from "../../domain/bucket-key.ts";
import {
  type ConfigScope,
  type LevelConfig,
  type PolicyChange,
  resolveConfig,
  type StoredConfig,
  scopesOf,
  withLimits,
  withoutLimits,
  withPolicy,
} from "../../domain/config.ts";
import type { Page, PageRequest } from "../../domain/paging.ts";
import type { ConfigStore } from "../../ports/config-store.ts";
import type { Item } from "../../ports/item-store.ts";
import type { Clock } from "../../ports/system.ts";
import type { ConfigReadings } from "../../protocol/config-readings.ts";
import type { DynamoAudit } from "./audit.ts";
import { type Attributes, decodeItem } from "./codec.ts";
import { ConfigChanges } from "./config-changes.ts";
import { decodeConfig, decodePolicy, hasLimits } from "./config-codec.ts";
import type { ConfigReach } from "./config-reach.ts";
import { DELETING, entityOf } from "./entities-record.ts";
import type { EntityRemoval } from "./entities-removal.ts";
import type { NamespaceWatch } from "./namespaces-record.ts";
import { cursorOf, inChunks, pageOf, placeAfter } from "./paging.ts";
import type { Records } from "./records.ts";
import {
  configKey,
  ENTITY_INDEX,
  entityConfigsPk,
  entityKey,
  entityPk,
  GSI3PK,
  GSI3SK,
  itemTableKey,
  namespaceIdKey,
  PK,
  parseConfigKey,
  RESOURCES,
  resourceRegistryKey,
  SK,
} from "./schema.ts";
import type { VersionGate } from "./version-gate.ts";

export interface ConfigParts {
  readonly records: Records;
  /** Those of whoever waits with a request: bounded by its time. */
  readonly urgent: Records;
  readonly watch: NamespaceWatch;
  readonly audit: DynamoAudit;
  readonly removal: EntityRemoval;
  readonly readings: ConfigReadings;
  readonly gate: VersionGate;
  /** Takes in a bucket that is read together with its configuration; undefined where it is known, or must be read later. */
  onFirstRead(bucket: BucketKey): ((item: Item | undefined, atMs: number) => void) | undefined;
  readonly clock: Clock;
  /** Asked for late: what it reaches goes by this very configuration. */
  reach(): ConfigReach;
}

/** Stored limits of one namespace, in the words of the original. */
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

  /** The table does not tell of changes: buckets do. */
  generation(): undefined {
    return undefined;
  }

  resolve(entityId: string, resource: string): Promise<LevelConfig> {
    const bucket = bucketKey(entityId, resource);
    const consistent = this.#parts.readings.mustBeConsistent(bucket.id) || this.#parts.reach().isFresh;
    return this.#resolve(bucket, this.#parts.urgent, { consistent, meet: this.#parts.onFirstRead(bucket) });
  }

  /** With all that was answered before. */
  resolveNow(bucket: BucketKey): Promise<LevelConfig> {
    return this.#resolve(bucket, this.#records, CONSISTENT);
  }

  async get(scope: ConfigScope): Promise<StoredConfig | undefined> {
    const key = configKey(this.#namespaceId, scope);
    if (!("entityId" in scope)) return decodeConfig(await this.#records.get(key));
    const [item, meta] = await this.#records.getAll([key, entityKey(this.#namespaceId, scope.entityId)], CONSISTENT);
    return isDeleted(meta) ? undefined : decodeConfig(item);
  }

  async set(
    scope: ConfigScope,
    config: Pick<StoredConfig, "limits" | "onUnavailable">,
    event: AuditEvent,
  ): Promise<void> {
    await this.#parts.gate.demandFor(config.limits);
    await this.#changes.make(scope, event, (before) => ({ config: withLimits(decodePolicy(before), config) }));
    await this.#parts.reach().limitsChanged(scope);
  }

  async setPolicy(scope: ConfigScope, change: PolicyChange, event: AuditEvent): Promise<void> {
    await this.#parts.gate.demandForPolicy(change);
    await this.#changes.make(scope, event, (before) => ({ config: withPolicy(decodeConfig(before), change) }));
    if (change.access !== undefined) await this.#parts.reach().accessChanged(scope);
    if (change.cascade !== undefined) await this.#parts.reach().cascadeChanged(scope);
  }

  async delete(scope: ConfigScope, event: AuditEvent): Promise<boolean> {
    const isDone = await this.#changes.make(scope, event, (before) => {
      const policy = decodePolicy(before);
      if (!hasLimits(before) && policy?.onUnavailable === undefined) return "nothing";
      return { config: policy === undefined ? undefined : withoutLimits(policy) };
    });
    if (isDone) await this.#parts.reach().limitsChanged(scope);
    return isDone;
  }

  async listForEntity(
    entityId: string,
    { limit, cursor }: PageRequest,
  ): Promise<Page<{ readonly scope: ConfigScope; readonly config: StoredConfig }>> {
    const [after] = placeAfter(cursor, 1) ?? [];
    if (isDeleted(await this.#records.get(entityKey(this.#namespaceId, entityId)))) return { items: [] };
    return pageOf(this.#ofEntity(entityId, after), limit, ({ scope }) =>
      cursorOf(scope.level === "entity" ? scope.resource : ""),
    );
  }

  async listEntities(resource: string, { limit, cursor }: PageRequest): Promise<Page<string>> {
    const [after] = placeAfter(cursor, 1) ?? [];
    return pageOf(this.#entitiesOn(resource, after, limit + 1), limit, (entityId) => cursorOf(entityId));
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

  // One call for all of it; at first contact with the bucket itself.
  async #resolve(bucket: BucketKey, records: Records, { consistent, meet }: ResolveOptions): Promise<LevelConfig> {
    const { readings, watch, audit, clock } = this.#parts;
    const { entityId, resource } = bucket;
    const namespaceId = this.#namespaceId;
    const reading = readings.begin();
    const atMs = clock.now();
    const scopes = scopesOf(entityId, resource);
    const isWatched = consistent || !watch.wasActive(namespaceId);
    const found = await records.getAll(
      [
        ...scopes.map((scope) => configKey(namespaceId, scope)),
        entityKey(namespaceId, entityId),
        ...(isWatched ? [namespaceIdKey(namespaceId)] : []),
        ...(meet === undefined ? [] : [itemTableKey(namespaceId, { bucket, shard: 0 })]),
      ],
      { consistent },
    );
    const meta = found[scopes.length];
    if (isWatched) watch.requireActive(namespaceId, found[scopes.length + 1]);
    meet?.(decoded(found[scopes.length + (isWatched ? 2 : 1)]), atMs);
    audit.learn(found[scopes.length - 1]);
    const stored = scopes.map((scope, i) =>
      "entityId" in scope && isDeleted(meta) ? undefined : decodeConfig(found[i]),
    );
    return { ...resolveConfig(stored, scopes, entityOf(meta)), reading };
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
      // `!` stands before all that resources are made of, `$` after the `#` before them.
      range: { name: SK, from: after ? `#CONFIG#${after}!` : "#CONFIG#", to: "#CONFIG$" },
      consistent: true,
    });
    for await (const item of items) {
      const scope = parseConfigKey({ pk: item[PK]?.S ?? "", sk: item[SK]?.S ?? "" });
      const config = decodeConfig(item);
      // Its default came first, wherever it stands.
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

interface ResolveOptions {
  readonly consistent: boolean;
  readonly meet?: ReturnType<ConfigParts["onFirstRead"]>;
}

function decoded(item: Attributes | undefined): Item | undefined {
  return item === undefined ? undefined : decodeItem(item);
}

function isDeleted(meta: Attributes | undefined): boolean {
  return meta?.[DELETING] !== undefined;
}
