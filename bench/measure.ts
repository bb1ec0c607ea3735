/** One way of doing the same work. `run` does it `calls` times; setting up happened before. */
export interface Contender {
  readonly name: string;
  run(calls: number): Promise<void> | void;
}

export interface Measured {
  readonly name: string;
  /** Microseconds a call, the median over the rounds. */
  readonly microseconds: number;
  /** The same by what this thread has used of a processor: what is left of it on a busy machine. */
  readonly cpuMicroseconds: number;
  /** Median over the rounds of (baseline's time / this one's time) in the same round: above 1 is faster than it. */
  readonly ratio: number;
}

/**
 * Lets contenders take turns, round after round, each for about `roundMs`, and compares within a round: a machine that is
 * busy for a while slows all of them alike.
 */
export async function compare(
  contenders: readonly Contender[],
  {
    baseline,
    rounds,
    roundMs,
    clockMs = () => performance.now(),
  }: { baseline: string; rounds: number; roundMs: number; clockMs?: () => number },
): Promise<Measured[]> {
  const calls: number[] = [];
  for (const contender of contenders) calls.push(await callsPerRound(contender, roundMs, clockMs));
  const times = contenders.map((): number[] => []);
  const cpuTimes = contenders.map((): number[] => []);
  for (let round = 0; round < rounds; round++) {
    for (const [i, contender] of contenders.entries()) {
      const n = calls[i] as number;
      const cpuStartMs = threadCpuMs();
      times[i]?.push((await timed(() => contender.run(n), clockMs)) / n);
      cpuTimes[i]?.push((threadCpuMs() - cpuStartMs) / n);
    }
  }
  const base = times[contenders.findIndex(({ name }) => name === baseline)] as number[];
  return contenders.map(({ name }, i) => ({
    name,
    microseconds: median(times[i] as number[]) * 1000,
    cpuMicroseconds: median(cpuTimes[i] as number[]) * 1000,
    ratio: median((times[i] as number[]).map((ms, round) => (base[round] as number) / ms)),
  }));
}

async function callsPerRound(contender: Contender, roundMs: number, clockMs: () => number): Promise<number> {
  // Twice: the first time warms up.
  let calls = 64;
  for (;;) {
    await contender.run(calls);
    const ms = await timed(() => contender.run(calls), clockMs);
    if (ms > roundMs / 4) return Math.max(1, Math.round((calls * roundMs) / ms));
    calls *= 4;
  }
}

async function timed(work: () => Promise<void> | void, clockMs: () => number): Promise<number> {
  const start = clockMs();
  await work();
  return clockMs() - start;
}

/** What this thread has used of a processor: for work that waits for nothing, whatever else the machine does. */
export function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1
    ? (sorted[middle] as number)
    : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2;
}
