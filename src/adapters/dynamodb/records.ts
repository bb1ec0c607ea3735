import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { Random } from "../../ports/system.ts";
import type { DynamoOperation, TableAccess } from "./client.ts";
import type { Attributes } from "./codec.ts";
import { failedReasons, transactionAnswerOf } from "./errors.ts";
import { chunksOf, inChunks } from "./paging.ts";
import { Expression, keyOf, type RecordWrite } from "./records-write.ts";
import { RetriedCalls } from "./retried-calls.ts";
import { type Deadline, RETRY } from "./retry-policy.ts";
import {
  CHILDREN_INDEX,
  ENTITY_INDEX,
  type KeySpan,
  NAMESPACE_INDEX,
  PK,
  RESOURCE_INDEX,
  SK,
  type TableIndex,
  type TableKey,
} from "./schema.ts";

interface RecordsOptions extends TableAccess {
  readonly ids: Random;
  /** Bound on one call with all its attempts, in ms. */
  readonly timeoutMs: number;
}

export type KeyRange = KeySpan | { readonly prefix: string };

/** Items of one partition of the table or of an index, ordered by their sort keys. */
export interface RecordQuery {
  /** Absent: the table itself. */
  readonly index?: TableIndex;
  readonly partition: string;
  /** Absent: the whole partition. */
  readonly range?: KeyRange | undefined;
  readonly keysOnly?: true;
  /** Last first. */
  readonly backwards?: true;
  /** Strongly consistent; not possible on an index. */
  readonly consistent?: true;
  /** The page size, as a hint. */
  readonly pageSize?: number;
  /** The page size doubles up to this, for lists that are often read only in part. */
  readonly pageSizeMax?: number;
}

/** `failed`: the indexes of the writes whose conditions did not hold. */
type TransactReply = { readonly kind: "applied" } | { readonly kind: "failed"; readonly failed: ReadonlySet<number> };

/**
 * The outcome of one conditional write. `failed`: its condition did not hold for `item`; after a lost answer, an
 * earlier attempt may be the reason.
 */
export type WriteOnceReply =
  | { readonly kind: "applied" }
  | { readonly kind: "failed"; readonly item: Attributes | undefined }
  | { readonly kind: "unavailable"; readonly applied: "no" | "unknown"; readonly cause: unknown };

const SINGLE: Readonly<Record<Exclude<RecordWrite["kind"], "ConditionCheck">, DynamoOperation>> = {
  Put: "PutItem",
  Update: "UpdateItem",
  Delete: "DeleteItem",
};

/**
 * All items of the table except buckets. Reads go through all pages and repeat unprocessed keys. Transient faults are
 * retried until the time is up, then thrown as `RateLimiterUnavailable`.
 */
export class Records {
  readonly tableName: string;
  readonly #options: RecordsOptions;
  readonly #calls: RetriedCalls;

  constructor(options: RecordsOptions) {
    this.tableName = options.tableName;
    this.#options = options;
    this.#calls = new RetriedCalls({ ...options, attemptMaxMs: RETRY.attemptMaxMs });
  }

  /** Strongly consistent. */
  async get(key: TableKey): Promise<Attributes | undefined> {
    const input = { TableName: this.tableName, Key: keyOf(key), ConsistentRead: true };
    const { Item } = await this.#call("GetItem", input, this.#deadline(), "read");
    return Item as Attributes | undefined;
  }

  /** The items in the order of the keys, strongly consistent. */
  getAll(keys: readonly TableKey[]): Promise<readonly (Attributes | undefined)[]> {
    return this.readAll(keys, { consistent: true });
  }

  readAll(
    keys: readonly TableKey[],
    { consistent }: { readonly consistent: boolean },
  ): Promise<readonly (Attributes | undefined)[]> {
    return this.#calls.getAll(keys, { consistent, timeoutMs: this.#options.timeoutMs });
  }

  /** Pairs each thing that was found elsewhere, such as in an index, with the item that it leads to. One call reads `atOnce` of them. */
  async *lookUp<Found>(
    found: AsyncIterable<Found> | Iterable<Found>,
    atOnce: number,
    keyOf: (one: Found) => TableKey,
  ): AsyncGenerator<readonly [Found, Attributes | undefined]> {
    for await (const chunk of inChunks(found, atOnce)) {
      const items = await this.getAll(chunk.map(keyOf));
      for (const [i, one] of chunk.entries()) yield [one, items[i]];
    }
  }

  /** Items of all pages, read on demand. */
  async *query(query: RecordQuery): AsyncGenerator<Attributes, void, undefined> {
    const input = { TableName: this.tableName, ...queryInput(query) };
    let { pageSize } = query;
    let from: unknown;
    do {
      const page = { ...input, Limit: pageSize, ExclusiveStartKey: from };
      const body = await this.#call("Query", page, this.#deadline(), "list");
      yield* (body.Items ?? []) as readonly Attributes[];
      from = body.LastEvaluatedKey;
      if (pageSize !== undefined) pageSize = Math.min(2 * pageSize, Math.max(pageSize, query.pageSizeMax ?? 0));
    } while (from !== undefined);
  }

