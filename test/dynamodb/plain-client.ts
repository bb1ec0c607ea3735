import { Agent, request } from "node:http";
import type { DynamoAnswer, DynamoCall, DynamoClient, DynamoOperation } from "../../src/adapters/dynamodb/client.ts";

/** A connection that was idle for longer is closed from here: the server might be closing it while a request is on its way. */
const IDLE_MAX_MS = 4_000;

/** The plainest way to a DynamoDB that looks at no signature. For tests; `fetch` costs several times as much of the processor. */
export class PlainClient implements DynamoClient {
  readonly #endpoint: URL;
  readonly #agent = new Agent({ keepAlive: true, timeout: IDLE_MAX_MS });

  constructor(endpoint: string) {
    this.#endpoint = new URL(endpoint);
  }

  async send(operation: DynamoOperation, body: string, { timeoutMs }: DynamoCall): Promise<DynamoAnswer> {
    try {
      const { status, text } = await this.#post(operation, body, timeoutMs);
      const answer = (text === "" ? {} : JSON.parse(text)) as Record<string, unknown>;
      if (status === 200) return { kind: "answered", body: answer };
      const code = String(answer.__type ?? "").replace(/^.*#/, "");
      const message = String(answer.message ?? answer.Message ?? "");
      return { kind: "failed", status, code, message, body: answer };
    } catch (cause) {
      return isUnsent(cause) ? { kind: "unsent", cause } : { kind: "lost", cause };
    }
  }

  async close(): Promise<void> {}

  #post(
    operation: string,
    body: string,
    timeoutMs: number,
  ): Promise<{ readonly status: number; readonly text: string }> {
    return new Promise((resolve, reject) => {
      const sent = request(this.#endpoint, {
        method: "POST",
        agent: this.#agent,
        headers: {
          "content-type": "application/x-amz-json-1.0",
          "content-length": Buffer.byteLength(body),
          "x-amz-target": `DynamoDB_20120810.${operation}`,
          authorization: AUTHORIZATION,
        },
      });
      const timer = setTimeout(() => sent.destroy(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
      const failed = (error: Error) => {
        clearTimeout(timer);
        reject(error);
      };
      sent.once("error", failed);
      sent.once("response", (response) => {
        let text = "";
        response.setEncoding("utf8");
        response.on("data", (chunk: string) => {
          text += chunk;
        });
        response.once("error", failed);
        response.once("end", () => {
          clearTimeout(timer);
          resolve({ status: response.statusCode ?? 0, text });
        });
      });
      sent.end(body);
    });
  }
}

// DynamoDB Local wants somebody to have signed, whoever it was.
const AUTHORIZATION =
  "AWS4-HMAC-SHA256 Credential=test/20200101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0";

function isUnsent(error: unknown): boolean {
  const { code } = error as { code?: string };
  return code === "ECONNREFUSED" || code === "ENOTFOUND";
}
