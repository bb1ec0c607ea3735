import { fork } from "node:child_process";
import { once } from "node:events";
import { Agent } from "node:http";
import { fileURLToPath } from "node:url";
import { DynamoDBClient, UpdateItemCommand, type UpdateItemCommandInput } from "@aws-sdk/client-dynamodb";
import { Pool } from "undici";
import { openSdkClient } from "../src/adapters/dynamodb/sdk-client.ts";
import { openTransport } from "../src/adapters/dynamodb/transport.ts";
import { median } from "./measure.ts";

const CONCURRENCY = 64;
const ROUNDS = 7;
const ROUND_MS = 400;

interface Way {
  readonly name: string;
  call(): Promise<unknown>;
}

const input: UpdateItemCommandInput = {
  TableName: "limits",
  Key: { PK: { S: "ns/ENTITY#user-1" }, SK: { S: "#BUCKET#gpt-4#0" } },
  UpdateExpression: "ADD #0 :0, #1 :1 SET #2 = :2",
  ConditionExpression: "#3 = :3 AND #0 >= :4 AND #1 >= :5 AND #0 <= :6 AND #1 <= :7",
  ExpressionAttributeNames: { "#0": "b_rpm_tk", "#1": "b_tpm_tk", "#2": "n", "#3": "rf" },
  ExpressionAttributeValues: {
    ":0": { N: "-1000" },
    ":1": { N: "-500000" },
    ":2": { S: "0123456789abcdef" },
    ":3": { N: "1700000000000" },
    ":4": { N: "1000" },
    ":5": { N: "500000" },
    ":6": { N: "60000" },
    ":7": { N: "100000000" },
  },
  ReturnValues: "ALL_NEW",
  ReturnValuesOnConditionCheckFailure: "ALL_OLD",
};
const body = JSON.stringify(input);
const credentials = { accessKeyId: "AKIDEXAMPLE", secretAccessKey: "secret", sessionToken: "t".repeat(400) };

/** What a call costs by itself, without a limiter around it: CPU of this process, against a server that always answers the same. */
export async function benchDynamodbTransport(): Promise<{ title: string; rows: readonly object[] }[]> {
  const server = fork(fileURLToPath(new URL("dynamodb-canned-server.ts", import.meta.url)));
  const [port] = (await once(server, "message")) as [number];
  const endpoint = `http://127.0.0.1:${port}`;
  const tuned = {
    maxAttempts: 1,
    cacheMiddleware: true,
    requestHandler: { httpAgent: new Agent({ keepAlive: true, maxSockets: CONCURRENCY }) },
  };
  const ways: Way[] = [
    rawUndici(endpoint),
    await ours(endpoint),
    sdk("SDK tuned", endpoint, tuned),
    await oursOverSdk(endpoint),
    sdk("SDK default", endpoint, {}),
  ];
  // Warm, and know how many calls make a round.
  const calls: number[] = [];
  for (const way of ways) {
    await cpuMicroseconds(way, 2000);
    calls.push(Math.ceil((ROUND_MS * 1000) / (await cpuMicroseconds(way, 2000))));
  }
  const costs = ways.map((): number[] => []);
  for (let round = 0; round < ROUNDS; round++) {
    for (const [i, way] of ways.entries()) costs[i]?.push(await cpuMicroseconds(way, calls[i] as number));
  }
  const floor = costs[0] as number[];
  const rows = ways.map(({ name }, i) => {
    const own = costs[i] as number[];
    return {
      name,
      microseconds: Number(median(own).toFixed(1)),
      "times the floor": Number(median(own.map((cost, round) => cost / (floor[round] as number))).toFixed(2)),
    };
  });
  server.disconnect();
  return [{ title: "DynamoDB: CPU of a bare call, a server that always answers the same", rows }];
}

function rawUndici(endpoint: string): Way {
  const pool = new Pool(endpoint, { connections: CONCURRENCY, headersTimeout: 0, bodyTimeout: 0 });
  // As many headers as a signed request has.
  const headers = [
    ["content-type", "application/x-amz-json-1.0"],
    ["x-amz-date", "20260101T000000Z"],
    ["x-amz-target", "DynamoDB_20120810.UpdateItem"],
    ["authorization", "a".repeat(240)],
    ["x-amz-security-token", credentials.sessionToken],
  ].flat();
  return {
    name: "raw undici (floor)",
    call: () =>
      new Promise<void>((resolve, reject) => {
        pool.dispatch(
          { method: "POST", path: "/", headers, body },
          {
            onRequestStart() {},
            onResponseStart() {},
            onResponseData() {},
            onResponseEnd: () => resolve(),
            onResponseError: (_controller, error) => reject(error),
          },
        );
      }),
  };
}

async function ours(endpoint: string): Promise<Way> {
  let dates = 0;
  const client = await openTransport({
    region: "us-east-1",
    endpoint,
    credentials,
    now: Date.now,
    connections: CONCURRENCY,
    stamp: () => dates,
    onDate: () => void dates++,
  });
  return { name: "ours", call: () => expectAnswered(client.send("UpdateItem", body, { timeoutMs: 5000 })) };
}

async function oursOverSdk(endpoint: string): Promise<Way> {
  const agent = new Agent({ keepAlive: true, maxSockets: CONCURRENCY });
  const given = new DynamoDBClient({
    region: "us-east-1",
    endpoint,
    credentials,
    requestHandler: { httpAgent: agent },
  });
  const client = await openSdkClient(given, {});
  return {
    name: "ours over the SDK",
    call: () => expectAnswered(client.send("UpdateItem", body, { timeoutMs: 5000 })),
  };
}

function sdk(name: string, endpoint: string, config: object): Way {
  const client = new DynamoDBClient({ region: "us-east-1", endpoint, credentials, ...config });
  return { name, call: () => client.send(new UpdateItemCommand(input)) };
}

async function expectAnswered(sent: Promise<{ kind: string }>): Promise<void> {
  const answer = await sent;
  if (answer.kind !== "answered") throw new Error("The canned server was not understood.", { cause: answer });
}

async function cpuMicroseconds({ call }: Way, calls: number): Promise<number> {
  let left = calls;
  const worker = async (): Promise<void> => {
    while (left-- > 0) await call();
  };
  const before = process.cpuUsage();
  await Promise.all(Array.from({ length: CONCURRENCY }, worker));
  const { user, system } = process.cpuUsage(before);
  return (user + system) / calls;
}
