import { setTimeout as sleep } from "node:timers/promises";
import { type Follower, follow } from "../entry/aggregator.ts";
import { tablesAt } from "./engine-record.ts";

interface RunnerOptions {
  readonly endpoint: string;
  /** True while the engine is there. */
  readonly isEngineThere: () => boolean;
  /** Between two looks at which tables there are. */
  readonly lookMs: number;
  readonly write: (line: string) => void;
  readonly signal: AbortSignal;
}

/** Credentials and region for DynamoDB Local, which looks at neither. */
export const LOCAL_ACCESS = {
  region: "us-east-1",
  credentials: { accessKeyId: "local", secretAccessKey: "local" },
} as const;

/** An engine that has not answered so often in a row is gone. */
const SILENCES_MAX = 5;

/** Sweeps every limiter's table at an endpoint, also those that are made later, until it is stopped or the engine is gone. */
export async function runAggregators(options: RunnerOptions): Promise<void> {
  const { endpoint, lookMs, signal } = options;
  const runners = new Map<string, Follower>();
  const told = new Set<string>();
  const tellOnce = (line: string) => {
    if (!told.has(line)) options.write(line);
    told.add(line);
  };
  let silences = 0;
  while (!signal.aborted && silences < SILENCES_MAX && options.isEngineThere()) {
    try {
      const tables = new Set(await tablesAt(endpoint));
      silences = 0;
      for (const table of tables)
        if (!runners.has(table)) begin(table, runners, { endpoint, write: options.write, tellOnce });
      for (const [table, runner] of runners) if (!tables.has(table)) void runner.stop();
    } catch {
      silences += 1;
    }
    await sleep(lookMs, undefined, { signal }).catch(() => {});
  }
  await Promise.all([...runners.values()].map((runner) => runner.stop()));
}

interface Begin {
  readonly endpoint: string;
  /** Takes a line of the log. */
  readonly write: (line: string) => void;
  /** Takes a sentence that is worth saying once. */
  readonly tellOnce: (line: string) => void;
}

function begin(table: string, runners: Map<string, Follower>, { endpoint, write, tellOnce }: Begin): void {
  const runner = follow({
    ...{ stack: table, endpoint, ...LOCAL_ACCESS, runner: `local-${process.pid}` },
    write: (line) => write(`${table} ${line}`),
  });
  runners.set(table, runner);
  // One that is not a limiter's table, or not yet, is looked at again with the next look.
  const ended = () => runners.delete(table);
  runner.done.then(ended, (error: unknown) => {
    ended();
    tellOnce(`${table} ${error instanceof Error ? error.message : String(error)}`);
  });
}
