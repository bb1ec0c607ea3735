import { namespaceIndex, type Records } from "./records.ts";
import { all, any, type Condition, isStill, keyIn, texts, updateRecord } from "./records-write.ts";
import {
  CLOSED_UNTIL,
  parseItemKey,
  systemIndexKeys,
  USED_RESOURCES,
  USED_RESOURCES_ARE,
  usageStateKey,
} from "./schema.ts";

/** The sweeps' record of the usage of a namespace. */
export interface UsageState {
  /** All usage before this instant is on sheets; undefined before the first sweep. */
  readonly closedUntilMs: number | undefined;
  /** The resources in use that were noted. */
  readonly resources: readonly string[];
  /** "whole": every sheet of a closed hour is of one of them. "too many": no more are noted. */
  readonly resourcesAre: "gathered" | "whole" | "too many";
}

export async function readUsageState(records: Records, namespaceId: string): Promise<UsageState> {
  const found = await records.get(usageStateKey(namespaceId));
  const untilMs = found?.[CLOSED_UNTIL]?.N;
  const are = found?.[USED_RESOURCES_ARE]?.S;
  return {
    closedUntilMs: untilMs === undefined ? undefined : Number(untilMs),
    resources: found?.[USED_RESOURCES]?.SS ?? [],
    resourcesAre: are === "whole" || are === "too many" ? are : "gathered",
  };
}

/** The instant before which all usage of a namespace is on sheets; undefined before the first sweep. */
export async function readClosedUntil(records: Records, namespaceId: string): Promise<number | undefined> {
  return (await readUsageState(records, namespaceId)).closedUntilMs;
}

/** Records that a sweep has closed every hour before an instant. The instant only grows: of two sweeps the later one counts. */
export async function putClosedUntil(records: Records, namespaceId: string, closedUntilMs: number): Promise<void> {
  const N = String(Math.floor(closedUntilMs));
  const isEarlier: Condition = any(
    (e) => `attribute_not_exists(${e.name(CLOSED_UNTIL)})`,
    (e) => `${e.name(CLOSED_UNTIL)} < ${e.value({ N })}`,
  );
  const set = { ...texts(systemIndexKeys(namespaceId)), [CLOSED_UNTIL]: { N } };
  await records.transact([updateRecord(usageStateKey(namespaceId), { set }, all(isEarlier))]);
}

/** The item that lists the resources holds at most this many. */
const RESOURCES_MAX = 1_000;

/** A slow table returns this many within the time of one call. */
const KEYS_AT_ONCE = 1_000;

/**
 * A used bucket exists for at least a day. Within this time after the last sweep, every used bucket either still
 * exists, or a sweep has noted its resource.
 */
export const FRESH_MS = 12 * 3_600_000;

/**
 * The used resources of a namespace, noted by sweeps. The index that groups sheets by day is per resource: a reader
 * that knows the resources lists one day without reading the sheets of all others.
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

  /** Must be called before their buckets may expire. */
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

  /** Ends a pass over all buckets. If buckets may have come and gone between two passes, the sheets they left are read too. */
  async complete(nowMs: number, isOver: () => boolean): Promise<void> {
    const isUnbroken = this.#are === "whole" && nowMs - this.#closedUntilMs < FRESH_MS;
    if (isUnbroken || this.#are === "too many") return;
    // The pass over the sheets may be interrupted.
    if (this.#are === "whole") await this.#write({ remove: [USED_RESOURCES_ARE] }, undefined);
    this.#are = "gathered";
    const sheets = namespaceIndex(this.#namespaceId, { prefix: "SHEET#" });
    for await (const item of this.#records.query({ ...sheets, pageSize: KEYS_AT_ONCE })) {
      if (isOver()) return;
      const resource = parseItemKey(keyIn(item))?.key.bucket.resource;
      if (resource !== undefined && !this.#known.has(resource)) await this.add([resource]);
    }
    // `add` may have found too many meanwhile.
    if ((this.#are as UsageState["resourcesAre"]) !== "gathered") return;
    const isWhole = { set: { [USED_RESOURCES_ARE]: { S: "whole" } } };
    await this.#write(isWhole, isStill(USED_RESOURCES_ARE, undefined));
  }

  async #write(given: Parameters<typeof updateRecord>[1], when: Condition | undefined): Promise<void> {
    const change = { ...given, set: { ...texts(systemIndexKeys(this.#namespaceId)), ...given.set } };
    await this.#records.transact([updateRecord(usageStateKey(this.#namespaceId), change, when)]);
  }
}
