import { request as http } from "node:http";
import { request as https } from "node:https";
import type { Clock } from "../ports/system.ts";

/** An answer to CloudFormation. */
export interface CustomResourceResponse {
  readonly Status: "SUCCESS" | "FAILED";
  /** The reason of a failure, as one sentence. */
  readonly Reason?: string;
  readonly PhysicalResourceId: string;
  readonly StackId: string;
  readonly RequestId: string;
  readonly LogicalResourceId: string;
  /** The number of pieces per kind of change; small, so that it always fits. */
  readonly Data?: Readonly<Record<string, number>>;
}

/** CloudFormation accepts at most this many bytes. */
const RESPONSE_BYTES_MAX = 4096;
const ATTEMPTS_MAX = 4;
const TIMEOUT_MS = 10_000;

/** The text of the answer; a reason that is too long is cut. */
export function responseText(answer: CustomResourceResponse): string {
  let text = JSON.stringify(answer);
  for (let reason = answer.Reason ?? ""; Buffer.byteLength(text) > RESPONSE_BYTES_MAX && reason.length > 0; ) {
    reason = reason.slice(0, Math.floor(reason.length * 0.9));
    text = JSON.stringify({ ...answer, Reason: `${reason} ...` });
  }
  return text;
}

/** Sends the answer to CloudFormation, with retries. */
export async function putResponse(url: string, answer: CustomResourceResponse, clock: Clock): Promise<void> {
  const body = responseText(answer);
  for (let attempt = 1; ; attempt++) {
    try {
      return await put(url, body);
    } catch (error) {
      if (attempt === ATTEMPTS_MAX) throw error;
      await clock.sleep(250 * 2 ** attempt, undefined);
    }
  }
}

function put(url: string, body: string): Promise<void> {
  const send = url.startsWith("http:") ? http : https;
  return new Promise((resolve, reject) => {
    const headers = { "content-length": Buffer.byteLength(body), "content-type": "" };
    const request = send(url, { method: "PUT", headers, timeout: TIMEOUT_MS }, (response) => {
      response.resume();
      const { statusCode = 0 } = response;
      response.on("error", reject);
      response.on("end", () => {
        if (statusCode >= 200 && statusCode < 300) resolve();
        else reject(new Error(`The response URL refused the response (HTTP ${statusCode}).`));
      });
    });
    request.on("timeout", () => request.destroy(new Error("The response URL did not respond in time.")));
    request.on("error", reject);
    request.end(body);
  });
}
