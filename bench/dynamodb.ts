import { fork } from "node:child_process";
import { once } from "node:events";
import { DynamoDB } from "@aws-sdk/client-dynamodb";
import { createTable, deleteTable } from "../src/entry/dynamodb.ts";
import { fetchedDynamodbLocal } from "../test/dynamodb/dynamodb-local-download.ts";
import { startDynamodbLocal } from "../test/dynamodb/dynamodb-local-process.ts";
import { type Client, clientFor, originalFor } from "./dynamodb-clients.ts";
import { CREDENTIALS, configure, flexibleTable, REGION, type Scene, type Told } from "./dynamodb-ways.ts";
import { median } from "./measure.ts";

interface Rows {
  readonly title: string;
  readonly rows: readonly object[];
}

/** Where it is measured, and how long. */
interface BenchTarget {
  readonly name: string;
  readonly endpoint: string;
  /** Calls of a way before it is measured: code has to be compiled, and buckets to be met. */
  readonly warmCalls: number;
  readonly rounds: number;
  readonly roundMs: number;
  /** Calls that have arrived so far, where that can be told. */
  readonly arrived: () => Promise<number> | undefined;
}

/** Whole acquires on the DynamoDB store, 64 at a time: the CPU of the client, which has a process of its own for each way. */
export async function benchDynamodb(): Promise<Rows[]> {
  const server = fork(new URL("./dynamodb-server.ts", import.meta.url));
  const [{ port }] = (await once(server, "message")) as [{ port: number }];
  const arrived = async (): Promise<number> => {
    server.send("calls");
    const [{ calls }] = (await once(server, "message")) as [{ calls: number }];
    return calls;
  };
  const endpoint = `http://127.0.0.1:${port}`;
  const target = { name: "a server in memory", endpoint, warmCalls: 20_000, rounds: 7, roundMs: 400, arrived };
  const table = await preparedTable(target);
  const tables: Rows[] = [];
  for (const limits of [1, 2] as const) {
    tables.push({
      title: titleOf(limits, target),
      rows: await compared(await contendersOf(target, table, limits), target),
    });
  }
  server.disconnect();
  return tables;
}

/** The same against a DynamoDB that nobody here wrote, and with the original. */
export async function benchDynamodbLocal(): Promise<Rows[]> {
  let endpoint: string;
  try {
    endpoint = process.env.ZAEL_TEST_ENDPOINT || (await startDynamodbLocal(await fetchedDynamodbLocal()));
  } catch (error) {
    process.stderr.write(`SKIPPED. No DynamoDB Local: ${error instanceof Error ? error.message : error}\n`);
    return [];
  }
  const arrived = () => undefined;
  const target = { name: "DynamoDB Local", endpoint, warmCalls: 1_500, rounds: 5, roundMs: 1_500, arrived };
  const table = await preparedTable(target);
  // It answers many writes of one item at a time with an internal error, each fourth of them.
  const contenders = (await contendersOf(target, table, 2)).filter(({ name, client }) => {
    if (name !== ONE_APART) return true;
    client.end();
    return false;
  });
  const original = await originalFor(endpoint, table);
  if (original !== undefined) contenders.push({ name: "the original (Python, 0.17.0)", client: original });
  const rows = await compared(contenders, target);
  for (const stack of [table, flexibleTable(table)]) {
    await deleteTable({ stack, endpoint, region: REGION, credentials: CREDENTIALS });
  }
  return [{ title: titleOf(2, target), rows }];
}

function titleOf(limits: 1 | 2, { name }: BenchTarget): string {
  return `DynamoDB: CPU of an acquire of ${limits === 1 ? "one limit" : "two limits"}, ${name}`;
}

interface Contender {
  readonly name: string;
  readonly client: Client;
}

const ONE_APART = "ours, one bucket, coalescing off";
const FLOOR = "raw undici, an equal body (floor)";
const FLEXIBLE = "rate-limiter-flexible";

async function contendersOf({ endpoint }: BenchTarget, table: string, limits: 1 | 2): Promise<Contender[]> {
  const contender = async (name: string, scene: Pick<Scene, "way" | "buckets" | "coalesce">): Promise<Contender> => ({
    name,
    client: await clientFor({ ...scene, endpoint, table, limits }),
  });
  return Promise.all([
    contender(FLOOR, { way: "floor", buckets: "many", coalesce: false }),
    contender("ours, many buckets, coalescing off", { way: "ours", buckets: "many", coalesce: false }),
    contender("ours, many buckets, coalescing on", { way: "ours", buckets: "many", coalesce: true }),
    contender(ONE_APART, { way: "ours", buckets: "one", coalesce: false }),
    contender("ours, one bucket, coalescing on", { way: "ours", buckets: "one", coalesce: true }),
    contender("SDK tuned, one UpdateItem", { way: "SDK tuned", buckets: "many", coalesce: false }),
    contender("SDK default, one UpdateItem", { way: "SDK default", buckets: "many", coalesce: false }),
    contender(FLEXIBLE, { way: "rate-limiter-flexible", buckets: "many", coalesce: false }),
  ]);
}

/** Lets the contenders take turns, and compares within a round. */
async function compared(contenders: readonly Contender[], target: BenchTarget): Promise<readonly object[]> {
  for (const { name, client } of contenders) {
    // The others are so much dearer that they would take minutes.
    const isLean = name === FLOOR || name.startsWith("ours");
    await client.run({ milliseconds: 0, calls: isLean ? target.warmCalls : target.warmCalls / 10 });
  }
  const told = contenders.map((): (Told & { readonly trips: number | undefined })[] => []);
  for (let round = 0; round < target.rounds; round++) {
    for (const [i, { client }] of contenders.entries()) {
      const before = await target.arrived();
      const one = await client.run({ milliseconds: target.roundMs, calls: 1 });
      const after = await target.arrived();
      const trips = before === undefined || after === undefined ? undefined : (after - before) / one.calls;
      told[i]?.push({ ...one, trips });
    }
  }
  for (const { client } of contenders) client.end();
  const costsOf = (name: string) => told[contenders.findIndex((one) => one.name === name)]?.map(costOf) as number[];
  const [floor, flexible] = [costsOf(FLOOR), costsOf(FLEXIBLE)];
  return contenders.map(({ name }, i) => {
    const own = told[i] as (typeof told)[number];
    const [{ trips, writeUnits }] = own as [(typeof own)[number]];
    return {
      name,
      microseconds: rounded(median(own.map(costOf))),
      "times the floor": rounded(median(own.map((one, round) => costOf(one) / (floor[round] as number)))),
      ratio: rounded(median(own.map((one, round) => (flexible[round] as number) / costOf(one)))),
      ...(trips === undefined ? {} : { "calls an acquire": rounded(trips) }),
      ...(writeUnits === undefined ? {} : { "write units an acquire": rounded(writeUnits) }),
    };
  });
}

function costOf({ microseconds }: Told): number {
  return microseconds;
}

async function preparedTable({ endpoint }: BenchTarget): Promise<string> {
  const table = `bench-${process.pid}`;
  await createTable({ stack: table, endpoint, region: REGION, credentials: CREDENTIALS, projection: "ALL" });
  const client = new DynamoDB({ region: REGION, endpoint, credentials: CREDENTIALS });
  await client.createTable({
    TableName: flexibleTable(table),
    AttributeDefinitions: [{ AttributeName: "key", AttributeType: "S" }],
    KeySchema: [{ AttributeName: "key", KeyType: "HASH" }],
    BillingMode: "PAY_PER_REQUEST",
  });
  client.destroy();
  await configure({ endpoint, table });
  return table;
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}
