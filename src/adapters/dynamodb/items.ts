import { type BucketKey, bucketKey } from "../../domain/bucket/bucket-key.ts";
import type { AuditEvent } from "../../domain/config/audit.ts";
import { RateLimiterUnavailable, ValidationError } from "../../domain/names/errors.ts";
import { shown } from "../../domain/names/names.ts";
import type { Page, PageRequest } from "../../domain/names/paging.ts";
import type { BucketOwner } from "../../ports/bucket-store.ts";
import type {
  Item,
  ItemAnswer,
  ItemCall,
  ItemKey,
  ItemStore,
  ItemValue,
  ItemWrite,
  TransactionAnswer,
} from "../../ports/item-store.ts";
import { isShardKey } from "../../protocol/item/write-builder.ts";
import type { DynamoAnswer, TableAccess } from "./client.ts";
import { type Attributes, decodeItem, decodeOperation } from "./codec.ts";
import { failedReasons, type ItemReader, itemAnswerOf, transactionAnswerOf } from "./errors.ts";
import { ItemTexts } from "./item-text.ts";
import { isMaking, type OwnerStamps, type Stamped } from "./items-owner.ts";
import { keyIn } from "./records-write.ts";
import { type DynamoRequest, ItemRequests, type QueryPage } from "./requests.ts";
import { RetriedCalls } from "./retried-calls.ts";
import { RETRY } from "./retry-policy.ts";
import { GSI2SK, parseItemKey, parseResourceBucketSk } from "./schema.ts";

interface DynamoItemsOptions extends TableAccess {
  readonly namespaceId: string;
  /** The time for listing buckets, in ms. No acquire waits for it. */
  readonly listTimeoutMs: number;
  /** The id of an event in the table. It sorts by time, and the same event always gets the same id. */
  readonly auditIdOf: (event: AuditEvent) => string;
  readonly auditKeptS: number;
  /** Set for a shared table, where new items name their owner. */
  readonly owners?: OwnerStamps;
}

/** The items of one namespace in a DynamoDB table. */
export class DynamoItems implements ItemStore {
  readonly #options: DynamoItemsOptions;
  readonly #requests: ItemRequests;
  readonly #calls: RetriedCalls;
  readonly #readItem: (text: string) => Item | undefined;
  /** Keyed by the caller's writes, because a repeated transaction must be identical. */
  readonly #stamped = new WeakMap<readonly ItemWrite[], Stamped>();

  constructor(options: DynamoItemsOptions) {
    const { tableName, namespaceId } = options;
    this.#options = options;
    // An acquire waits for these calls, so a slow table may use all of its time.
    this.#calls = new RetriedCalls({ ...options, attemptMaxMs: Number.POSITIVE_INFINITY });
    this.#requests = new ItemRequests({ tableName, namespaceId });
    const texts = new ItemTexts();
    this.#readItem = (text) => texts.read(text);
  }

  async write(write: ItemWrite, { timeoutMs }: ItemCall): Promise<ItemAnswer> {
    const { client, owners } = this.#options;
    if (owners !== undefined && isMaking(write)) return this.#make(write, owners, timeoutMs);
    const { operation, body } = this.#requests.write(write);
    const readItem = isShardKey(write.key) ? this.#readItem : undefined;
    const answer = await client.send(operation, body, { timeoutMs, readItem });
    // The usual answer needs no further reading.
    if (answer.kind === "answered" && answer.item !== undefined) return { kind: "applied", item: answer.item };
    return itemAnswerOf(answer, this.#readerOf(write));
  }

  async transact(
    writes: readonly ItemWrite[],
    { token, event }: { readonly token: string; readonly event: AuditEvent | undefined },
    { timeoutMs }: ItemCall,
  ): Promise<TransactionAnswer> {
    const { auditIdOf, auditKeptS, tableName, owners } = this.#options;
    const audit = event === undefined ? undefined : { event, auditId: auditIdOf(event), keptS: auditKeptS };
    let stamped: Stamped = { writes, checks: [] };
    if (owners !== undefined && writes.some(isMaking)) {
      const asked = this.#stamped.get(writes) ?? (await owners.on(writes).catch(notAsked));
      if ("kind" in asked) return asked;
      this.#stamped.set(writes, asked);
      stamped = asked;
    }
    const answer = await this.#send(
      this.#requests.transaction(stamped.writes, token, audit, ...stamped.checks),
      timeoutMs,
    );
    return transactionAnswerOf(answer, tableName);
  }

