import { isRunning, startMarkOf } from "./background.ts";
import { runAggregators } from "./runner.ts";

// Runs beside a local engine, as a process of its own: `runner-process ENDPOINT [PID of the engine]`.

const [endpoint = "", pid] = process.argv.slice(2);
const engine = pid === undefined ? undefined : { pid: Number(pid), startMark: startMarkOf(Number(pid)) };
const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stop.abort());
await runAggregators({
  endpoint,
  isEngineThere: () => engine === undefined || isRunning(engine),
  lookMs: 5_000,
  write: (line) => process.stdout.write(`${line}\n`),
  signal: stop.signal,
});
process.exit(0);
