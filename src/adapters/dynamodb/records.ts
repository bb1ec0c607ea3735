import { ConflictError } from "../../domain/errors.ts";
import type { Clock, Random } from "../../ports/system.ts";
import type { DynamoAnswer, DynamoClient, DynamoOperation } from "./client.ts";
import type { Attributes } from "./codec.ts";
import { readFaultOf, transactionAnswerOf } from "./errors.ts";
import { Patience } from "./patience.ts";
import { Expression, keyOf, type RecordWrite } from "./records-write.ts";
import { RETRY } from "./retry-policy.ts";
import { PK, SK, type TableKey } from "./schema.ts";

export interface RecordsOptions {
  readonly client: DynamoClient;
  readonly tableName: string;
  readonly clock: Clock;
  /** A number in [0, 1), for jitter. */
  readonly random: () => number;
  readonly ids: Random;
  /** Bound on one call with all its attempts, in ms: nobody waits for a grant here. */
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
  /** Nothing older than what was answered before; never of an index. */
  readonly consistent?: true;
  /** How many are read at once; a hint. */
  readonly pageSize?: number;
}

/** Which conditions did not hold, by the index of the write. */
export type TransactReply =
  | { readonly kind: "applied" }
  | { readonly kind: "failed"; readonly failed: ReadonlySet<number> };

/**
 * Whatever of the table is not a bucket: read and written whole, every page, every item that was left over asked for again.
 * What passes is tried again until the time is up, then it is a `RateLimiterUnavailable`.
 */
export class Records {
  readonly tableName: string;
  readonly #options: RecordsOptions;

  constructor(options: RecordsOptions) {
    this.tableName = options.tableName;
    this.#options = options;
  }

  /** As it stands now, with all that was answered before. */
  async get(key: TableKey): Promise<Attributes | undefined> {
    const input = { TableName: this.tableName, Key: keyOf(key), ConsistentRead: true };
    const { Item } = await this.#ask("GetItem", input, this.#patience(), "read");
    return Item as Attributes | undefined;
  }

  /** In the order of the keys. */
  async getAll(
    keys: readonly TableKey[],
    { consistent }: { readonly consistent: boolean },
  ): Promise<readonly (Attributes | undefined)[]> {
    const found = new Map<string, Attributes>();
    const unique = [...new Map(keys.map((key) => [idOf(key), key])).values()];
    await Promise.all(chunksOf(unique, GETS_MAX).map((chunk) => this.#getChunk(chunk, consistent, found)));
    return keys.map((key) => found.get(idOf(key)));
  }

  /** Page after page, read as they are asked for. */
  async *query(query: RecordQuery): AsyncGenerator<Attributes, void, undefined> {
    const input = { TableName: this.tableName, ...queryInput(query) };
    let from: unknown;
    do {
      const start = from === undefined ? {} : { ExclusiveStartKey: from };
      const body = await this.#ask("Query", { ...input, ...start }, this.#patience(), "list");
      yield* (body.Items ?? []) as readonly Attributes[];
      from = body.LastEvaluatedKey;
    } while (from !== undefined);
  }

  /** All or none. Asked again with the same token when nobody knows whether it was done: it is not done twice. */
  async transact(writes: readonly RecordWrite[]): Promise<TransactReply> {
    const TransactItems = writes.map(({ kind, input }) => ({ [kind]: { TableName: this.tableName, ...input } }));
    const body = JSON.stringify({ ClientRequestToken: this.#options.ids.id(), TransactItems });
    const patience = this.#patience();
    for (let attempt = 0; ; attempt++) {
      const sent = await this.#send("TransactWriteItems", body, patience);
      const answer = transactionAnswerOf(sent, this.tableName);
      if (answer.kind === "applied") return answer;
      if (answer.kind === "failed") return { kind: "failed", failed: failedIn(sent) };
      await patience.pause(attempt, "change", answer.cause);
    }
  }

  /** Deletes what is there of these; no matter in which order, and some may stay when it is cut off. */
  async deleteAll(keys: readonly TableKey[]): Promise<void> {
    for (const chunk of chunksOf(keys, WRITES_MAX)) await this.#deleteChunk(chunk);
  }

  async #getChunk(keys: readonly TableKey[], consistent: boolean, found: Map<string, Attributes>): Promise<void> {
    const patience = this.#patience();
    let wanted: unknown = { Keys: keys.map(keyOf), ConsistentRead: consistent };
    for (let attempt = 0; ; attempt++) {
      const body = await this.#ask("BatchGetItem", { RequestItems: { [this.tableName]: wanted } }, patience, "read");
      for (const item of this.#ofTable<readonly Attributes[]>(body.Responses) ?? []) {
        found.set(idOf({ pk: item[PK]?.S ?? "", sk: item[SK]?.S ?? "" }), item);
      }
      wanted = this.#ofTable(body.UnprocessedKeys);
      if (wanted === undefined) return;
      await patience.pause(attempt, "read", new Error("Items were left over."));
    }
  }

  async #deleteChunk(keys: readonly TableKey[]): Promise<void> {
    const patience = this.#patience();
    let wanted: unknown = keys.map((key) => ({ DeleteRequest: { Key: keyOf(key) } }));
    for (let attempt = 0; ; attempt++) {
      const body = await this.#ask(
        "BatchWriteItem",
        { RequestItems: { [this.tableName]: wanted } },
        patience,
        "delete",
      );
      wanted = this.#ofTable(body.UnprocessedItems);
      if (wanted === undefined) return;
      await patience.pause(attempt, "delete", new Error("Items were left over."));
    }
  }

  /** Only what may be asked twice. */
  async #ask(
    operation: DynamoOperation,
    input: object,
    patience: Patience,
    what: string,
  ): Promise<Record<string, unknown>> {
    const body = JSON.stringify(input);
    for (let attempt = 0; ; attempt++) {
      const answer = await this.#send(operation, body, patience);
      if (answer.kind === "answered") return answer.body;
      await patience.pause(attempt, what, readFaultOf(answer, this.tableName));
    }
  }

