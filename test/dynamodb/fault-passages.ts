import assert from "node:assert/strict";
import type { Attributes } from "../../src/adapters/dynamodb/codec.ts";
import type { Fault, Passage } from "./fault-proxy.ts";

/** Which requests are which, as a proxy sees them. */
export type Kind = (passage: Passage) => boolean;

/** What a take, a debit and the making of an item carry, so that whoever sent it knows it again. */
export interface Nonce {
  readonly slot: string;
  readonly value: string;
}

export function nonceOf({ operation, input }: Passage): Nonce | undefined {
  if (operation === "PutItem") {
    const [slot, value] = Object.entries(input.Item as Attributes).find(([name]) => isSlot(name)) ?? [];
    return slot === undefined ? undefined : { slot, value: value?.N ?? "" };
  }
  if (operation !== "UpdateItem") return undefined;
  const names = Object.entries((input.ExpressionAttributeNames ?? {}) as Record<string, string>);
  const [placeholder, slot] = names.find(([, name]) => isSlot(name)) ?? [];
  if (placeholder === undefined || slot === undefined) return undefined;
  const [, value = ""] = new RegExp(`${placeholder} = (:\\w+)`).exec(String(input.UpdateExpression)) ?? [];
  return { slot, value: (input.ExpressionAttributeValues as Attributes)[value]?.N ?? "" };
}

/** Takes or debits. */
export const isTake: Kind = (passage) => nonceOf(passage) !== undefined;

/** The only write of one bucket that carries no nonce. */
export const isGiveBack: Kind = (passage) => passage.operation === "UpdateItem" && !isTake(passage);

export const isRead: Kind = ({ operation }) => operation === "BatchGetItem" || operation === "GetItem";

export const isTransaction: Kind = ({ operation }) => operation === "TransactWriteItems";

/** DynamoDB did it. */
export const isDone: Kind = ({ said }) => said?.status === 200;

/** Of one entity's buckets. */
export function ofEntity(entityId: string, is: Kind): Kind {
  return (passage) => is(passage) && bucketOwner(passage) === entityId;
}

/** No take was done twice, however often it was asked for. */
export function assertDoneOnce(passages: readonly Passage[]): void {
  const done = passages
    .filter((passage) => isTake(passage) && isDone(passage))
    .map((passage) => nonceOf(passage)?.value);
  assert.equal(new Set(done).size, done.length);
}

function bucketOwner({ input }: Passage): string | undefined {
  const { PK } = (input.Key ?? input.Item ?? {}) as Attributes;
  return /\/BUCKET#([^#]+)#/.exec(PK?.S ?? "")?.[1];
}

/** The fault for all such requests, for as long as it lasts. */
export function always(fault: Fault, is: Kind): (passage: Passage) => Fault | undefined {
  return (passage) => (is(passage) ? fault : undefined);
}

/** The fault for every take when it is first tried, and none for its repeats. */
export function firstTries(fault: Fault): (passage: Passage) => Fault | undefined {
  const met = new Set<string>();
  return (passage) => {
    const { value } = nonceOf(passage) ?? {};
    if (value === undefined || met.has(value)) return undefined;
    met.add(value);
    return fault;
  };
}

function isSlot(name: string): boolean {
  return /^n[0-9a-f]$/.test(name);
}
