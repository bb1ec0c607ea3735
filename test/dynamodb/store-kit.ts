import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import type { DynamoAnswer, DynamoCall, DynamoClient, DynamoOperation } from "../../src/adapters/dynamodb/client.ts";
import type { Attributes, AttributeValue } from "../../src/adapters/dynamodb/codec.ts";
import { Records } from "../../src/adapters/dynamodb/records.ts";
import type { TableKey } from "../../src/adapters/dynamodb/schema.ts";
import { type DynamoStoreOptions, dynamoOver } from "../../src/adapters/dynamodb/store.ts";
import { prepareTable } from "../../src/adapters/dynamodb/table-admin.ts";
import { createCalendar } from "../../src/adapters/system/calendar.ts";
import { systemClock } from "../../src/adapters/system/clock.ts";
import { systemRandom } from "../../src/adapters/system/random.ts";
import { TRUSTED_CLOCK } from "../../src/clock/clock-bounds.ts";
import { DEFAULT_NAMESPACE } from "../../src/domain/config/namespace.ts";
import type { Store } from "../../src/ports/store.ts";
import { TestedNamespace } from "../kit/contract-kit.ts";
import type { DynamodbLocal } from "./dynamodb-local.ts";

const calendar = createCalendar();

/** A table of its own, with the namespace `default`, and the first of the processes on it. */
export interface Ground {
  readonly table: string;
  readonly place: TestedNamespace;
  readonly store: Store;
  readonly wire: Wire;
  readonly records: Records;
  readonly namespaceId: string;
  /** Another process on the same table. */
  another(options?: Partial<DynamoStoreOptions>): Promise<Ground>;
  /** Puts an item as another program would. */
  put(key: TableKey, attributes: Attributes): Promise<void>;
}

export async function newGround(dynamodb: DynamodbLocal, t: TestContext, options: Partial<DynamoStoreOptions> = {}) {
  const gsi2Projection = options.shared === true ? "ALL" : "KEYS_ONLY";
  const table = await dynamodb.newTable({ gsi2Projection, expiry: false });
  const base = { client: dynamodb.client, clock: systemClock, random: Math.random, ids: systemRandom };
  await prepareTable({ ...base, table, version: "0.0.0", timeoutMs: 30_000 });
  t.after(() => dynamodb.client.send("DeleteTable", JSON.stringify({ TableName: table }), { timeoutMs: 10_000 }));
  return groundOn(dynamodb, table, options);
}

async function groundOn(dynamodb: DynamodbLocal, table: string, given: Partial<DynamoStoreOptions>): Promise<Ground> {
  const wire = new Wire(dynamodb.client);
  const options = optionsFor(wire, table, given);
  const store = dynamoOver(options);
  const place = await TestedNamespace.in(store, DEFAULT_NAMESPACE);
  const records = recordsOn(dynamodb, table);
  return {
    ...{ table, place, store, wire, records, namespaceId: place.namespaceId },
    another: (more = {}) => groundOn(dynamodb, table, { ...given, ...more }),
    put: async ({ pk, sk }, attributes) => {
      const Item = { PK: { S: pk }, SK: { S: sk }, ...attributes };
      const answer = await dynamodb.client.send("PutItem", JSON.stringify({ TableName: table, Item }), CALL);
      assert.equal(answer.kind, "answered");
    },
  };
}

export function optionsFor(
  client: DynamoClient,
  table: string,
  given: Partial<DynamoStoreOptions> = {},
): DynamoStoreOptions {
  return {
    ...{ client, table, calendar, clock: systemClock, random: Math.random, ids: systemRandom },
    ...{ coalesce: true, exact: false, shared: false, denyMemoryMs: 0, timeoutMs: 10_000, adminTimeoutMs: 30_000 },
    serverTime: TRUSTED_CLOCK,
    // No request is under way while a test switches, and the indexes of DynamoDB Local do not lag.
    settle: async () => {},
    ...given,
  };
}

export function recordsOn({ client }: DynamodbLocal, tableName: string): Records {
  return new Records({
    ...{ client, tableName, clock: systemClock, random: Math.random, ids: systemRandom, timeoutMs: 30_000 },
  });
}

const CALL: DynamoCall = { timeoutMs: 10_000 };

/** What happens to a call on its way: an answer instead of the service's, or what becomes of it. */
export type Fault = (call: {
  readonly operation: DynamoOperation;
  readonly input: Record<string, unknown>;
  /** Lets it through. */
  send(input?: Record<string, unknown>): Promise<DynamoAnswer>;
}) => Promise<DynamoAnswer>;

/** A way to the table that remembers the calls, and may lose them. */
export class Wire implements DynamoClient {
  readonly #client: DynamoClient;
  readonly calls: { readonly operation: DynamoOperation; readonly input: Record<string, unknown> }[] = [];
  fault: Fault = ({ send }) => send();

  constructor(client: DynamoClient) {
    this.#client = client;
  }

  send(operation: DynamoOperation, body: string, call: DynamoCall): Promise<DynamoAnswer> {
    const input = JSON.parse(body) as Record<string, unknown>;
    this.calls.push({ operation, input });
    return this.fault({
      operation,
      input,
      send: (changed = input) => this.#client.send(operation, JSON.stringify(changed), call),
    });
  }

  async close(): Promise<void> {}

  /** The calls that were made meanwhile. */
  async during(work: () => unknown): Promise<readonly DynamoOperation[]> {
    this.calls.length = 0;
    await work();
    return this.calls.map(({ operation }) => operation);
  }
}

/** Done, but the answer is lost: of the first so many calls of an operation. */
export function answersLost(operation: DynamoOperation, count: number): Fault {
  let left = count;
  return async (call) => {
    const answer = await call.send();
    if (call.operation !== operation || left-- <= 0) return answer;
    return { kind: "lost", cause: new Error("the answer was lost") };
  };
}

/** Cut off after so many calls: none is let in any more. */
export function cutOffAfter(count: number): Fault {
  let left = count;
  return async ({ send }) => (left-- > 0 ? send() : CUT_OFF);
}

/** Nobody tries again after this. */
export const CUT_OFF: DynamoAnswer = {
  ...{ kind: "failed", status: 400, code: "AccessDeniedException", message: "cut off", body: {} },
};

export const S = (text: string): AttributeValue => ({ S: text });
export const N = (value: number): AttributeValue => ({ N: String(value) });

/** Without the keys, which other tests look at. */
export function withoutKeys(item: Attributes | undefined): Record<string, AttributeValue> {
  const own = Object.entries(item ?? {}).filter(([name]) => !/^(PK|SK|GSI\d[PS]K)$/.test(name));
  return Object.fromEntries(own);
}
