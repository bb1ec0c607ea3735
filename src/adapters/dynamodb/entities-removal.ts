import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import type { AttributeValue } from "./codec.ts";
import { countConfigs, isCounted } from "./config-registry.ts";
import { DELETING } from "./entities-record.ts";
import { chunksOf, collected } from "./paging.ts";
import { failAfterMaxConflicts, type Records } from "./records.ts";
import { checkRecord, deleteRecord, exists, isStill, keyIn, type RecordWrite } from "./records-write.ts";
import { RETRY } from "./retry-policy.ts";
import {
  entityKey,
  entityPk,
  GSI4PK,
  GSI4SK,
  META_SK,
  NAMESPACE_INDEX,
  PK,
  RESOURCE,
  SK,
  sheetPrefix,
  type TableKey,
} from "./schema.ts";
import { refusalPrefix } from "./schema-refusals.ts";
import { bucketsIn, type LiveBuckets } from "./store-buckets.ts";

/**
 * Removes what belongs to an entity that is marked as deleted, in steps. Every step is conditional on the mark, so that a
 * process that is late does not remove what a new entity of the same id has. The mark is removed last: the next process that
 * finds it goes on where another was cut off.
 */
export class EntityRemoval {
  readonly #records: Records;
  readonly #namespaceId: string;
  readonly #live: LiveBuckets;
  readonly #forget: (bucket: BucketKey) => void;

  constructor(
    namespaceId: string,
    parts: {
      readonly records: Records;
      readonly live: LiveBuckets;
      /** Called for each bucket that was removed. */
      readonly forget: (bucket: BucketKey) => void;
    },
  ) {
    this.#records = parts.records;
    this.#namespaceId = namespaceId;
    this.#live = parts.live;
    this.#forget = parts.forget;
  }

  /** To its end, if there is one under way. */
  async finish(entityId: string): Promise<void> {
    const key = entityKey(this.#namespaceId, entityId);
    const mark = (await this.#records.get(key))?.[DELETING];
    if (mark === undefined) return;
    const marked = checkRecord(key, isStill(DELETING, mark));
    const done =
      (await this.#configs(entityId, marked)) &&
      (await this.#buckets(entityId, marked)) &&
      (await this.#beside(entityId, marked)) &&
      (await this.#partition(entityId, marked));
    if (done) await this.#unmark(key, mark);
  }

  // With the number of configurations that the registry counts.
  async #configs(entityId: string, marked: RecordWrite): Promise<boolean> {
    for (let attempt = 0, isLeft = true; isLeft; attempt++) {
      failAfterMaxConflicts(attempt, `The configuration of ${entityId}`);
      isLeft = false;
      const items = await collected(
        this.#records.query({
          partition: [PK, entityPk(this.#namespaceId, entityId)],
          range: { name: SK, prefix: "#CONFIG#" },
          consistent: true,
        }),
      );
      for (const chunk of chunksOf(items, CONFIGS_AT_ONCE)) {
        const counts = chunk.flatMap((item) => {
          const resource = item[RESOURCE]?.S;
          return resource === undefined || !isCounted(item) ? [] : [[resource, -1] as const];
        });
        const reply = await this.#records.transact([
          marked,
          ...chunk.map((item) => deleteRecord(keyIn(item), exists)),
          ...countConfigs(this.#namespaceId, Object.fromEntries(counts)),
        ]);
        if (reply.kind === "applied") continue;
        if (reply.failed.has(0)) return false;
        // Another process removes them too.
        isLeft = true;
      }
    }
    return true;
  }

  async #buckets(entityId: string, marked: RecordWrite): Promise<boolean> {
    // The second time finds what the index did not know yet.
    for (let pass = 0; pass < RETRY.indexPasses; pass++) {
      const items = await this.#live.itemsOf(entityId);
      if (!(await this.#remove(items, marked))) return false;
      for (const bucket of bucketsIn(items)) this.#forget(bucket);
    }
    return true;
  }

  /** Records of operations, sheets of usage and counts of refusals, which are kept elsewhere. */
  async #beside(entityId: string, marked: RecordWrite): Promise<boolean> {
    for (const prefix of [`OP#${entityId}#`, sheetPrefix(entityId, undefined), refusalPrefix(entityId)]) {
      const found = this.#records.query({
        index: NAMESPACE_INDEX,
        partition: [GSI4PK, this.#namespaceId],
        range: { name: GSI4SK, prefix },
        keysOnly: true,
      });
      if (!(await this.#remove((await collected(found)).map(keyIn), marked))) return false;
    }
    return true;
  }

  /** Usage, and whatever else is there. */
  async #partition(entityId: string, marked: RecordWrite): Promise<boolean> {
    const found = this.#records.query({
      partition: [PK, entityPk(this.#namespaceId, entityId)],
      keysOnly: true,
      consistent: true,
    });
    const keys = (await collected(found)).map(keyIn);
    return this.#remove(
      keys.filter(({ sk }) => sk !== META_SK),
      marked,
    );
  }

  async #remove(keys: readonly TableKey[], marked: RecordWrite): Promise<boolean> {
    for (const chunk of chunksOf(keys, ITEMS_AT_ONCE)) {
      const reply = await this.#records.transact([marked, ...chunk.map((key) => deleteRecord(key, undefined))]);
      if (reply.kind === "failed") return false;
    }
    return true;
  }

  async #unmark(key: TableKey, mark: AttributeValue): Promise<void> {
    // Failed: another was faster, and that is as good.
    await this.#records.transact([deleteRecord(key, isStill(DELETING, mark))]);
  }
}

const CONFIGS_AT_ONCE = 40;
const ITEMS_AT_ONCE = 50;
