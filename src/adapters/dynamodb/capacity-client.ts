import type { Channel, ConsumedCapacityEvent } from "../../ports/events.ts";
import type { DynamoAnswer, DynamoCall, DynamoClient, DynamoOperation } from "./client.ts";

/** Operations whose answers say what they cost, if that is asked for. */
const TELLING: ReadonlySet<DynamoOperation> = new Set([
  ...(["GetItem", "PutItem", "UpdateItem", "DeleteItem", "BatchGetItem", "BatchWriteItem"] as const),
  ...(["TransactWriteItems", "Query", "Scan"] as const),
]);

/** A way to DynamoDB that asks what calls cost, and publishes it, while somebody wants to know. */
export class CapacityClient implements DynamoClient {
  readonly #client: DynamoClient;
  readonly #channel: Channel<ConsumedCapacityEvent>;

  constructor(client: DynamoClient, channel: Channel<ConsumedCapacityEvent>) {
    this.#client = client;
    this.#channel = channel;
  }

  send(operation: DynamoOperation, body: string, call: DynamoCall): Promise<DynamoAnswer> {
    if (!this.#channel.active || !TELLING.has(operation)) return this.#client.send(operation, body, call);
    return this.#asking(operation, body, call);
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  async #asking(operation: DynamoOperation, body: string, { timeoutMs }: DynamoCall): Promise<DynamoAnswer> {
    // Put before what is there: requests are text. The quick way to an item would pass over what the answer says of its cost.
    const asked = `{"ReturnConsumedCapacity":"TOTAL",${body.slice(1)}`;
    const answer = await this.#client.send(operation, asked, { timeoutMs });
    if (answer.kind === "answered") this.#publish(operation, answer.body.ConsumedCapacity);
    return answer;
  }

  #publish(operation: DynamoOperation, told: unknown): void {
    for (const one of [told ?? []].flat() as readonly ConsumedCapacity[]) {
      if (one.TableName === undefined || one.CapacityUnits === undefined) continue;
      this.#channel.publish({ operation, table: one.TableName, units: one.CapacityUnits });
    }
  }
}

interface ConsumedCapacity {
  readonly TableName?: string;
  readonly CapacityUnits?: number;
}
