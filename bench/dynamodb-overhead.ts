import { fork } from "node:child_process";
import { once } from "node:events";
import { createTable } from "../src/entry/dynamodb.ts";
import { clientFor } from "./dynamodb-clients.ts";
import { CREDENTIALS, configure, REGION, type Scene } from "./dynamodb-ways.ts";
import { median } from "./measure.ts";

const WARM_CALLS = 20_000;
/** Many short rounds, as many calls in each: a machine that is busy for a while is so for all ways alike. */
const ROUNDS = 20;
const ROUND_CALLS = 1_500;

const BASE = "our transport alone: signed, the answer parsed (JSON)";

/**
 * One figure: the CPU of an acquire of two limits, coalescing on, as a multiple of that of its request and answer alone. The
 * server is in memory and in a process of its own; so is each way, and they take turns.
 */
export async function benchDynamodbOverhead(): Promise<{ title: string; rows: readonly object[] }[]> {
  const server = fork(new URL("./dynamodb-server.ts", import.meta.url));
  const [{ port }] = (await once(server, "message")) as [{ port: number }];
  const endpoint = `http://127.0.0.1:${port}`;
  const table = `bench-${process.pid}`;
  await createTable({ stack: table, endpoint, region: REGION, credentials: CREDENTIALS, projection: "ALL" });
  await configure({ endpoint, table });
  const way = async (name: string, scene: Pick<Scene, "way" | "coalesce">) => ({
    name,
    client: await clientFor({ ...scene, endpoint, table, limits: 2, buckets: "many" }),
    costs: [] as number[],
  });
  const ways = await Promise.all([
    way(BASE, { way: "transport", coalesce: false }),
    way("acquire, two limits, coalescing on", { way: "ours", coalesce: true }),
  ]);
  for (const { client } of ways) await client.run({ milliseconds: 0, calls: WARM_CALLS });
  for (let round = 0; round < ROUNDS; round++) {
    for (const { client, costs } of ways) {
      costs.push((await client.run({ milliseconds: 0, calls: ROUND_CALLS })).microseconds);
    }
  }
  for (const { client } of ways) client.end();
  server.disconnect();
  const base = ways[0]?.costs as number[];
  const rows = ways.map(({ name, costs }) => {
    const ratios = costs.map((cost, round) => cost / (base[round] as number)).sort((a, b) => a - b);
    return {
      name,
      microseconds: rounded(median(costs)),
      "times the transport": rounded(median(ratios)),
      // Of the quietest round of each: what is left when nothing else is in the way.
      "times the transport, quietest": rounded(Math.min(...costs) / Math.min(...base)),
      "middle half": `${rounded(ratios[ratios.length >> 2] as number)} to ${rounded(ratios[(3 * ratios.length) >> 2] as number)}`,
    };
  });
  return [{ title: "DynamoDB: CPU of an acquire over the signed, parsing transport alone, two limits", rows }];
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}
