import { relative } from "node:path";
import { finished } from "node:stream/promises";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { grouped } from "./test-groups.ts";
import { becameSlow, isSlow, type Took } from "./test-order.ts";

interface TestRun {
  readonly root: string;
  /** Begun in this order. */
  readonly files: readonly string[];
  readonly timeoutMs: number;
  readonly concurrency: number;
  /** Whether the times that are noted hold for it: those of `npm test`. */
  readonly isNoted?: boolean;
  /** Stops it: test files that run are ended, and nothing is said of them. */
  readonly signal?: AbortSignal;
}

interface Counts {
  readonly tests: number;
  readonly passed: number;
  readonly skipped: number;
  readonly todo: number;
}

/** Many tests take from limits that they do not name, and do not mean to. The warning is an event still; it is not printed. */
const QUIET = "--disable-warning=ZAEL_LIMIT_UNNAMED";

const UNTRACKED = `--import=${new URL("./untracked-promises.ts", import.meta.url).href}`;

/** How many files are named at the end, so that one sees what makes a run long. */
const LONGEST_SHOWN = 20;

/** Runs test files, those that share nothing several to a process, and prints what came of them; the exit code. */
export async function runTestFiles(wanted: TestRun): Promise<number> {
  const { root, files, timeoutMs, concurrency, isNoted, signal } = wanted;
  const beganMs = performance.now();
  const groups = grouped(root, files, isSlow);
  if (files.length > concurrency) {
    const said = `${files.length} files in ${groups.length} processes`;
    process.stderr.write(`${said}, the longest first; each is printed when those before it are done.\n`);
  }
  const filesOf = new Map(groups.map((group) => [group.entry, group.files]));
  const took = new Map<string, number>();
  const skips = new Map<string, number>();
  let counts: Counts = { tests: 0, passed: 0, skipped: 0, todo: 0 };
  // `node --test` would sort the files; `run` keeps their order.
  const entries = groups.map(({ entry }) => entry);
  const execArgv = [QUIET, UNTRACKED];
  const results = run({ files: entries, timeout: timeoutMs, concurrency, cwd: root, execArgv, signal });
  results.on("test:complete", ({ name, file = "", nesting, details }) => {
    const path = relative(root, file);
    const alone = filesOf.get(file);
    if (name === file && alone !== undefined) {
      if (alone.length === 1) took.set(path, details.duration_ms);
    } else if (nesting === 0 && alone === undefined && path.endsWith(".test.ts")) {
      // Of a file in a group; where a kit declares its tests, they are not known to be its own.
      took.set(path, (took.get(path) ?? 0) + details.duration_ms);
    }
    if (details.passed || signal?.aborted) return;
    const what = name === file ? (alone?.length === 1 ? path : `${path}: ${alone?.join(", ")}`) : `${path}: ${name}`;
    // At once: the whole of it is printed in its turn, which may be minutes from now.
    process.stderr.write(`✖ ${what}\n`);
  });
  results.on("test:pass", ({ skip }) => {
    if (skip === undefined || skip === false) return;
    const reason = typeof skip === "string" ? skip : "without a reason";
    skips.set(reason, (skips.get(reason) ?? 0) + 1);
  });
  results.on("test:summary", ({ file, counts: all }) => {
    if (file === undefined) counts = all;
  });
  const printed = results.compose(new spec());
  printed.pipe(process.stdout, { end: false });
  await finished(printed, { writable: false, signal }).catch((error: unknown) => {
    if (!signal?.aborted) throw error;
  });
  if (signal?.aborted) return 1;
  const all: Took[] = Array.from(took, ([file, ms]) => ({ file, ms }));
  if (files.length > LONGEST_SHOWN) process.stdout.write(longest(all));
  if (isNoted) process.stdout.write(slower(all));
  const minutes = ((performance.now() - beganMs) / 60_000).toFixed(1);
  process.stdout.write(`\n${lastLine(counts, skips)} ${minutes} minutes.\n`);
  return failedOf(counts) > 0 ? 1 : 0;
}

/** What came of a run in one line; each reason to skip with how often it was given. */
export function lastLine(counts: Counts, skips: ReadonlyMap<string, number>): string {
  const reasons = [...skips].sort(([, one], [, other]) => other - one).map(([reason, times]) => `${times} ${reason}`);
  const skipped = `${counts.skipped} skipped${reasons.length === 0 ? "" : `: ${reasons.join("; ")}`}`;
  return `${counts.passed} passed, ${failedOf(counts)} failed, ${skipped}.`;
}

/** Those that were cancelled, too. */
function failedOf({ tests, passed, skipped, todo }: Counts): number {
  return tests - passed - skipped - todo;
}

function longest(took: readonly Took[]): string {
  const lines = [...took]
    .sort((one, other) => other.ms - one.ms)
    .slice(0, LONGEST_SHOWN)
    .map(({ file, ms }) => `${(ms / 1000).toFixed(1).padStart(8)} s  ${file}`);
  return `\nThe longest files:\n${lines.join("\n")}\n`;
}

function slower(took: readonly Took[]): string {
  const lines = becameSlow(took).map(({ file, ms, noted }) => {
    const before = noted === undefined ? "not noted" : `${noted} s are noted`;
    return `${(ms / 1000).toFixed(1).padStart(8)} s  ${file} (${before})`;
  });
  if (lines.length === 0) return "";
  return `\nBy half longer than in scripts/test-order.ts, measured by the others of this run:\n${lines.join("\n")}\n`;
}
