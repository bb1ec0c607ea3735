import type { DynamoAnswer, DynamoCall, DynamoClient, DynamoOperation } from "../../src/adapters/dynamodb/client.ts";

/** The plainest way to a DynamoDB that looks at no signature. For tests. */
export class FetchClient implements DynamoClient {
  readonly #endpoint: string;

  constructor(endpoint: string) {
    this.#endpoint = endpoint;
  }

  async send(operation: DynamoOperation, body: string, { timeoutMs }: DynamoCall): Promise<DynamoAnswer> {
    try {
      const response = await fetch(this.#endpoint, {
        method: "POST",
        body,
        headers: {
          "content-type": "application/x-amz-json-1.0",
          "x-amz-target": `DynamoDB_20120810.${operation}`,
          authorization: AUTHORIZATION,
        },
        signal: AbortSignal.timeout(timeoutMs),
      });
      const text = await response.text();
      const answer = (text === "" ? {} : JSON.parse(text)) as Record<string, unknown>;
      if (response.ok) return { kind: "answered", body: answer };
      const code = String(answer.__type ?? "").replace(/^.*#/, "");
      const message = String(answer.message ?? answer.Message ?? "");
      return { kind: "failed", status: response.status, code, message, body: answer };
    } catch (cause) {
      return isUnsent(cause) ? { kind: "unsent", cause } : { kind: "lost", cause };
    }
  }

  async close(): Promise<void> {}
}

// DynamoDB Local wants somebody to have signed, whoever it was.
const AUTHORIZATION =
  "AWS4-HMAC-SHA256 Credential=test/20200101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0";

function isUnsent(error: unknown): boolean {
  const { cause } = error as { cause?: { code?: string } };
  return cause?.code === "ECONNREFUSED" || cause?.code === "ENOTFOUND";
}
