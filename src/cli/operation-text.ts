import type { OperationResult } from "../entry/index.ts";

/** What a top-up or reset did, for people. */
export function operationText({ entityId, resource, amounts, repeated }: OperationResult, what: string): string {
  if (repeated) return `The idempotency key was used before; ${entityId} on ${resource} is unchanged.\n`;
  const gained = Object.entries(amounts).map(([limit, tokens]) => `${limit} gained ${tokens}`);
  return `${entityId} on ${resource} is ${what}${gained.length === 0 ? "" : `: ${gained.join(", ")}`}.\n`;
}