  async read(
    keys: readonly ItemKey[],
    { consistent }: { readonly consistent: boolean },
    { timeoutMs }: ItemCall,
  ): Promise<readonly (Item | undefined)[]> {
    const tableKeys = keys.map((key) => this.#requests.keyOf(key));
    const found = await this.#calls.getAll(tableKeys, { consistent, timeoutMs });
    return found.map((attributes, i) =>
      attributes === undefined ? undefined : decoderOf(keys[i] as ItemKey)(attributes),
    );
  }

  listKeys({ entityId }: BucketOwner, { limit, cursor }: PageRequest): Promise<Page<BucketKey>> {
    const after = cursor === undefined ? undefined : keyOfCursor(cursor);
    const request = (page: QueryPage) => this.#requests.bucketKeys(entityId, after, page);
    const bucketIn = (item: Attributes) => {
      const key = parseItemKey(keyIn(item))?.key;
      return key?.shard === 0 && key.operation === undefined ? key.bucket : undefined;
    };
    return this.#list(limit, request, bucketIn, (last) => `${last.entityId}#${last.resource}`);
  }

  listBuckets(resource: string, { limit, cursor }: PageRequest): Promise<Page<BucketKey>> {
    const request = (page: QueryPage) => this.#requests.bucketsOf(resource, cursor, page);
    const bucketIn = (item: Attributes) => {
      const parsed = parseResourceBucketSk(item[GSI2SK]?.S ?? "");
      return parsed?.shard === 0 ? bucketKey(parsed.entityId, resource) : undefined;
    };
    return this.#list(limit, request, bucketIn, ({ entityId }) => entityId);
  }

  async #list(
    limit: number,
    request: (page: QueryPage) => DynamoRequest,
    bucketIn: (item: Attributes) => BucketKey | undefined,
    cursorOf: (last: BucketKey) => string,
  ): Promise<Page<BucketKey>> {
    const deadline = this.#calls.deadline(this.#options.listTimeoutMs);
    const keys: BucketKey[] = [];
    let from: unknown;
    do {
      // One more than the limit shows whether there is another page.
      const body = await this.#calls.call(request({ from, count: limit + 1 - keys.length }), deadline, "list");
      for (const item of body.Items as readonly Attributes[]) {
        const bucket = bucketIn(item);
        if (bucket !== undefined) keys.push(bucket);
      }
      from = body.LastEvaluatedKey;
    } while (from !== undefined && keys.length <= limit);
    const items = keys.slice(0, limit);
    const last = items.at(-1);
    return keys.length > limit && last !== undefined ? { items, cursor: cursorOf(last) } : { items };
  }

  /** Creates an item if its owner has not changed. */
  async #make(write: ItemWrite, owners: OwnerStamps, timeoutMs: number): Promise<ItemAnswer> {
    const { clock } = this.#options;
    const untilMs = clock.now() + timeoutMs;
    for (let attempt = 0; attempt < RETRY.ownersMax; attempt++) {
      const asked = await owners.on([write]).catch(notAsked);
      if ("kind" in asked) return asked;
      const leftMs = untilMs - clock.now();
      if (leftMs <= 0)
        return { kind: "refused", why: "unreachable", cause: new Error("reading the owner used up the timeout") };
      const made = asked.writes[0] as ItemWrite;
      const answer = await this.#send(this.#requests.checkedPut(made, asked.checks), leftMs);
      const failed = failedReasons(answer);
      // The owner changed, but the item itself could be written.
      if (failed.size > 0 && !failed.has(0)) continue;
      return itemAnswerOf(answer, this.#readerOf(made));
    }
    return { kind: "refused", why: "conflict", cause: new Error(`${write.key.bucket.entityId} keeps changing`) };
  }

  #send({ operation, body }: DynamoRequest, timeoutMs: number): Promise<DynamoAnswer> {
    return this.#options.client.send(operation, body, { timeoutMs });
  }

  #readerOf({ key, kind, set }: ItemWrite): ItemReader {
    const { tableName } = this.#options;
    return { tableName, decode: decoderOf(key), after: kind === "put" ? stored(set) : NOTHING };
  }
}

/** `#` is in no id. */
function keyOfCursor(cursor: string): BucketKey {
  const [entityId, resource, ...others] = cursor.split("#");
  if (entityId !== undefined && resource !== undefined && others.length === 0) return bucketKey(entityId, resource);
  throw new ValidationError(
    "cursor_invalid",
    `Not a cursor of this list: ${shown(cursor)}; pass the cursor of the previous page.`,
  );
}

const NOTHING: Item = Object.freeze({});

function decoderOf({ operation }: ItemKey): (attributes: Attributes) => Item {
  return operation === undefined ? decodeItem : decodeOperation;
}

/** The item as it will be read: DynamoDB has no negative zero. */
function stored(item: Item): Item {
  const copy: Record<string, ItemValue> = {};
  for (const name in item) {
    const value = item[name] as ItemValue;
    copy[name] = typeof value === "number" ? value + 0 : value;
  }
  return copy;
}

function notAsked(cause: unknown): Extract<ItemAnswer, { kind: "refused" }> {
  if (!(cause instanceof RateLimiterUnavailable)) throw cause;
  return { kind: "refused", why: "unreachable", cause };
}