  async #send(operation: DynamoOperation, body: string, patience: Patience): Promise<DynamoAnswer> {
    const timeoutMs = Math.min(patience.leftMs, RETRY.attemptMaxMs);
    const answer = await this.#options.client.send(operation, body, { timeoutMs });
    patience.attempted(answer, timeoutMs);
    return answer;
  }

  #patience(): Patience {
    return new Patience(this.#options);
  }

  #ofTable<Value>(tables: unknown): Value | undefined {
    return (tables as Readonly<Record<string, Value>> | undefined)?.[this.tableName];
  }
}

const GETS_MAX = 100;
const WRITES_MAX = 25;

/** Ends what is tried again because somebody was faster: so often nobody is, or a condition is wrong. */
export function mustEnd(attempt: number, what: string): void {
  if (attempt < RETRY.changesMax) return;
  throw new ConflictError(
    "contended",
    `${what} was changed by somebody else ${RETRY.changesMax} times while this change was tried; nothing was changed. ` +
      "Try again.",
  );
}

/** A key as one text, for maps. */
export function idOf({ pk, sk }: TableKey): string {
  return `${pk}\n${sk}`;
}

/** Where an item stands. */
export function placeOf(item: Attributes): TableKey {
  return { pk: item[PK]?.S ?? "", sk: item[SK]?.S ?? "" };
}

export function chunksOf<Item>(items: readonly Item[], size: number): readonly (readonly Item[])[] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, i) => items.slice(i * size, (i + 1) * size));
}

function queryInput(query: RecordQuery): Record<string, unknown> {
  const { index, partition, range, keysOnly, backwards, consistent, pageSize } = query;
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
    ...(pageSize === undefined ? {} : { Limit: pageSize }),
    ...expression.members(),
  };
}

function failedIn(answer: DynamoAnswer): ReadonlySet<number> {
  const reasons = answer.kind === "failed" ? answer.body.CancellationReasons : undefined;
  const codes = Array.isArray(reasons) ? (reasons as readonly { readonly Code?: string }[]) : [];
  return new Set(codes.flatMap(({ Code }, i) => (Code === "ConditionalCheckFailed" ? [i] : [])));
}
