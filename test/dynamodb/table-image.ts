import assert from "node:assert/strict";
import type { DynamoClient } from "../../src/adapters/dynamodb/client.ts";

type Item = Readonly<Record<string, unknown>>;

/** So many writes one call may have. */
const BATCH_MAX = 25;

/** What a table holds at one time, to make it so again. For tables of a few dozen items. */
export class TableImage {
  readonly table: string;
  readonly #client: DynamoClient;
  readonly #items: readonly Item[];

  private constructor(client: DynamoClient, table: string, items: readonly Item[]) {
    this.table = table;
    this.#client = client;
    this.#items = items;
  }

  static async of(client: DynamoClient, table: string): Promise<TableImage> {
    return new TableImage(client, table, await itemsOf(client, table));
  }

  async restore(): Promise<void> {
    const kept = new Map(this.#items.map((item) => [keyTextOf(item), JSON.stringify(sorted(item))]));
    const found = await itemsOf(this.#client, this.table);
    const deletes = found
      .filter((item) => !kept.has(keyTextOf(item)))
      .map(({ PK, SK }) => ({ DeleteRequest: { Key: { PK, SK } } }));
    const asBefore = new Set(found.map((item) => JSON.stringify(sorted(item))));
    const puts = this.#items
      .filter((item) => !asBefore.has(JSON.stringify(sorted(item))))
      .map((item) => ({ PutRequest: { Item: item } }));
    const writes = [...deletes, ...puts];
    for (let i = 0; i < writes.length; i += BATCH_MAX) {
      const body = { RequestItems: { [this.table]: writes.slice(i, i + BATCH_MAX) } };
      const { UnprocessedItems: unprocessed } = await answered(this.#client, "BatchWriteItem", body);
      assert.deepEqual(unprocessed ?? {}, {});
    }
  }
}

async function itemsOf(client: DynamoClient, table: string): Promise<readonly Item[]> {
  const items: Item[] = [];
  let from: unknown;
  do {
    const body = { TableName: table, ConsistentRead: true, ...(from === undefined ? {} : { ExclusiveStartKey: from }) };
    const page = await answered(client, "Scan", body);
    items.push(...(page.Items as readonly Item[]));
    from = page.LastEvaluatedKey;
  } while (from !== undefined);
  return items;
}

async function answered(client: DynamoClient, operation: "Scan" | "BatchWriteItem", body: unknown) {
  const reply = await client.send(operation, JSON.stringify(body), { timeoutMs: 30_000 });
  assert.ok(reply.kind === "answered", `${operation} was answered with ${JSON.stringify(reply)}`);
  return reply.body;
}

function keyTextOf({ PK, SK }: Item): string {
  return JSON.stringify([PK, SK]);
}

/** Attributes come in any order. */
function sorted(item: Item): readonly (readonly [string, unknown])[] {
  return Object.entries(item).sort(([one], [other]) => (one < other ? -1 : 1));
}