  /** All writes or none. After a lost answer it is sent again with the same token, so that it is not applied twice. */
  async transact(writes: readonly RecordWrite[]): Promise<TransactReply> {
    const TransactItems = writes.map(({ kind, input }) => ({ [kind]: { TableName: this.tableName, ...input } }));
    const body = JSON.stringify({ ClientRequestToken: this.#options.ids.id(), TransactItems });
    const deadline = this.#deadline();
    for (let failures = 0; ; failures++) {
      const sent = await this.#calls.attempt("TransactWriteItems", body, deadline);
      const answer = transactionAnswerOf(sent, this.tableName);
      if (answer.kind === "applied") return answer;
      if (answer.kind === "failed") return { kind: "failed", failed: failedReasons(sent) };
      await deadline.backOff(failures, "change", answer.cause);
    }
  }

  /**
   * One write of one item, at half the price of a transaction. It is sent again after a lost answer, so its condition
   * must prevent a second application.
   */
  async writeOne({ kind, input }: RecordWrite): Promise<WriteOnceReply> {
    const request = { TableName: this.tableName, ...input, ReturnValuesOnConditionCheckFailure: "ALL_OLD" };
    const body = JSON.stringify(request);
    const deadline = this.#deadline();
    let applied: "no" | "unknown" = "no";
    for (let failures = 0; ; failures++) {
      const sent = await this.#calls.attempt(SINGLE[kind as keyof typeof SINGLE], body, deadline);
      const answer = transactionAnswerOf(sent, this.tableName);
      if (answer.kind === "applied") return { kind: "applied" };
      if (answer.kind === "failed") {
        const item = sent.kind === "failed" ? (sent.body.Item as Attributes | undefined) : undefined;
        return { kind: "failed", item };
      }
      if (answer.kind === "unknown") applied = "unknown";
      try {
        await deadline.backOff(failures, "change", answer.cause);
      } catch (cause) {
        if (!(cause instanceof RateLimiterUnavailable)) throw cause;
        return { kind: "unavailable", applied, cause };
      }
    }
  }

  /** Deletes items in any order; if it fails, some may be left. */
  async deleteAll(keys: readonly TableKey[]): Promise<void> {
    const requests = keys.map((key) => ({ DeleteRequest: { Key: keyOf(key) } }));
    for (const chunk of chunksOf(requests, WRITES_MAX)) await this.#writeChunk(chunk, "delete");
  }

  /** Writes items whole, each key once, in any order; if it fails, some may be missing. */
  async putAll(items: readonly (readonly [key: TableKey, attributes: Attributes])[]): Promise<void> {
    const requests = items.map(([key, attributes]) => ({ PutRequest: { Item: { ...keyOf(key), ...attributes } } }));
    for (const chunk of chunksOf(requests, WRITES_MAX)) await this.#writeChunk(chunk, "copy");
  }

  async #writeChunk(requests: readonly unknown[], what: string): Promise<void> {
    const deadline = this.#deadline();
    let wanted: unknown = requests;
    for (let attempts = 0; ; attempts++) {
      const input = { RequestItems: { [this.tableName]: wanted } };
      const body = await this.#call("BatchWriteItem", input, deadline, what);
      wanted = this.#calls.ofTable(body.UnprocessedItems);
      if (wanted === undefined) return;
      await deadline.backOff(attempts, what, new Error("DynamoDB did not process all items."));
    }
  }

  #call(operation: DynamoOperation, input: object, deadline: Deadline, what: string): Promise<Record<string, unknown>> {
    return this.#calls.call({ operation, body: JSON.stringify(input) }, deadline, what);
  }

  #deadline(): Deadline {
    return this.#calls.deadline(this.#options.timeoutMs);
  }
}

const WRITES_MAX = 25;

/** The items of a partition of the table, strongly consistent. */
export function tablePartition(partition: string, range?: KeyRange): RecordQuery {
  return { partition, range, consistent: true };
}

export function childrenIndex(partition: string, range?: KeyRange): RecordQuery {
  return { index: CHILDREN_INDEX, partition, range };
}

export function resourceIndex(partition: string, range?: KeyRange): RecordQuery {
  return { index: RESOURCE_INDEX, partition, range };
}

export function entityIndex(partition: string, range?: KeyRange): RecordQuery {
  return { index: ENTITY_INDEX, partition, range };
}

export function namespaceIndex(namespaceId: string, range?: KeyRange): RecordQuery {
  return { index: NAMESPACE_INDEX, partition: namespaceId, range, keysOnly: true };
}

function queryInput({
  index,
  partition,
  range,
  keysOnly,
  backwards,
  consistent,
}: RecordQuery): Record<string, unknown> {
  const expression = new Expression();
  const text = (value: string) => expression.value({ S: value });
  const conditions = [`${expression.name(index?.pk ?? PK)} = ${text(partition)}`];
  if (range !== undefined) {
    const sort = expression.name(index?.sk ?? SK);
    conditions.push(
      "prefix" in range
        ? `begins_with(${sort}, ${text(range.prefix)})`
        : `${sort} BETWEEN ${text(range.from)} AND ${text(range.to)}`,
    );
  }
  // JSON has no members that are undefined.
  return {
    IndexName: index?.name,
    KeyConditionExpression: conditions.join(" AND "),
    ProjectionExpression: keysOnly && `${expression.name(PK)}, ${expression.name(SK)}`,
    ScanIndexForward: backwards && false,
    ConsistentRead: consistent,
    ...expression.members(),
  };
}
