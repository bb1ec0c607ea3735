/** Where an engine is reached. */
export function endpointOf(port: number): string {
  return `http://127.0.0.1:${port}`;
}

// DynamoDB Local wants somebody to have signed, whoever it was.
const AUTHORIZATION =
  "AWS4-HMAC-SHA256 Credential=local/20200101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0";

const ANSWER_TIMEOUT_MS = 10_000;

/** Names of all tables there; rejects where no DynamoDB answers. */
export async function tablesAt(endpoint: string): Promise<readonly string[]> {
  const names: string[] = [];
  for (let after: string | undefined, isMore = true; isMore; isMore = after !== undefined) {
    const response = await fetch(endpoint, {
      method: "POST",
      body: JSON.stringify(after === undefined ? {} : { ExclusiveStartTableName: after }),
      headers: {
        "content-type": "application/x-amz-json-1.0",
        "x-amz-target": "DynamoDB_20120810.ListTables",
        authorization: AUTHORIZATION,
      },
      signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
    });
    const page = (await response.json()) as { TableNames?: string[]; LastEvaluatedTableName?: string };
    if (!response.ok || page.TableNames === undefined) throw new Error(`${endpoint} is not a DynamoDB`);
    names.push(...page.TableNames);
    after = page.LastEvaluatedTableName;
  }
  return names;
}

type Answering = "dynamodb" | "something else" | "nobody";

/** Who answers there. */
export async function answering(endpoint: string): Promise<Answering> {
  try {
    await tablesAt(endpoint);
    return "dynamodb";
  } catch {
    try {
      await (await fetch(endpoint, { signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) })).arrayBuffer();
      return "something else";
    } catch {
      return "nobody";
    }
  }
}
