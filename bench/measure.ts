/** What a round is timed with. Collecting garbage and compiling have threads of their own: only the CPU of the process has them. */
type OwnClock = "time" | "thread CPU" | "process CPU";

/** `server CPU`: of the processes of a server that runs beside the bench. */
export type Clock = OwnClock | "server CPU";

/** What one call costs, in microseconds. */
export type Cost<By extends Clock> = Readonly<Record<By, number>>;

/** One way of doing the same work. `run` does it `calls` times; setting up happened before. */
export interface Contender {
  readonly name: string;
  /** The baseline follows our own ways; peers are there to be compared with. */
  readonly owner: "ours" | "peer";
  run(calls: number): Promise<void> | void;
}

/** What was measured of a base and of a contender, one right after the other. */
export interface PairOf<Round> {
  readonly base: Round;
  readonly own: Round;
}

export type Pair<By extends Clock> = PairOf<Cost<By>>;

/** What the baseline follows of one row, by one clock. */
export interface FollowedRatios {
  readonly name: string;
  readonly by: Clock;
  /** One for each pair: cost of the base / own cost. Above 1 is cheaper than the base. */
  readonly ratios: readonly number[];
}

/** What a bench prints, and which of its ratios the baseline follows. */
export interface BenchTable {
  readonly title: string;
  readonly rows: readonly object[];
  readonly followed?: readonly FollowedRatios[];
}

/** How a bench is asked to run. */
export interface BenchOptions {
  /** Another number of ids than usual, for `ids` and `scale`. */
  readonly ids: number | undefined;
  /** One store alone, for `ids`. */
  readonly store: string | undefined;
  /** `followed`: only what the baseline follows, without peers. */
  readonly extent: "all" | "followed";
}

export interface Measured {
  readonly name: string;
  /** Microseconds a call by the clock of the ratio, the median over the rounds. */
  readonly microseconds: number;
  /** The same by what this thread has used of a processor: what is left of it on a busy machine. */
  readonly cpuMicroseconds: number;
  /** Median over the pairs of (base's cost / this one's cost): above 1 is faster than the base. */
  readonly ratio: number;
  /** Half of the pairs lie between these two. */
  readonly ratioLow: number;
  readonly ratioHigh: number;
}

/** Clocks of CPU time step by 4 ms on some machines: a shorter round would be known to a few of a hundred only. */
export const ROUND_MS = 300;

interface HowCompared {
  readonly by: readonly [OwnClock, ...OwnClock[]];
  readonly rounds: number;
  readonly extent: BenchOptions["extent"];
}

interface Compared {
  readonly rows: Measured[];
  readonly followed: FollowedRatios[];
}

/**
 * Compares contenders with a base in pairs: in each round the base runs right before or right after each contender, so that
 * a machine that is busy for a while slows both of a pair. `by` names the clocks that are followed; the first makes the rows.
 */
export async function compare(base: Contender, others: readonly Contender[], how: HowCompared): Promise<Compared> {
  const [compared] = await compareInTurns([{ base, others }], how);
  return compared as Compared;
}

/** The same of several groups, which take turns in each round: what is found of one can be set against what is found of another. */
export async function compareInTurns(
  groups: readonly Ways<Contender>[],
  { by, rounds, extent }: HowCompared,
): Promise<Compared[]> {
  const [clock] = by;
  const asked = groups.map(({ base, others: all }) => {
    const others = all.filter(({ owner }) => extent === "all" || owner === "ours");
    return { base, others, pairs: others.map((): Pair<OwnClock>[] => []) };
  });
  const calls = new Map<Contender, number>();
  for (const { base, others } of asked) {
    for (const way of [base, ...others]) calls.set(way, await callsPerRound(way, clock));
  }
  for (let round = 0; round < rounds; round++) {
    for (const group of asked) {
      const pairs = await pairedRound(group, round, (way) => costOf(way, calls.get(way) as number));
      for (const [i, pair] of pairs.entries()) group.pairs[i]?.push(pair);
    }
  }
  return asked.map(({ base, others, pairs }) => {
    const rows = others.map(({ name }, i) => rowOf(name, pairs[i] as Pair<OwnClock>[], clock));
    const ofBase = pairs.flat().map(({ base: cost }) => ({ base: cost, own: cost }));
    return {
      rows: [rowOf(base.name, ofBase, clock), ...rows],
      followed: others.flatMap(({ name, owner }, i) =>
        owner === "ours" ? followedBy(name, pairs[i] as Pair<OwnClock>[], by) : [],
      ),
    };
  });
}

