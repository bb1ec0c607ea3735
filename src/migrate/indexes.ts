import { tableDefinition } from "../adapters/dynamodb/schema.ts";
import type { MigratedTable, TableDescription } from "./table.ts";

/**
 * Makes the indexes that are missing, one at a time, as DynamoDB wants it, and returns once all of them are there. Before that
 * nothing may be written: who comes after one that was killed waits here, too.
 */
export async function makeIndexes(table: MigratedTable): Promise<void> {
  const wanted = tableDefinition({ name: table.name, gsi2Projection: "ALL", tags: {}, deletionProtection: false });
  await allActive(table);
  for (const index of wanted.GlobalSecondaryIndexes) {
    if (hasIndex(await table.describe(), index.IndexName)) continue;
    const keys = index.KeySchema.map(({ AttributeName }) => AttributeName);
    await table.call("UpdateTable", {
      AttributeDefinitions: keys.map((AttributeName) => ({ AttributeName, AttributeType: "S" })),
      GlobalSecondaryIndexUpdates: [{ Create: index }],
    });
    await allActive(table);
  }
}

function hasIndex({ GlobalSecondaryIndexes = [] }: TableDescription, name: string): boolean {
  return GlobalSecondaryIndexes.some(({ IndexName }) => IndexName === name);
}

/** An index over a large table takes hours. */
const WITHIN_MS = 24 * 3_600_000;

async function allActive(table: MigratedTable): Promise<void> {
  await table.until(`the indexes of "${table.name}" are active`, WITHIN_MS, async () => {
    const { TableStatus, GlobalSecondaryIndexes = [] } = await table.describe();
    return TableStatus === "ACTIVE" && GlobalSecondaryIndexes.every(({ IndexStatus }) => IndexStatus === "ACTIVE");
  });
}
