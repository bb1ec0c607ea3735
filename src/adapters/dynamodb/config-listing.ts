import type { ConfigScope, StoredConfig } from "../../domain/config/config.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { Attributes } from "./codec.ts";
import { decodeConfig } from "./config-codec.ts";
import { isBeingDeleted } from "./entities-record.ts";
import { collected, cursorOf, inChunks, placeAfter } from "./paging.ts";
import type { Records } from "./records.ts";
import { keyIn } from "./records-write.ts";
import {
  configKey,
  entityKey,
  entityPk,
  GSI4PK,
  GSI4SK,
  NAMESPACE_INDEX,
  PK,
  parseConfigKey,
  planKey,
  planPk,
  resourcePk,
  SK,
  type TableKey,
} from "./schema.ts";

interface Found {
  readonly scope: ConfigScope;
  readonly config: StoredConfig;
}

/** Every stored configuration of a namespace: the index has the keys, the items themselves are looked up. */
export class StoredConfigs {
  readonly #namespaceId: string;
  readonly #records: Records;

  constructor(namespaceId: string, records: Records) {
    this.#namespaceId = namespaceId;
    this.#records = records;
  }

  async list({ entityId }: { readonly entityId?: string }, { limit, cursor }: PageRequest): Promise<Page<Found>> {
    if (entityId !== undefined) return { items: await this.#ofEntity(entityId) };
    const [after] = placeAfter(cursor, 1) ?? [];
    const items: Found[] = [];
    if (after === undefined) items.push(...(await this.#read([{ level: "system" }, { level: "systemTotal" }])));
    // Entities, plans, resources sort in this order: they are walked partition by partition, so that a page ends between two of them.
    for (const kind of [entityPk, planPk, resourcePk].map((pk) => pk(this.#namespaceId, ""))) {
      if (after !== undefined && after >= `${kind}~`) continue;
      const from = after === undefined || after < kind ? kind : `${after}!`;
      for await (const scopes of this.#partitions(from, `${kind}~`)) {
        items.push(...(await this.#read(scopes)));
        const last = scopes.at(-1);
        if (items.length < limit || last === undefined) continue;
        return { items, cursor: cursorOf(configKey(this.#namespaceId, last).pk) };
      }
    }
    return { items };
  }

  /** Scopes in chunks that do not end within a partition. */
  async *#partitions(from: string, to: string): AsyncGenerator<readonly ConfigScope[]> {
    const keys = this.#records.query({
      index: NAMESPACE_INDEX,
      partition: [GSI4PK, this.#namespaceId],
      range: { name: GSI4SK, from, to },
      keysOnly: true,
    });
    let open: ConfigScope[] = [];
    for await (const chunk of inChunks(keys, CHUNK)) {
      const found = [...open, ...chunk.flatMap((item) => parseConfigKey(keyIn(item)) ?? [])];
      const lastPk = keyIn(chunk.at(-1) as Attributes).pk;
      const isOpen = (scope: ConfigScope) => configKey(this.#namespaceId, scope).pk === lastPk;
      open = found.filter(isOpen);
      const whole = found.filter((scope) => !isOpen(scope));
      if (whole.length > 0) yield whole;
    }
    if (open.length > 0) yield open;
  }

  async #ofEntity(entityId: string): Promise<readonly Found[]> {
    const items = await collected(
      this.#records.query({
        partition: [PK, entityPk(this.#namespaceId, entityId)],
        range: { name: SK, from: "#CONFIG#", to: "#CONFIG$" },
        consistent: true,
      }),
    );
    const scopes = items.flatMap((item) => parseConfigKey(keyIn(item)) ?? []);
    return this.#read([...scopes, { level: "entityTotal", entityId }]);
  }

  async #read(scopes: readonly ConfigScope[]): Promise<readonly Found[]> {
    const owners = [...new Map(scopes.flatMap((scope) => this.#ownerKey(scope)).map((key) => [key.pk, key])).values()];
    const keys = [...scopes.map((scope) => configKey(this.#namespaceId, scope)), ...owners];
    const found = await this.#records.getAll(keys, { consistent: true });
    const gone = new Set(owners.flatMap(({ pk }, i) => (isBeingDeleted(found[scopes.length + i]) ? [pk] : [])));
    return scopes.flatMap((scope, i) => {
      const config = decodeConfig(found[i]);
      return config === undefined || gone.has(configKey(this.#namespaceId, scope).pk) ? [] : [{ scope, config }];
    });
  }

  #ownerKey(scope: ConfigScope): readonly TableKey[] {
    if ("planId" in scope) return [planKey(this.#namespaceId, scope.planId)];
    return "entityId" in scope ? [entityKey(this.#namespaceId, scope.entityId)] : [];
  }
}

const CHUNK = 100;
