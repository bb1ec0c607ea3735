import { ConflictError, RateLimiterUnavailable } from "../../domain/names/errors.ts";
import type { Clock, Random } from "../../ports/system.ts";
import type { DynamoClient, DynamoOperation } from "./client.ts";
import type { Attributes } from "./codec.ts";
import type { Deadline } from "./deadline.ts";
import { failedReasons, transactionAnswerOf } from "./errors.ts";
import { chunksOf } from "./paging.ts";
import { Expression, keyOf, type RecordWrite } from "./records-write.ts";
import { RetriedCalls } from "./retried-calls.ts";
import { RETRY } from "./retry-policy.ts";
import { PK, SK, type TableKey } from "./schema.ts";

interface RecordsOptions {
  readonly client: DynamoClient;
  readonly tableName: string;
  readonly clock: Clock;
  /** A number in [0, 1), for jitter. */
  readonly random: () => number;
  readonly ids: Random;
  /** Bound on one call with all its attempts, in ms. */
  readonly timeoutMs: number;
}

/** Items of one partition of the table or of an index, in the order of their sort keys. */
export interface RecordQuery {
  /** Absent: the table itself. */
  readonly index?: string;
  readonly partition: readonly [name: string, value: string];
  /** Both ends included; `prefix`: all that begin so. */
  readonly range?: { readonly name: string } & (
    | { readonly from: string; readonly to: string }
    | { readonly prefix: string }
  );
  /** Only the keys are wanted. */
  readonly keysOnly?: true;
  /** Last first. */
  readonly backwards?: true;
  /** Strongly consistent; not possible on an index. */
  readonly consistent?: true;
  /** How many are read at once; a hint. */
  readonly pageSize?: number;
  /** Each time twice as many, up to so many: for lists of which the beginning is wanted at least. */
  readonly pageSizeMax?: number;
}

/** Which conditions did not hold, by the index of the write. */
type TransactReply = { readonly kind: "applied" } | { readonly kind: "failed"; readonly failed: ReadonlySet<number> };

/**
 * What became of one conditional write. `failed`: its condition did not hold of `item`, as it stood then; after a lost answer
 * that may be because an earlier attempt was applied.
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
 * All items of the table that are not buckets. Reads go through all pages and ask again for items that were left over.
 * Transient faults are retried until the time is up, then thrown as `RateLimiterUnavailable`.
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

  /** Strongly consistent: every write that was answered before is in it. */
  async get(key: TableKey): Promise<Attributes | undefined> {
    const input = { TableName: this.tableName, Key: keyOf(key), ConsistentRead: true };
    const { Item } = await this.#call("GetItem", input, this.#deadline(), "read");
    return Item as Attributes | undefined;
  }

  /** In the order of the keys. */
  async getAll(
    keys: readonly TableKey[],
    { consistent }: { readonly consistent: boolean },
  ): Promise<readonly (Attributes | undefined)[]> {
    return this.#calls.getAll(keys, { consistent, timeoutMs: this.#options.timeoutMs });
  }

  /** Page after page, read as they are asked for. */
  async *query(query: RecordQuery): AsyncGenerator<Attributes, void, undefined> {
    const input = { TableName: this.tableName, ...queryInput(query) };
    let { pageSize } = query;
    let from: unknown;
    do {
      const start = from === undefined ? {} : { ExclusiveStartKey: from };
      const size = pageSize === undefined ? {} : { Limit: pageSize };
      const body = await this.#call("Query", { ...input, ...size, ...start }, this.#deadline(), "list");
      yield* (body.Items ?? []) as readonly Attributes[];
      from = body.LastEvaluatedKey;
      if (pageSize !== undefined) pageSize = Math.min(2 * pageSize, Math.max(pageSize, query.pageSizeMax ?? 0));
    } while (from !== undefined);
  }

  /** All or none. When an answer is lost it is sent again with the same token, so that it is not done twice. */
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
   * One write of one item, at half the price of a transaction. It is sent again when its answer is lost, so its condition must
   * keep it from being done twice.
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

  /** Deletes those that are there, in no particular order; when it fails, some may be left. */
  async deleteAll(keys: readonly TableKey[]): Promise<void> {
    for (const chunk of chunksOf(keys, WRITES_MAX)) await this.#deleteChunk(chunk);
  }

  async #deleteChunk(keys: readonly TableKey[]): Promise<void> {
    const deadline = this.#deadline();
    let wanted: unknown = keys.map((key) => ({ DeleteRequest: { Key: keyOf(key) } }));
    for (let attempts = 0; ; attempts++) {
      const input = { RequestItems: { [this.tableName]: wanted } };
      const body = await this.#call("BatchWriteItem", input, deadline, "delete");
      wanted = this.#calls.ofTable(body.UnprocessedItems);
      if (wanted === undefined) return;
      await deadline.backOff(attempts, "delete", new Error("DynamoDB did not process all items."));
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

/** Ends a change that lost to others time and again: so many conflicts in a row mean that its condition is wrong. */
export function failAfterMaxConflicts(attempt: number, what: string): void {
  if (attempt < RETRY.changesMax) return;
  throw new ConflictError(
    "contended",
    `${what} was changed by others at each of ${RETRY.changesMax} attempts; nothing was changed. Try again.`,
  );
}

function queryInput(query: RecordQuery): Record<string, unknown> {
  const { index, partition, range, keysOnly, backwards, consistent } = query;
  const expression = new Expression();
  const [name, value] = partition;
  const conditions = [`${expression.name(name)} = ${expression.value({ S: value })}`];
  if (range !== undefined) {
    const sort = expression.name(range.name);
    const text = (given: string) => expression.value({ S: given });
    conditions.push(
      "prefix" in range
        ? `begins_with(${sort}, ${text(range.prefix)})`
        : `${sort} BETWEEN ${text(range.from)} AND ${text(range.to)}`,
    );
  }
  return {
    ...(index === undefined ? {} : { IndexName: index }),
    KeyConditionExpression: conditions.join(" AND "),
    ...(keysOnly === undefined ? {} : { ProjectionExpression: `${expression.name(PK)}, ${expression.name(SK)}` }),
    ...(backwards === undefined ? {} : { ScanIndexForward: false }),
    ...(consistent === undefined ? {} : { ConsistentRead: true }),
    ...expression.members(),
  };
}
