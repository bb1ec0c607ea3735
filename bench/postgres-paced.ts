import { setTimeout as pause } from "node:timers/promises";
import type { Call } from "./chains.ts";
import {
  type BenchTable,
  type Contender,
  type Cost,
  followedBy,
  median,
  type Pair,
  pairedRounds,
  quantile,
  ratiosOf,
} from "./measure.ts";
import type { BenchServer } from "./postgres-server.ts";
import type { PostgresWays } from "./postgres-ways.ts";

const CALLS = 60;
const ROUNDS = 9;

type PacedClock = "time" | "process CPU" | "server CPU";

const CLOCKS: readonly PacedClock[] = ["server CPU", "process CPU", "time"];

/**
 * One caller with 2 to 3 ms between two calls, as in a process with few requests: caches are cold then, and everything costs up to twice as much
 * as in a tight loop. The base is one bare prepared update, paced like the others.
 */
export async function pacedTables(server: BenchServer, ways: PostgresWays): Promise<BenchTable[]> {
  if ((await server.cpuMs()) === undefined) return [];
  const base = paced("one bare update", ways.bare);
  const others = ([1, 4, 8] as const).map((levels) =>
    paced(levels === 1 ? "ours, 1 level" : `ours, a chain of ${levels}`, ways.chain(levels)),
  );
  for (const { run } of [base, ...others]) await run(CALLS);
  const pairs = await pairedRounds({ base, others }, ROUNDS, ({ call }) => costOf(call, server));
  return CLOCKS.map((by) => ({
    title: `PostgreSQL, two limits a level, one caller, 2 to 3 ms between calls, by ${by}`,
    rows: others.map(({ name }, i) => rowOf(name, pairs[i] ?? [], by)),
    followed: others.flatMap(({ name }, i) => followedBy(name, pairs[i] ?? [], [by])),
  }));
}

interface Paced extends Contender {
  readonly call: Call;
}

function paced(name: string, call: Call): Paced {
  const run = async (calls: number) => {
    for (let i = 0; i < calls; i++) await call(i);
  };
  return { name, owner: "ours", run, call };
}

/** The pauses count as CPU of the process, the same for everybody, and not as time. */
async function costOf(call: Call, server: BenchServer): Promise<Cost<PacedClock>> {
  const serverStartMs = (await server.cpuMs()) as number;
  const cpu = process.cpuUsage();
  let ms = 0;
  for (let i = 0; i < CALLS; i++) {
    await pause(2 + (i % 2));
    const startMs = performance.now();
    await call(i);
    ms += performance.now() - startMs;
  }
  const { user, system } = process.cpuUsage(cpu);
  const serverMs = ((await server.cpuMs()) as number) - serverStartMs;
  return {
    time: (ms * 1_000) / CALLS,
    "process CPU": (user + system) / CALLS,
    "server CPU": (serverMs * 1_000) / CALLS,
  };
}

function rowOf(name: string, pairs: readonly Pair<PacedClock>[], by: PacedClock): object {
  const ratios = ratiosOf(pairs, by);
  return {
    name,
    microseconds: median(pairs.map(({ own }) => own[by])),
    "of a bare update": 1 / median(ratios),
    ...{ ratio: median(ratios), ratioLow: quantile(ratios, 0.25), ratioHigh: quantile(ratios, 0.75) },
  };
}
