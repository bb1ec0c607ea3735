import { processHost } from "./output.ts";
import { run } from "./run.ts";

/** Runs the command line of this process; answers with its exit code. */
export function runProcess(): Promise<number> {
  return run(process.argv.slice(2), processHost());
}
