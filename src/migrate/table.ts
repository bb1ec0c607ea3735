import type { DynamoClient, DynamoOperation } from "../adapters/dynamodb/client.ts";
import type { Attributes } from "../adapters/dynamodb/codec.ts";
import { itemAnswerOf } from "../adapters/dynamodb/errors.ts";
import { collected } from "../adapters/dynamodb/paging.ts";
import { Records } from "../adapters/dynamodb/records.ts";
import { RetriedCalls } from "../adapters/dynamodb/retried-calls.ts";
import { RETRY } from "../adapters/dynamodb/retry-policy.ts";
import { PK } from "../adapters/dynamodb/schema.ts";
import { RateLimiterUnavailable } from "../domain/names/errors.ts";
import type { Clock, Random } from "../ports/system.ts";
import type { NewItem } from "./planned.ts";

interface TableOptions {
  readonly client: DynamoClient;
  readonly tableName: string;
  readonly clock: Clock;
  /** A number in [0, 1), for jitter. */
  readonly random: () => number;
  readonly ids: Random;
}

/** One index as the service describes it. */
interface IndexDescription {
  readonly IndexName: string;
  readonly IndexStatus?: string;
}

export interface TableDescription {
  readonly TableStatus?: string;
  readonly GlobalSecondaryIndexes?: readonly IndexDescription[];
}

/** Where a segment of a scan goes on; null: from its beginning. */
export type ScanKey = Readonly<Record<string, unknown>> | null;

/** The table that is migrated, as far as a migration needs it. */
export class MigratedTable {
  readonly records: Records;
  readonly name: string;
  readonly clock: Clock;
  readonly #calls: RetriedCalls;

  constructor(options: TableOptions) {
    this.name = options.tableName;
    this.clock = options.clock;
    this.records = new Records({ ...options, timeoutMs: TIMEOUT_MS });
    this.#calls = new RetriedCalls({ ...options, attemptMaxMs: RETRY.attemptMaxMs * 5 });
  }

  async describe(): Promise<TableDescription> {
    const { Table } = await this.call("DescribeTable", {});
    return Table as TableDescription;
  }

  /** A page of one segment: its partitions, in their order. Items of one partition follow each other, also over pages. */
  async scan(
    { segment, segments }: { readonly segment: number; readonly segments: number },
    from: ScanKey,
  ): Promise<{ readonly pks: readonly string[]; readonly next: ScanKey }> {
    const { Items = [], LastEvaluatedKey = null } = await this.call("Scan", {
      ...{ Segment: segment, TotalSegments: segments, ConsistentRead: true },
      ...{ ProjectionExpression: "#pk", ExpressionAttributeNames: { "#pk": PK } },
      ...(from === null ? {} : { ExclusiveStartKey: from }),
    });
    const pks = (Items as readonly Attributes[]).map((item) => item[PK]?.S ?? "");
    return { pks: [...new Set(pks)], next: LastEvaluatedKey as ScanKey };
  }

  /** All items of a partition, as they are now. */
  partition(pk: string): Promise<readonly Attributes[]> {
    return collected(this.records.query({ partition: [PK, pk], consistent: true }));
  }

  /** Makes an item where there is none; false: there is one. */
  async putNew({ attributes }: NewItem): Promise<boolean> {
    const body = JSON.stringify({
      ...{ TableName: this.name, Item: attributes },
      ...{ ConditionExpression: "attribute_not_exists(#pk)", ExpressionAttributeNames: { "#pk": PK } },
    });
    const deadline = this.#calls.deadline(TIMEOUT_MS);
    for (let failures = 0; ; failures++) {
      const reader = { tableName: this.name, decode: () => ({}), after: {} };
      const answer = itemAnswerOf(await this.#calls.attempt("PutItem", body, deadline), reader);
      if (answer.kind === "applied") return true;
      // Also where an earlier attempt did it, and its answer was lost.
      if (answer.kind === "failed") return false;
      await deadline.backOff(failures, "copy", "cause" in answer ? answer.cause : undefined);
    }
  }

  call(operation: DynamoOperation, input: object): Promise<Record<string, unknown>> {
    const body = JSON.stringify(operation === "DescribeBackup" ? input : { TableName: this.name, ...input });
    return this.#calls.call({ operation, body }, this.#calls.deadline(TIMEOUT_MS), "migrate");
  }

  /** Asks again and again until it is so. */
  async until(what: string, withinMs: number, isSo: () => Promise<boolean>): Promise<void> {
    const untilMs = this.clock.now() + withinMs;
    while (!(await isSo())) {
      if (this.clock.now() >= untilMs) {
        throw new RateLimiterUnavailable(`Timed out waiting until ${what}; run migrate again to resume.`);
      }
      await this.clock.sleep(RETRY.tablePollMs * 5, undefined);
    }
  }
}

const TIMEOUT_MS = 60_000;
