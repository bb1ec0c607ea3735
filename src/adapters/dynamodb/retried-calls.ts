import type { Clock } from "../../ports/system.ts";
import type { DynamoAnswer, DynamoClient, DynamoOperation } from "./client.ts";
import type { Attributes } from "./codec.ts";
import { Deadline } from "./deadline.ts";
import { readFaultOf } from "./errors.ts";
import { chunksOf } from "./paging.ts";
import { keyIn, keyOf } from "./records-write.ts";
import type { TableKey } from "./schema.ts";

interface RetriedCallsOptions {
  readonly client: DynamoClient;
  readonly tableName: string;
  readonly clock: Clock;
  /** A number in [0, 1), for jitter. */
  readonly random: () => number;
  /** Bound on one attempt, in ms, besides the deadline: below it, a call whose answer was lost can be made again in time. */
  readonly attemptMaxMs: number;
}

/** Calls of one table that may be made twice: tried again until there is an answer, or no time is left. */
export class RetriedCalls {
  readonly #options: RetriedCallsOptions;

  constructor(options: RetriedCallsOptions) {
    this.#options = options;
  }

  /** All attempts at one call, and the pauses between them, end after `timeoutMs`. */
  deadline(timeoutMs: number): Deadline {
    const { tableName, clock, random } = this.#options;
    return new Deadline({ tableName, clock, random, timeoutMs });
  }

  /** The body of the answer. `what` the call is for stands in the error that ends it. */
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

  /** One attempt, within the time that is left. */
  async attempt(operation: DynamoOperation, body: string, deadline: Deadline): Promise<DynamoAnswer> {
    const timeoutMs = Math.min(deadline.leftMs, this.#options.attemptMaxMs);
    const answer = await this.#options.client.send(operation, body, { timeoutMs });
    deadline.attempted(answer, timeoutMs);
    return answer;
  }

  /** Items by their keys, in the order of the keys; undefined where there is none. */
  async getAll(
    keys: readonly TableKey[],
    { consistent, timeoutMs }: { readonly consistent: boolean; readonly timeoutMs: number },
  ): Promise<readonly (Attributes | undefined)[]> {
    const found = new Map<string, Attributes>();
    const chunks = chunksOf(uniqueKeys(keys), GETS_MAX);
    await Promise.all(chunks.map((chunk) => this.#getChunk(chunk, consistent, timeoutMs, found)));
    return keys.map((key) => found.get(keyText(key)));
  }

  // Until every key was answered for: an item that was left over is not a missing one.
  async #getChunk(
    keys: readonly TableKey[],
    consistent: boolean,
    timeoutMs: number,
    found: Map<string, Attributes>,
  ): Promise<void> {
    const deadline = this.deadline(timeoutMs);
    let wanted: readonly Attributes[] = keys.map(keyOf);
    // Attempts in a row that brought nothing.
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

/** Each key once: DynamoDB refuses a batch that names one twice. */
export function uniqueKeys(keys: readonly TableKey[]): readonly TableKey[] {
  return [...new Map(keys.map((key) => [keyText(key), key])).values()];
}

function keyText({ pk, sk }: TableKey): string {
  return `${pk}\n${sk}`;
}
