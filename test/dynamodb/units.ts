import type { DynamoAnswer, DynamoCall, DynamoClient, DynamoOperation } from "../../src/adapters/dynamodb/client.ts";

/** What some calls cost, as DynamoDB bills it. */
export interface Units {
  readonly calls: number;
  /** Of the table itself. */
  readonly writes: number;
  /** Of all indexes together. */
  readonly indexWrites: number;
  readonly reads: number;
}

/**
 * A way to the table that adds up what goes over it, for items of at most a kilobyte. Single writes, queries and all that happens
 * in indexes cost what DynamoDB Local says. Two things DynamoDB Local counts less of than DynamoDB bills, so they are counted here:
 * reads by key (a key where nothing is found costs like any other), and the items of a transaction (two units each).
 */
export class Meter implements DynamoClient {
  readonly #client: DynamoClient;
  #units: Units = NOTHING;
  /** Of the last call, as DynamoDB Local says it: units of the table, and of each index that was touched. */
  last: Readonly<Record<string, number>> = {};

  constructor(client: DynamoClient) {
    this.#client = client;
  }

  async send(operation: DynamoOperation, body: string, call: DynamoCall): Promise<DynamoAnswer> {
    const input = JSON.parse(body) as Record<string, unknown>;
    const answer = await this.#client.send(
      operation,
      JSON.stringify({ ...input, ReturnConsumedCapacity: "INDEXES" }),
      call,
    );
    this.#units = sum(this.#units, costOf(operation, input, answer));
    this.last = answer.kind === "answered" ? unitsIn(answer.body.ConsumedCapacity) : {};
    return answer;
  }

  async close(): Promise<void> {}

  /** What the calls made meanwhile cost. */
  async of(work: () => unknown): Promise<Units> {
    this.#units = NOTHING;
    await work();
    return this.#units;
  }
}

const LEAST = 0.5;
const NOTHING: Units = { calls: 0, writes: 0, indexWrites: 0, reads: 0 };

function sum(a: Units, b: Units): Units {
  return {
    calls: a.calls + b.calls,
    writes: a.writes + b.writes,
    indexWrites: a.indexWrites + b.indexWrites,
    reads: a.reads + b.reads,
  };
}

interface Consumed {
  readonly CapacityUnits?: number;
  readonly Table?: { readonly CapacityUnits: number };
  readonly GlobalSecondaryIndexes?: Readonly<Record<string, { readonly CapacityUnits: number }>>;
}

function costOf(operation: DynamoOperation, input: Record<string, unknown>, answer: DynamoAnswer): Units {
  const one = { ...NOTHING, calls: 1 };
  if (operation === "GetItem") return { ...one, reads: unitsOfKey(input) };
  if (operation === "BatchGetItem") {
    const tables = Object.values(input.RequestItems as Record<string, { readonly Keys: readonly unknown[] }>);
    return { ...one, reads: tables.reduce((reads, table) => reads + table.Keys.length * unitsOfKey({ ...table }), 0) };
  }
  // A condition that did not hold costs its write all the same; an answer that is an error does not say so.
  const failed: Consumed = { CapacityUnits: operation === "UpdateItem" || operation === "PutItem" ? 1 : 0 };
  const told = answer.kind === "answered" ? answer.body.ConsumedCapacity : failed;
  const consumed = [told].flat().filter((each) => each !== undefined) as readonly Consumed[];
  const table = consumed.reduce((units, each) => units + (each.Table?.CapacityUnits ?? each.CapacityUnits ?? 0), 0);
  const indexes = consumed.flatMap(({ GlobalSecondaryIndexes = {} }) => Object.values(GlobalSecondaryIndexes));
  const indexUnits = indexes.reduce((units, { CapacityUnits }) => units + CapacityUnits, 0);
  if (operation === "Query") return { ...one, reads: Math.max(LEAST, table + indexUnits) };
  if (operation === "TransactWriteItems") {
    const { length } = input.TransactItems as readonly unknown[];
    return { ...one, writes: 2 * length, indexWrites: indexUnits };
  }
  return { ...one, writes: table, indexWrites: indexUnits };
}

function unitsOfKey({ ConsistentRead }: Record<string, unknown>): number {
  return ConsistentRead === true ? 1 : 0.5;
}

function unitsIn(told: unknown): Record<string, number> {
  const units: Record<string, number> = { table: 0 };
  for (const { CapacityUnits = 0, Table, GlobalSecondaryIndexes = {} } of [told ?? []].flat() as readonly Consumed[]) {
    units.table = (units.table ?? 0) + (Table?.CapacityUnits ?? CapacityUnits);
    for (const [index, spent] of Object.entries(GlobalSecondaryIndexes)) units[index] = spent.CapacityUnits;
  }
  return units;
}
