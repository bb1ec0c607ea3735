import { execFile } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, loadavg } from "node:os";
import { relative } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { UsageError } from "../scripts/script.ts";
import { type BaselineRow, changesSince, type RunRatios, reportOf, rowsOf } from "./baseline.ts";

/** The committed baseline. */
export const BASELINE = fileURLToPath(new URL("baseline.json", import.meta.url));

const RUN = fileURLToPath(new URL("run.ts", import.meta.url));

/** Where and when a bench was measured. Ratios of another machine or another Node may differ for that reason alone. */
interface Machine {
  readonly node: string;
  readonly cpu: string;
  readonly cores: number;
}

interface Part extends Machine {
  readonly measuredOn: string;
  /** Of the machine, over the minute before. */
  readonly load: number;
  readonly runs: number;
  readonly rows: readonly Omit<BaselineRow, "bench">[];
}

/** One part a bench, so that a bench can be measured anew by itself. */
export type Baseline = Readonly<Record<string, Part>>;

export interface BaselineJob {
  readonly file: string;
  readonly benches: readonly string[];
  readonly runs: number;
}

/** Measures, and writes what was measured; parts of other benches stay, and of those that could not be measured here. */
export async function saveBaseline({ file, benches, runs }: BaselineJob): Promise<number> {
  const about = { measuredOn: new Date().toISOString().slice(0, 10), ...thisMachine(), load: loadNow(), runs };
  const ratios = await measured(benches, runs);
  const rows = rowsOf(ratios);
  const known: Baseline = existsSync(file) ? readBaseline(file) : {};
  const done = measuredOf(benches, ratios);
  if (done.length === 0) return 1;
  const parts = done.map((name) => {
    const own = rows.filter(({ bench }) => bench === name).map(({ bench: _, ...row }) => row);
    return [name, { ...about, rows: own }] as const;
  });
  writeFileSync(file, textOf({ ...known, ...Object.fromEntries(parts) }));
  process.stdout.write(`${named(file)} has ${rows.length} ratios of ${done.join(", ")}.\n`);
  return done.length === benches.length ? 0 : 1;
}

/** Measures, and says what changed. The exit code is 1 if a ratio fell. */
export async function compareWithBaseline({ file, benches, runs }: BaselineJob): Promise<number> {
  if (!existsSync(file)) {
    throw new UsageError(
      `There is no baseline ${named(file)}; measure one on a quiet machine with npm run bench -- --save.`,
    );
  }
  const baseline = readBaseline(file);
  for (const bench of benches) warnOfPart(bench, baseline[bench], file);
  const ratios = await measured(benches, runs);
  const before = measuredOf(benches, ratios).flatMap((bench) =>
    (baseline[bench]?.rows ?? []).map((row) => ({ bench, ...row })),
  );
  // A bench that fell is measured once more: what a busy minute did to it becomes noise.
  const fallen = benches.filter((name) =>
    changesSince(before, rowsOf(ratios)).some((change) => change.kind === "fell" && change.now.bench === name),
  );
  if (fallen.length > 0) ratios.push(...(await measured(fallen, runs)));
  const changes = changesSince(before, rowsOf(ratios));
  process.stdout.write(reportOf(changes));
  return changes.some(({ kind }) => kind === "fell") ? 1 : 0;
}

/** All benches, then all of them again, each in a process of its own. */
async function measured(benches: readonly string[], runs: number): Promise<RunRatios[]> {
  const load = loadNow();
  if (load > cpus().length / 2) {
    process.stderr.write(`The load of this machine is ${load}: ratios are noisy, and a small fall is not seen.\n`);
  }
  const ratios: RunRatios[] = [];
  for (let run = 1; run <= runs; run++) {
    for (const name of benches) {
      process.stderr.write(`${name}, run ${run} of ${runs} ...\n`);
      const args = [RUN, name, "--ratios"];
      const { stdout, stderr } = await promisify(execFile)(process.execPath, args, { maxBuffer: 2 ** 24 });
      process.stderr.write(stderr);
      for (const line of stdout.split("\n").filter(Boolean)) ratios.push(JSON.parse(line) as RunRatios);
    }
  }
  return ratios;
}

/** Those that could be measured: one that needs a server that is not here says so and has no ratios, which are not gone for that. */
function measuredOf(benches: readonly string[], ratios: readonly RunRatios[]): string[] {
  const missing = benches.filter((name) => !ratios.some(({ bench }) => bench === name));
  for (const name of missing) process.stderr.write(`${name} could not be measured here and is left out.\n`);
  return benches.filter((name) => !missing.includes(name));
}

function readBaseline(file: string): Baseline {
  return JSON.parse(readFileSync(file, "utf8")) as Baseline;
}

/** A line for each ratio, so that a change of the file can be read. */
export function textOf(baseline: Baseline): string {
  const parts = Object.entries(baseline).map(([name, { rows, ...about }]) => {
    const lines = rows.map((row) => `      ${JSON.stringify(row)}`).join(",\n");
    const fields = Object.entries(about).map(
      ([key, value]) => `    ${JSON.stringify(key)}: ${JSON.stringify(value)},\n`,
    );
    return `  ${JSON.stringify(name)}: {\n${fields.join("")}    "rows": [\n${lines}\n    ]\n  }`;
  });
  return `{\n${parts.join(",\n")}\n}\n`;
}

function named(file: string): string {
  return relative(process.cwd(), file);
}

function warnOfPart(bench: string, part: Part | undefined, file: string): void {
  if (part === undefined) {
    process.stderr.write(
      `${named(file)} has no ratios of ${bench} yet: all of them are new. Measure them on a quiet machine with ` +
        `npm run bench -- ${bench} --save.\n`,
    );
    return;
  }
  const here = thisMachine();
  const differs = (["node", "cpu", "cores"] as const).filter((key) => part[key] !== here[key]);
  for (const key of differs) {
    process.stderr.write(
      `The baseline of ${bench} has ${key} ${part[key]}, here it is ${here[key]}: ratios may differ.\n`,
    );
  }
}

function thisMachine(): Machine {
  return { node: process.version, cpu: cpus()[0]?.model ?? "unknown", cores: cpus().length };
}

function loadNow(): number {
  return Math.round((loadavg()[0] ?? 0) * 10) / 10;
}
