import type { DynamoAnswer, DynamoOperation } from "../../src/adapters/dynamodb/client.ts";
import type { Fault } from "./store-kit.ts";

/** The service says no, and that nothing was done. */
export function failure(code: string, body: Record<string, unknown> = {}): DynamoAnswer {
  return { kind: "failed", status: 400, code, message: `${code}, as told`, body };
}

export const THROTTLED = failure("ProvisionedThroughputExceededException");

/** The first so many calls of an operation get this answer, and the service never hears of them. */
export function answeredBy(operation: DynamoOperation, answer: DynamoAnswer, count: number): Fault {
  let left = count;
  return async (call) => (call.operation === operation && left-- > 0 ? answer : call.send());
}
