import { RateLimitExceeded } from "../domain/names/errors.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import type { Answer } from "./answer.ts";

/** A result for API Gateway (payload 2.0) and function URLs. */
export interface LambdaResult {
  /** The status of the answer. */
  readonly statusCode: number;
  /** Header fields by name. */
  readonly headers: Record<string, string>;
  /** The body as text. */
  readonly body: string;
}

/** The result of a request that did not get through. */
export function resultOf({ status, headers, problem }: Answer): LambdaResult {
  return { statusCode: status, headers: { ...headers }, body: JSON.stringify(problem) };
}

/** The same, or what the function of the options answers to a refusal. */
export async function answered(
  answer: Answer,
  onRefusal: ((refusal: RateLimitExceeded) => MaybePromise<LambdaResult>) | undefined,
  plain: (answer: Answer) => LambdaResult,
): Promise<LambdaResult> {
  if (onRefusal === undefined || !(answer.error instanceof RateLimitExceeded)) return plain(answer);
  const { "content-type": _, ...fields } = answer.headers;
  return withFields(await onRefusal(answer.error), fields) as LambdaResult;
}

/** What the gateway makes of the result of a handler. */
export function statusOf(result: unknown): number {
  const { statusCode } = isStructured(result) ? result : { statusCode: 200 };
  return Number(statusCode);
}

/** The result with header fields that it does not have. One without a status becomes what the gateway would make of it. */
export function withFields<Result>(result: Result, fields: Readonly<Record<string, string>>): Result | LambdaResult {
  if (result === undefined || result === null || Object.keys(fields).length === 0) return result;
  if (!isStructured(result)) {
    const body = typeof result === "string" ? result : JSON.stringify(result);
    return { statusCode: 200, headers: { "content-type": "application/json", ...fields }, body };
  }
  const { headers = {} } = result;
  const has = new Set(Object.keys(headers).map((name) => name.toLowerCase()));
  const missing = Object.entries(fields).filter(([name]) => !has.has(name));
  return { ...result, headers: { ...headers, ...Object.fromEntries(missing) } };
}

interface Structured {
  readonly statusCode: number | string;
  readonly headers?: Readonly<Record<string, string>>;
}

function isStructured<Result>(result: Result): result is Result & Structured {
  return typeof result === "object" && result !== null && "statusCode" in result;
}
