import type { DynamoAnswer, DynamoCall, DynamoClient, DynamoOperation } from "../adapters/dynamodb/client.ts";

/** What DynamoDB said that its answers cost. */
export interface Units {
  readonly calls: number;
  /** Capacity units of the table and its indexes together. */
  readonly reads: number;
  readonly writes: number;
}

const READS: ReadonlySet<DynamoOperation> = new Set(["GetItem", "BatchGetItem", "Query", "Scan"]);

/** A way to DynamoDB that adds up what goes over it. */
export class MeteredClient implements DynamoClient {
  readonly #client: DynamoClient;
  #calls = 0;
  #reads = 0;
  #writes = 0;

  constructor(client: DynamoClient) {
    this.#client = client;
  }

  async send(operation: DynamoOperation, body: string, { timeoutMs }: DynamoCall): Promise<DynamoAnswer> {
    // Put before what is there: requests are text. The quick way to an item would pass over what the answer says of its cost.
    const answer = await this.#client.send(operation, `{"ReturnConsumedCapacity":"TOTAL",${body.slice(1)}`, {
      timeoutMs,
    });
    this.#calls += 1;
    if (READS.has(operation)) this.#reads += unitsIn(answer);
    else this.#writes += unitsIn(answer);
    return answer;
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  units(): Units {
    return { calls: this.#calls, reads: this.#reads, writes: this.#writes };
  }
}

/** A condition that did not hold costs a write, which the answer does not say. */
const REFUSED_WRITE_UNITS = 1;

function unitsIn(answer: DynamoAnswer): number {
  if (answer.kind === "failed" && answer.code === "ConditionalCheckFailedException") return REFUSED_WRITE_UNITS;
  if (answer.kind !== "answered") return 0;
  const told = [answer.body.ConsumedCapacity ?? []].flat() as readonly { readonly CapacityUnits?: number }[];
  return told.reduce((units, { CapacityUnits = 0 }) => units + CapacityUnits, 0);
}
