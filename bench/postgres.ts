import { CALLERS, concurrently, sequentially } from "./callers.ts";
import { type Call, prepareChains } from "./chains.ts";
import {
  type BenchOptions,
  type BenchTable,
  type Contender,
  compare,
  median,
  pairedRounds,
  quantile,
} from "./measure.ts";
import { fleetTable } from "./postgres-fleet.ts";
import { idsTables } from "./postgres-ids.ts";
import { pacedTables } from "./postgres-paced.ts";
import { type BenchServer, benchServer } from "./postgres-server.ts";
import { type PostgresWays, postgresWays, storeOn } from "./postgres-ways.ts";
import { sharingRows } from "./sharing.ts";

/**
 * The PostgreSQL store, whole engine, two limits a level: against one bare prepared update that is committed by itself, and against a
 * peer on the same server. Everybody has as many connections.
 */
export async function benchPostgres({ extent }: BenchOptions): Promise<BenchTable[]> {
  const server = await benchServer();
  if (typeof server === "string") {
    process.stderr.write(`SKIPPED: no PostgreSQL for this bench. ${server}\n`);
    return [];
  }
  const store = storeOn(server.url);
  await prepareChains(store);
  const ways = await postgresWays(server.url);
  try {
    const measured = [...(await timed(ways, extent)), ...(await pacedTables(server, ways)), await fleetTable(server)];
    const tables = [...measured, ...(await idsTables(store, extent))];
    if (extent === "followed") return tables;
    const sharing = { title: "PostgreSQL, two processes, a chain of 4, 103 buckets", rows: await sharingRows(store) };
    return [...tables, ...(await serverCpu(server, ways)), sharing];
  } finally {
    await ways.close();
    await server.close();
  }
}

async function timed(ways: PostgresWays, extent: BenchOptions["extent"]): Promise<BenchTable[]> {
  const settings = { by: ["time", "process CPU"], rounds: 9, extent } as const;
  const one = await compare(
    alone("one bare update, one caller", "peer", ways.bare),
    [
      alone("ours, one caller, 1 level", "ours", ways.chain(1)),
      alone("ours, one caller, a chain of 4", "ours", ways.chain(4)),
      alone("ours, one caller, a chain of 8", "ours", ways.chain(8)),
    ],
    settings,
  );
  const hot = await compare(
    together("one bare update, 64 callers, one row", "peer", ways.bare),
    [
      together("ours, 64 callers, one bucket", "ours", ways.chain(1)),
      together("ours, 64 callers, one chain of 4", "ours", ways.chain(4)),
      together("ours, 64 callers, one chain of 8", "ours", ways.chain(8)),
    ],
    settings,
  );
  const normal = await compare(
    together("one bare update, 64 callers, synchronous_commit off", "peer", ways.bareNormal),
    [together("ours, 64 callers, one chain of 4, durability normal", "ours", ways.chainNormal(4))],
    settings,
  );
  const tables = [
    { title: "PostgreSQL, two limits a level, one caller, durable", ...one },
    { title: "PostgreSQL, two limits a level, 64 callers, durable", ...hot },
    { title: "PostgreSQL, two limits a level, 64 callers, not waiting for the disk", ...normal },
  ];
  return [...tables, ...(await peers(ways, extent))];
}

async function peers(ways: PostgresWays, extent: BenchOptions["extent"]): Promise<BenchTable[]> {
  const settings = { by: ["time"], rounds: 7, extent } as const;
  const many = await compare(
    together("rate-limiter-flexible, 100 keys", "peer", ways.flexibleMany),
    [together("ours, 100 keys", "ours", ways.many)],
    settings,
  );
  const one = await compare(
    together("rate-limiter-flexible, one key", "peer", ways.flexibleOne),
    [together("ours, one key", "ours", ways.chain(1))],
    settings,
  );
  return [
    { title: "PostgreSQL, two limits, 1 level, 64 callers, durable, many keys", ...many },
    { title: "PostgreSQL, two limits, 1 level, 64 callers, durable, one hot key", ...one },
  ];
}

const CPU_CALLS = 4_000;
const CPU_ROUNDS = 5;

/** What the processes of the server use of a processor for a request. */
async function serverCpu(server: BenchServer, ways: PostgresWays): Promise<BenchTable[]> {
  if ((await server.cpuMs()) === undefined) return [];
  const base = together("one bare update, 64 callers, one row", "peer", ways.bare);
  const others = [
    together("ours, 64 callers, one bucket", "ours", ways.chain(1)),
    together("ours, 64 callers, one chain of 4", "ours", ways.chain(4)),
    together("ours, 64 callers, one chain of 8", "ours", ways.chain(8)),
    alone("ours, one caller, a chain of 4", "ours", ways.chain(4)),
    alone("one bare update, one caller", "peer", ways.bare),
  ];
  const pairs = await pairedRounds({ base, others }, CPU_ROUNDS, async ({ name, run }) => {
    const calls = name.includes("one caller") ? CPU_CALLS / 16 : CPU_CALLS;
    const before = (await server.cpuMs()) as number;
    await run(calls);
    return (((await server.cpuMs()) as number) - before) * (1000 / calls);
  });
  const rows = others.map(({ name }, i) => {
    const ratios = (pairs[i] ?? []).map((pair) => pair.base / pair.own);
    const microseconds = median((pairs[i] ?? []).map(({ own }) => own));
    const half = { ratioLow: quantile(ratios, 0.25), ratioHigh: quantile(ratios, 0.75) };
    return { name, serverCpuMicroseconds: microseconds, ratio: median(ratios), ...half };
  });
  const ofBase = { name: base.name, serverCpuMicroseconds: median(pairs.flat().map((pair) => pair.base)), ratio: 1 };
  return [
    {
      title: `PostgreSQL, CPU of the server a request, two limits a level, ${CALLERS} callers`,
      rows: [ofBase, ...rows],
    },
  ];
}

function alone(name: string, owner: Contender["owner"], call: Call): Contender {
  return { name, owner, run: (calls) => sequentially(calls, call) };
}

function together(name: string, owner: Contender["owner"], call: Call): Contender {
  return { name, owner, run: (calls) => concurrently(calls, call) };
}
