import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { createTable } from "../src/entry/dynamodb.ts";
import { CREDENTIALS, REGION } from "./dynamodb-ways.ts";
import type { Held, IdsJob } from "./ids-worker.ts";
import type { BenchOptions, BenchTable } from "./measure.ts";

const IDS = 1_000_000;
const DAY_MS = 86_400_000;
/** Longer than two days and an hour: whatever memory keeps of a generation is over when the next one comes. */
const PAUSE_MS = 2 * DAY_MS + 3 * 3_600_000;

/**
 * A million ids, each seen once, and then as many others: what a process holds for each, and whether it stays flat. The clock
 * is simulated, the stores are not. `ids` for another number than a million, `store` for one store.
 */
export async function benchIds({ ids = IDS, store }: BenchOptions): Promise<BenchTable[]> {
  const server = fork(new URL("./dynamodb-server.ts", import.meta.url));
  const [{ port }] = (await once(server, "message")) as [{ port: number }];
  const way = { endpoint: `http://127.0.0.1:${port}`, region: REGION, credentials: CREDENTIALS };
  const table = `bench-ids-${process.pid}`;
  await createTable({ stack: table, ...way });
  const all = { idsPerGeneration: ids, generations: 3, pauseMs: PAUSE_MS, dynamodb: { table, ...way } };
  const keepMs = DAY_MS;
  const jobs: readonly (readonly [string, IdsJob])[] = [
    ["memory", { ...all, store: "memory", usage: undefined, together: 0 }],
    ["memory, usage: false", { ...all, store: "memory", usage: false, together: 0 }],
    ["sqlite, usage: { keepMs: a day }", { ...all, store: "sqlite", usage: { keepMs }, together: 500 }],
    ["sqlite, usage: false", { ...all, store: "sqlite", usage: false, together: 500 }],
    // A million in all: the table is elsewhere, so nothing of an id need be held.
    [
      "dynamodb, client",
      {
        ...{ ...all, store: "dynamodb", usage: undefined, together: 64 },
        ...{ idsPerGeneration: Math.ceil(ids / 4), generations: 4 },
      },
    ],
  ];
  const rows: object[] = [];
  for (const [name, job] of jobs) {
    if (store === undefined || store === job.store) rows.push(rowOf(name, job, await heldBy(job, server)));
  }
  server.disconnect();
  return [{ title: `${ids.toLocaleString("en")} ids through one process, then as many others`, rows }];
}

async function heldBy(job: IdsJob, server: ChildProcess): Promise<Held[]> {
  const worker = fork(new URL("./ids-worker.ts", import.meta.url), { execArgv: ["--expose-gc"] });
  return new Promise((resolve, reject) => {
    worker.on("exit", (code) => reject(new Error(`The process for ${job.store} ended with ${code}.`)));
    worker.on("message", (message: { readonly held?: Held[] }) => {
      // The buckets of ids that never come back are not needed at the server either.
      if (job.store === "dynamodb") server.send("forget buckets");
      if (message.held !== undefined) resolve(message.held);
    });
    worker.send(job);
  });
}

function rowOf(name: string, { idsPerGeneration, generations }: IdsJob, held: readonly Held[]): object {
  const first = held[0] as Held;
  const isFile = first.fileBytes > 0;
  const megabytes = (bytes: number) => Math.round(bytes / 1e5) / 10;
  return {
    name,
    ids: idsPerGeneration,
    generations,
    "bytes an id": Math.round(first.heapBytes / idsPerGeneration),
    "heap MB after each": held.map(({ heapBytes }) => megabytes(heapBytes)).join(" "),
    "file bytes an id": isFile ? Math.round(first.fileBytes / idsPerGeneration) : "",
    "file MB after each": isFile ? held.map(({ fileBytes }) => megabytes(fileBytes)).join(" ") : "",
    microseconds: Math.round(first.microseconds * 10) / 10,
  };
}