/** Ways of doing the same work, and the one that they are compared with. */
interface Ways<Way> {
  readonly base: Way;
  readonly others: readonly Way[];
}

/** A pair of each contender in each round. */
export async function pairedRounds<Way, Round>(
  ways: Ways<Way>,
  rounds: number,
  measure: (way: Way) => Promise<Round>,
): Promise<PairOf<Round>[][]> {
  const pairs = ways.others.map((): PairOf<Round>[] => []);
  for (let round = 0; round < rounds; round++) {
    for (const [i, pair] of (await pairedRound(ways, round, measure)).entries()) pairs[i]?.push(pair);
  }
  return pairs;
}

/** Every other round begins with the contender: what comes second is not always the same one. */
async function pairedRound<Way, Round>(
  { base, others }: Ways<Way>,
  round: number,
  measure: (way: Way) => Promise<Round>,
): Promise<PairOf<Round>[]> {
  const pairs: PairOf<Round>[] = [];
  for (const way of others) {
    if (round % 2 === 0) {
      const cost = await measure(base);
      pairs.push({ base: cost, own: await measure(way) });
    } else {
      const cost = await measure(way);
      pairs.push({ base: await measure(base), own: cost });
    }
  }
  return pairs;
}

/** What the baseline follows of these pairs. */
export function followedBy<By extends Clock>(
  name: string,
  pairs: readonly Pair<By>[],
  by: readonly By[],
): FollowedRatios[] {
  return by.map((clock) => ({ name, by: clock, ratios: ratiosOf(pairs, clock) }));
}

export function ratiosOf<By extends Clock>(pairs: readonly Pair<By>[], by: By): number[] {
  return pairs.map(({ base, own }) => base[by] / own[by]);
}

function rowOf(name: string, pairs: readonly Pair<OwnClock>[], by: OwnClock): Measured {
  const ratios = ratiosOf(pairs, by);
  return {
    name,
    microseconds: median(pairs.map(({ own }) => own[by])),
    cpuMicroseconds: median(pairs.map(({ own }) => own["thread CPU"])),
    ratio: median(ratios),
    ratioLow: quantile(ratios, 0.25),
    ratioHigh: quantile(ratios, 0.75),
  };
}

async function callsPerRound(contender: Contender, clock: OwnClock): Promise<number> {
  // Twice: the first time warms up. From one call on, since a single one may be longer than a round.
  for (let calls = 1; ; calls *= 4) {
    await contender.run(calls);
    const ms = ((await costOf(contender, calls))[clock] * calls) / 1000;
    if (ms > ROUND_MS / 4) return Math.max(1, Math.round((calls * ROUND_MS) / ms));
  }
}

async function costOf({ run }: Contender, calls: number): Promise<Cost<OwnClock>> {
  const processCpu = process.cpuUsage();
  const threadStartMs = threadCpuMs();
  const startMs = performance.now();
  await run(calls);
  const { user, system } = process.cpuUsage(processCpu);
  return {
    time: ((performance.now() - startMs) * 1000) / calls,
    "thread CPU": ((threadCpuMs() - threadStartMs) * 1000) / calls,
    "process CPU": (user + system) / calls,
  };
}

function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/** The value below which this part of the values lies; between two of them, in proportion. */
export function quantile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const place = (sorted.length - 1) * part;
  const [below, above] = [sorted[Math.floor(place)], sorted[Math.ceil(place)]] as [number, number];
  return below + (above - below) * (place - Math.floor(place));
}
