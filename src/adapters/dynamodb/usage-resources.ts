import type { Records } from "./records.ts";
import { type Condition, isStill, keyIn, texts, updateRecord } from "./records-write.ts";
import {
  GSI4PK,
  GSI4SK,
  NAMESPACE_INDEX,
  parseItemKey,
  systemIndexKeys,
  USED_RESOURCES,
  USED_RESOURCES_ARE,
  usageStateKey,
} from "./schema.ts";
import { readUsageState, type UsageState } from "./usage-closed.ts";

/** More than this are not noted: the item that has them would grow without end. */
const RESOURCES_MAX = 1_000;

/** As many as a slow table answers with in the time of one call. */
const KEYS_AT_ONCE = 1_000;

/**
 * A bucket that was used is there for a day at least. Within this after everything was closed, every bucket that has been used
 * since is either still there, or a sweep has seen it and noted its resource.
 */
export const FRESH_MS = 12 * 3_600_000;

/**
 * Which resources of a namespace have been used, as sweeps note it. The index that has the sheets of a day together is by
 * resource, so whoever knows the resources can list a day without passing over the sheets of all others.
 */
export class UsedResources {
  readonly #records: Records;
  readonly #namespaceId: string;
  readonly #known: Set<string>;
  #are: UsageState["resourcesAre"];
  readonly #closedUntilMs: number;

  constructor(records: Records, namespaceId: string, { closedUntilMs, resources, resourcesAre }: UsageState) {
    this.#records = records;
    this.#namespaceId = namespaceId;
    this.#known = new Set(resources);
    this.#are = resourcesAre;
    this.#closedUntilMs = closedUntilMs ?? 0;
  }

  static async in(records: Records, namespaceId: string): Promise<UsedResources> {
    return new UsedResources(records, namespaceId, await readUsageState(records, namespaceId));
  }

  /** To be noted before their buckets are let go. */
  async add(resources: Iterable<string>): Promise<void> {
    if (this.#are === "too many") return;
    const added = [...new Set(resources)].filter((resource) => !this.#known.has(resource));
    if (added.length === 0) return;
    if (this.#known.size + added.length > RESOURCES_MAX) {
      this.#are = "too many";
      await this.#write({ set: { [USED_RESOURCES_ARE]: { S: "too many" } } }, undefined);
      return;
    }
    for (const resource of added) this.#known.add(resource);
    await this.#write({ add: { [USED_RESOURCES]: { SS: added } } }, undefined);
  }

  /** All buckets were gone through. Where some may have come and gone unseen, the sheets they left are gone through too. */
  async complete(nowMs: number, isOver: () => boolean): Promise<void> {
    const isUnbroken = this.#are === "whole" && nowMs - this.#closedUntilMs < FRESH_MS;
    if (isUnbroken || this.#are === "too many") return;
    // Until this is done: it may be cut off.
    if (this.#are === "whole") await this.#write({ remove: [USED_RESOURCES_ARE] }, undefined);
    this.#are = "gathered";
    const partition = [GSI4PK, this.#namespaceId] as const;
    const by = { index: NAMESPACE_INDEX, partition, keysOnly: true, pageSize: KEYS_AT_ONCE } as const;
    for await (const item of this.#records.query({ ...by, range: { name: GSI4SK, prefix: "SHEET#" } })) {
      if (isOver()) return;
      const resource = parseItemKey(keyIn(item))?.key.bucket.resource;
      if (resource !== undefined && !this.#known.has(resource)) await this.add([resource]);
    }
    // Changed meanwhile: there are too many.
    if ((this.#are as UsageState["resourcesAre"]) !== "gathered") return;
    const isWhole = { set: { [USED_RESOURCES_ARE]: { S: "whole" } } };
    await this.#write(isWhole, isStill(USED_RESOURCES_ARE, undefined));
  }

  async #write(given: Parameters<typeof updateRecord>[1], when: Condition | undefined): Promise<void> {
    const change = { ...given, set: { ...texts(systemIndexKeys(this.#namespaceId)), ...given.set } };
    await this.#records.transact([updateRecord(usageStateKey(this.#namespaceId), change, when)]);
  }
}
