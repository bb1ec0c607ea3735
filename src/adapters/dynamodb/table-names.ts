import type { DynamoClient } from "./client.ts";

/** Names of the tables there are, a limiter's or not: at most a thousand, and none where the right to list them is missing. */
export async function tableNames(client: DynamoClient, timeoutMs: number): Promise<readonly string[]> {
  const names: string[] = [];
  for (let after: unknown, isMore = true; isMore && names.length < NAMES_MAX; isMore = after !== undefined) {
    const body = JSON.stringify(after === undefined ? {} : { ExclusiveStartTableName: after });
    const answer = await client.send("ListTables", body, { timeoutMs });
    if (answer.kind !== "answered") break;
    names.push(...((answer.body.TableNames ?? []) as readonly string[]));
    after = answer.body.LastEvaluatedTableName;
  }
  return names;
}

const NAMES_MAX = 1_000;
