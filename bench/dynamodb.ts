import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { DynamoDB } from "@aws-sdk/client-dynamodb";
import { createTable } from "../src/entry/dynamodb.ts";
import type { Told } from "./dynamodb-client.ts";
import { CREDENTIALS, configure, flexibleTable, REGION, type Scene } from "./dynamodb-ways.ts";
import { median } from "./measure.ts";

const ROUNDS = 7;
const ROUND_MS = 500;
/** Long enough to meet all buckets, and for the code to be compiled. */
const WARM_MS = 3_000;

interface Rows {
  readonly title: string;
  readonly rows: readonly object[];
}

/** Whole acquires on the DynamoDB store: the client's CPU, in a process of its own for each way. */
export async function benchDynamodb(): Promise<Rows[]> {
  const server = fork(new URL("./dynamodb-server.ts", import.meta.url));
  const [{ port }] = (await once(server, "message")) as [{ port: number }];
  const counting = async (): Promise<number> => {
    server.send("calls");
    const [{ calls }] = (await once(server, "message")) as [{ calls: number }];
    return calls;
  };
  const tables = await tablesOn("a store in memory", `http://127.0.0.1:${port}`, counting);
  server.disconnect();
  return tables;
}

/** One table of ways for each number of limits. */
async function tablesOn(
  where: string,
  endpoint: string,
  counting: (() => Promise<number>) | undefined,
): Promise<Rows[]> {
  const table = `bench-${process.pid}`;
  await createTable({ stack: table, endpoint, region: REGION, credentials: CREDENTIALS });
  await createFlexibleTable(endpoint, flexibleTable(table));
  await configure({ endpoint, table });
  const tables: Rows[] = [];
  for (const limits of [1, 2] as const) {
    const common = { endpoint, table, limits };
    const title = `DynamoDB: CPU of an acquire of ${limits === 1 ? "one limit" : "two limits"}, ${where}`;
    tables.push({ title, rows: await compared(scenesOf(common), counting) });
  }
  return tables;
}

function scenesOf(common: Pick<Scene, "endpoint" | "table" | "limits">): Scene[] {
  const scene = (way: Scene["way"], buckets: Scene["buckets"], coalesce: boolean): Scene => ({
    ...common,
    way,
    buckets,
    coalesce,
  });
  return [
    scene("floor", "one", false),
    scene("ours", "many", false),
    scene("ours", "many", true),
    scene("ours", "one", false),
    scene("ours", "one", true),
    scene("SDK tuned", "one", false),
    scene("SDK default", "one", false),
    scene("rate-limiter-flexible", "many", false),
  ];
}

function nameOf({ way, coalesce, buckets }: Scene): string {
  if (way === "floor") return "raw undici, an equal body (floor)";
  if (way !== "ours") return way;
  return `ours, ${buckets === "many" ? "many buckets" : "one bucket"}, coalescing ${coalesce ? "on" : "off"}`;
}

/** Lets the ways take turns, and compares within a round. */
async function compared(
  scenes: readonly Scene[],
  counting: (() => Promise<number>) | undefined,
): Promise<readonly object[]> {
  const clients = await Promise.all(scenes.map(clientFor));
  for (const client of clients) await run(client, WARM_MS);
  const costs = clients.map((): number[] => []);
  const trips = clients.map(() => 0);
  for (let round = 0; round < ROUNDS; round++) {
    for (const [i, client] of clients.entries()) {
      const before = await counting?.();
      const { calls, microseconds } = await run(client, ROUND_MS);
      costs[i]?.push(microseconds);
      if (before !== undefined) trips[i] = (((await counting?.()) ?? 0) - before) / calls;
    }
  }
  for (const client of clients) client.disconnect();
  const [floor] = costs as [number[]];
  const flexible = costs.at(-1) as number[];
  return scenes.map((scene, i) => {
    const own = costs[i] as number[];
    return {
      name: nameOf(scene),
      microseconds: rounded(median(own)),
      "times the floor": rounded(median(own.map((cost, round) => cost / (floor[round] as number)))),
      "of rate-limiter-flexible": rounded(median(own.map((cost, round) => (flexible[round] as number) / cost))),
      ...(counting === undefined ? {} : { "calls an acquire": rounded(trips[i] as number) }),
    };
  });
}

async function clientFor(scene: Scene): Promise<ChildProcess> {
  const client = fork(new URL("./dynamodb-client.ts", import.meta.url), [JSON.stringify(scene)]);
  client.once("exit", (code) => {
    if (code !== 0) throw new Error(`The client "${nameOf(scene)}" ended with ${code}.`);
  });
  await once(client, "message");
  return client;
}

async function run(client: ChildProcess, milliseconds: number): Promise<Told> {
  client.send(milliseconds);
  const [told] = (await once(client, "message")) as [Told];
  return told;
}

async function createFlexibleTable(endpoint: string, TableName: string): Promise<void> {
  const client = new DynamoDB({ region: REGION, endpoint, credentials: CREDENTIALS });
  await client.createTable({
    TableName,
    AttributeDefinitions: [{ AttributeName: "key", AttributeType: "S" }],
    KeySchema: [{ AttributeName: "key", KeyType: "HASH" }],
    BillingMode: "PAY_PER_REQUEST",
  });
  client.destroy();
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}
