import { join, relative } from "node:path";
import { finished } from "node:stream/promises";
import { run } from "node:test";
import { spec } from "node:test/reporters";

interface TestRun {
  readonly root: string;
  /** Begun in this order. */
  readonly files: readonly string[];
  readonly timeoutMs: number;
  readonly concurrency: number;
}

/** How many files are named at the end, so that one sees what makes a run long. */
const LONGEST_SHOWN = 10;

/** Runs test files, each in a process of its own, and prints what came of them; the exit code. */
export async function runTestFiles({ root, files, timeoutMs, concurrency }: TestRun): Promise<number> {
  if (files.length > concurrency) {
    process.stderr.write(`${files.length} files, the longest first; each is printed when those before it are done.\n`);
  }
  const took: { readonly file: string; readonly ms: number }[] = [];
  let failed = false;
  // `node --test` would sort the files; `run` keeps their order.
  const results = run({ files: files.map((file) => join(root, file)), timeout: timeoutMs, concurrency, cwd: root });
  results.on("test:complete", ({ name, file = "", details }) => {
    const path = relative(root, file);
    if (name === file) took.push({ file: path, ms: details.duration_ms });
    if (details.passed) return;
    failed = true;
    // At once: the whole of it is printed in its turn, which may be minutes from now.
    process.stderr.write(`✖ ${path}${name === file ? "" : `: ${name}`}\n`);
  });
  const printed = results.compose(new spec());
  printed.pipe(process.stdout, { end: false });
  await finished(printed, { writable: false });
  if (files.length > LONGEST_SHOWN) process.stdout.write(longest(took));
  return failed ? 1 : 0;
}

function longest(took: readonly { readonly file: string; readonly ms: number }[]): string {
  const lines = [...took]
    .sort((one, other) => other.ms - one.ms)
    .slice(0, LONGEST_SHOWN)
    .map(({ file, ms }) => `${(ms / 1000).toFixed(1).padStart(8)} s  ${file}`);
  return `\nThe longest files:\n${lines.join("\n")}\n`;
}
