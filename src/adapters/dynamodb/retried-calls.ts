import type { DynamoAnswer, DynamoOperation, TableAccess } from "./client.ts";
import type { Attributes } from "./codec.ts";
import { readFaultOf } from "./errors.ts";
import { chunksOf } from "./paging.ts";
import { keyIn, keyOf } from "./records-write.ts";
import { Deadline } from "./retry-policy.ts";
import type { TableKey } from "./schema.ts";

interface RetriedCallsOptions extends TableAccess {
  /** The maximum time of one attempt, in ms, so that a lost call can be repeated before the deadline. */
  readonly attemptMaxMs: number;
}

/** Calls to one table that may be repeated: they are retried until there is an answer, or no time is left. */
export class RetriedCalls {
  readonly #options: RetriedCallsOptions;

  constructor(options: RetriedCallsOptions) {
    this.#options = options;
  }

  /** The deadline of all attempts of one call, including pauses. */
  deadline(timeoutMs: number): Deadline {
    return new Deadline(this.#options, timeoutMs);
  }

  /** The body of the answer. `what` names the call in the error that ends it. */
  async call(
    { operation, body }: { readonly operation: DynamoOperation; readonly body: string },
    deadline: Deadline,
    what: string,
  ): Promise<Record<string, unknown>> {
    for (let failures = 0; ; failures++) {
      const answer = await this.attempt(operation, body, deadline);
      if (answer.kind === "answered") return answer.body;
      await deadline.backOff(failures, what, readFaultOf(answer, this.#options.tableName));
    }
  }

  async attempt(operation: DynamoOperation, body: string, deadline: Deadline): Promise<DynamoAnswer> {
    const timeoutMs = Math.min(deadline.leftMs, this.#options.attemptMaxMs);
    const answer = await this.#options.client.send(operation, body, { timeoutMs });
    deadline.attempted(answer, timeoutMs);
    return answer;
  }

  /** The items in the order of the keys; undefined where there is none. */
  async getAll(
    keys: readonly TableKey[],
    { consistent, timeoutMs }: { readonly consistent: boolean; readonly timeoutMs: number },
  ): Promise<readonly (Attributes | undefined)[]> {
    const found = new Map<string, Attributes>();
    const chunks = chunksOf(uniqueKeys(keys), GETS_MAX);
    await Promise.all(chunks.map((chunk) => this.#getChunk(chunk, consistent, timeoutMs, found)));
    return keys.map((key) => found.get(keyText(key)));
  }

  // Repeats unprocessed keys: an item that was left out is not missing.
  async #getChunk(
    keys: readonly TableKey[],
    consistent: boolean,
    timeoutMs: number,
    found: Map<string, Attributes>,
  ): Promise<void> {
    const deadline = this.deadline(timeoutMs);
    let wanted: readonly Attributes[] = keys.map(keyOf);
    // Consecutive attempts without progress.
    let failures = 0;
    for (;;) {
      const RequestItems = { [this.#options.tableName]: { Keys: wanted, ConsistentRead: consistent } };
      const request = { operation: "BatchGetItem", body: JSON.stringify({ RequestItems }) } as const;
      const { Responses, UnprocessedKeys } = await this.call(request, deadline, "read");
      for (const item of this.ofTable<readonly Attributes[]>(Responses) ?? []) found.set(keyText(keyIn(item)), item);
      const left = this.ofTable<{ readonly Keys?: readonly Attributes[] }>(UnprocessedKeys)?.Keys ?? [];
      if (left.length === 0) return;
      failures = left.length < wanted.length ? 0 : failures + 1;
      wanted = left;
      await deadline.backOff(failures, "read", new Error(`${left.length} of ${keys.length} items were not read`));
    }
  }

  /** The part of a batch's answer that is about this table. */
  ofTable<Value>(tables: unknown): Value | undefined {
    return (tables as Readonly<Record<string, Value>> | undefined)?.[this.#options.tableName];
  }
}

const GETS_MAX = 100;

/** Removes duplicates, because DynamoDB refuses a batch that names a key twice. */
export function uniqueKeys(keys: readonly TableKey[]): readonly TableKey[] {
  return [...new Map(keys.map((key) => [keyText(key), key])).values()];
}

function keyText({ pk, sk }: TableKey): string {
  return `${pk}\n${sk}`;
}
