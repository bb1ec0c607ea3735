import { fork } from "node:child_process";
import { once } from "node:events";
import { createTable } from "../src/entry/dynamodb.ts";
import { type Client, clientFor } from "./dynamodb-clients.ts";
import { CREDENTIALS, configure, REGION, type Scene } from "./dynamodb-ways.ts";
import { type BenchTable, followedBy, median, type Pair, pairedRounds, quantile, ROUND_MS } from "./measure.ts";

const WARM_CALLS = 20_000;
const ROUNDS = 12;
const CALIBRATION = 2_000;

const BASE = "our transport alone: signed, the answer parsed (JSON)";

/**
 * One figure: the CPU of an acquire of two limits, coalescing on, as a multiple of that of its request and answer alone. The
 * server is in memory and in a process of its own; so is each way, and they take turns.
 */
export async function benchDynamodbOverhead(): Promise<BenchTable[]> {
  const server = fork(new URL("./dynamodb-server.ts", import.meta.url));
  const [{ port }] = (await once(server, "message")) as [{ port: number }];
  const endpoint = `http://127.0.0.1:${port}`;
  const table = `bench-${process.pid}`;
  await createTable({ stack: table, endpoint, region: REGION, credentials: CREDENTIALS, projection: "ALL" });
  await configure({ endpoint, table });
  const way = async (name: string, scene: Pick<Scene, "way" | "coalesce">) => ({
    name,
    client: await clientFor({ ...scene, endpoint, table, limits: 2, buckets: "many" }),
  });
  const [base, acquire] = await Promise.all([
    way(BASE, { way: "transport", coalesce: false }),
    way("acquire, two limits, coalescing on", { way: "ours", coalesce: true }),
  ]);
  const calls = new Map<Client, number>();
  for (const { client } of [base, acquire]) {
    await client.run({ milliseconds: 0, calls: WARM_CALLS });
    const { microseconds } = await client.run({ milliseconds: 0, calls: CALIBRATION });
    calls.set(client, Math.ceil((ROUND_MS * 1000) / microseconds));
  }
  const [pairs] = (await pairedRounds({ base, others: [acquire] }, ROUNDS, async ({ client }) => {
    const { microseconds } = await client.run({ milliseconds: 0, calls: calls.get(client) as number });
    return { "process CPU": microseconds };
  })) as [Pair<"process CPU">[]];
  for (const { client } of [base, acquire]) client.end();
  server.disconnect();
  const costs = pairs.map((pair) => ({ transport: pair.base["process CPU"], acquire: pair.own["process CPU"] }));
  const times = costs.map((pair) => pair.acquire / pair.transport);
  const rows = [
    { name: BASE, microseconds: rounded(median(costs.map((pair) => pair.transport))), "times the transport": 1 },
    {
      name: acquire.name,
      microseconds: rounded(median(costs.map((pair) => pair.acquire))),
      "times the transport": rounded(median(times)),
      "middle half": `${rounded(quantile(times, 0.25))} to ${rounded(quantile(times, 0.75))}`,
    },
  ];
  return [
    {
      title: "DynamoDB: CPU of an acquire over the signed, parsing transport alone, two limits",
      rows,
      followed: followedBy(acquire.name, pairs, ["process CPU"]),
    },
  ];
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}
