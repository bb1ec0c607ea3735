import { Redis } from "ioredis";
import { RateLimiter } from "../src/entry/index.ts";
import { startRedis } from "../test/redis/redis-server.ts";
import { CALLERS, concurrently, sequentially } from "./callers.ts";
import { type Call, KEYS, prepareChains, takingOf } from "./chains.ts";
import { type BenchOptions, type BenchTable, compare, median, pairedRounds, quantile } from "./measure.ts";
import { redisFleetTable } from "./redis-fleet.ts";
import { flexibleOn, scriptBy } from "./redis-ways.ts";

/**
 * The Redis store, whole engine, two limits a level: against one bare script of one INCR, called as the store calls its own, and against a peer on
 * the same server, which keeps nothing on a disk.
 */
export async function benchRedis({ extent }: BenchOptions): Promise<BenchTable[]> {
  const server = await startRedis().catch((error: unknown) => String(error));
  if (typeof server === "string") {
    process.stderr.write(`SKIPPED: no redis-server for this bench. ${server}\n`);
    return [];
  }
  const { url } = server;
  await prepareChains(url);
  const limiter = await RateLimiter.open({ store: url, timeoutMs: 10_000 });
  const client = new Redis(url);
  const peer = new Redis(url);
  try {
    const ways = { ...waysOf(limiter), bare: await scriptBy(client), flexible: flexibleOn(peer) };
    const cpuMs = () => cpuMsOf(client);
    const tables = [...(await timed(ways, extent)), ...(await peers(ways, extent)), await redisFleetTable(url, cpuMs)];
    return extent === "followed" ? tables : [...tables, await serverCpu(ways, cpuMs)];
  } finally {
    await limiter.close();
    client.disconnect();
    peer.disconnect();
  }
}

interface RedisWays {
  /** One script that counts one key up. */
  readonly bare: Call;
  /** Two limits a level, all levels of one chain. */
  readonly chain: (levels: 1 | 4 | 8) => Call;
  /** One level, two limits, one of a hundred entities. */
  readonly many: Call;
  /** Two limiters, one of a hundred keys. */
  readonly flexible: Call;
}

function waysOf(limiter: RateLimiter): Pick<RedisWays, "chain" | "many"> {
  return {
    chain: (levels) => takingOf(limiter, `of-${levels}-${levels}`),
    many: (i) => takingOf(limiter, `alone-${i % KEYS}`)(i),
  };
}

async function timed({ bare, chain }: RedisWays, extent: BenchOptions["extent"]): Promise<BenchTable[]> {
  const settings = { by: ["time", "process CPU"], rounds: 9, extent } as const;
  const one = await compare(
    alone("one script of one INCR, one caller", "peer", bare),
    [alone("ours, one caller, 1 level", "ours", chain(1)), alone("ours, one caller, a chain of 4", "ours", chain(4))],
    settings,
  );
  const hot = await compare(
    together("one script of one INCR, 64 callers", "peer", bare),
    [
      together("ours, 64 callers, one bucket", "ours", chain(1)),
      together("ours, 64 callers, one chain of 4", "ours", chain(4)),
      together("ours, 64 callers, one chain of 8", "ours", chain(8)),
    ],
    settings,
  );
  return [
    { title: "Redis, two limits a level, one caller", ...one },
    { title: `Redis, two limits a level, ${CALLERS} callers`, ...hot },
  ];
}

async function peers({ many, flexible }: RedisWays, extent: BenchOptions["extent"]): Promise<BenchTable[]> {
  const settings = { by: ["time"], rounds: 9, extent } as const;
  const one = await compare(
    alone("rate-limiter-flexible, one caller", "peer", flexible),
    [alone("ours, 100 keys, one caller", "ours", many)],
    settings,
  );
  const all = await compare(
    together("rate-limiter-flexible, 64 callers", "peer", flexible),
    [together("ours, 100 keys, 64 callers", "ours", many)],
    settings,
  );
  return [
    { title: "Redis, two limits, 100 keys, one caller", ...one },
    { title: `Redis, two limits, 100 keys, ${CALLERS} callers`, ...all },
  ];
}

const CPU_CALLS = 6_400;
const CPU_ROUNDS = 5;

/** What the server uses of a processor for a request, in scripts of one INCR. */
async function serverCpu({ bare, chain, flexible }: RedisWays, cpuMs: () => Promise<number>): Promise<BenchTable> {
  const base = alone("one script of one INCR, one caller", "peer", bare);
  const others = [
    alone("ours, one caller, 1 level", "ours", chain(1)),
    alone("ours, one caller, a chain of 4", "ours", chain(4)),
    alone("ours, one caller, a chain of 8", "ours", chain(8)),
    alone("rate-limiter-flexible, two limiters, one caller", "peer", flexible),
    together("one script of one INCR, 64 callers", "peer", bare),
    together("ours, 64 callers, one bucket", "ours", chain(1)),
    together("ours, 64 callers, one chain of 8", "ours", chain(8)),
  ];
  const pairs = await pairedRounds({ base, others }, CPU_ROUNDS, async ({ run }) => {
    const before = await cpuMs();
    await run(CPU_CALLS);
    return ((await cpuMs()) - before) * (1000 / CPU_CALLS);
  });
  const rows = others.map(({ name }, i) => {
    const own = pairs[i] ?? [];
    const scripts = own.map((pair) => pair.own / pair.base);
    return {
      ...{
        name,
        serverCpuMicroseconds: median(own.map((pair) => pair.own)),
        "in scripts of one INCR": median(scripts),
      },
      ...{ low: quantile(scripts, 0.25), high: quantile(scripts, 0.75) },
    };
  });
  return { title: "Redis, CPU of the server a request, two limits a level", rows };
}

async function cpuMsOf(client: Redis): Promise<number> {
  const info = await client.info("cpu");
  const seconds = ["used_cpu_sys", "used_cpu_user"].map((name) =>
    Number(new RegExp(`^${name}:([0-9.]+)`, "m").exec(info)?.[1]),
  );
  return seconds.reduce((sum, one) => sum + one, 0) * 1_000;
}

function alone(name: string, owner: "ours" | "peer", call: Call) {
  return { name, owner, run: (calls: number) => sequentially(calls, call) };
}

function together(name: string, owner: "ours" | "peer", call: Call) {
  return { name, owner, run: (calls: number) => concurrently(calls, call) };
}
