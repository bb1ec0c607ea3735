import { existsSync } from "node:fs";
import { dirname } from "node:path";
import type { Progress as MadeSoFar } from "../../loadtest/loadtest.ts";
import type { LoadtestReport } from "../../loadtest/report.ts";
import type { ScenarioName } from "../../loadtest/scenarios.ts";
import type { LoadTarget } from "../../loadtest/target.ts";
import { type CommandContext, command } from "../command.ts";
import { CommandEnd, EXIT, UsageError } from "../exit-code.ts";
import { unwritable, writeWhole } from "../output.ts";
import { confirmed, printValue, progressLine } from "../print.ts";
import { chosenStore, isMemory } from "../store-option.ts";
import { choiceOf, countOf, durationMs } from "../values.ts";

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

function loadtestText(report: LoadtestReport): string {
  const { scenario, store, seed, processes, concurrency, durationMs, latencyMs, admission, units } = report;
  const rows: readonly (readonly [string, string])[] = [
    ["store", store],
    ["callers", `${processes} processes with ${concurrency} each, for ${(durationMs / 1_000).toFixed(1)} s`],
    [
      "requests",
      `${WHOLE.format(report.requests)}: ${whole(report.granted)} granted, ${whole(report.refused)} refused`,
    ],
    ["granted", `${report.grantedPerSecond} a second`],
    [
      "latency",
      `p50 ${ms(latencyMs.p50)}  p90 ${ms(latencyMs.p90)}  p99 ${ms(latencyMs.p99)}  max ${ms(latencyMs.max)}`,
    ],
    ["tokens", `${whole(admission.grantedTokens)} granted, at most ${whole(admission.boundTokens)} allowed`],
    ...(units === undefined ? [] : ([["units", unitsText(units)]] as const)),
    ...(report.errors === 0 ? [] : ([["errors", errorsText(report)]] as const)),
    ...(report.namespace === undefined ? [] : ([["namespace", `${report.namespace} was kept`]] as const)),
  ];
  const head = `${scenario}, seed ${seed}${report.interrupted === true ? ", interrupted" : ""}`;
  const verdict =
    admission.excessTokens > 0
      ? `OVER-ADMITTED: ${whole(admission.excessTokens)} tokens more than capacity and refill allow.`
      : "Nothing was over-admitted: every limit stayed within capacity and refill.";
  return `${head}\n${rows.map(([name, text]) => `  ${name.padEnd(10)} ${text}`).join("\n")}\n${verdict}\n`;
}

function unitsText({ calls, reads, writes }: NonNullable<LoadtestReport["units"]>): string {
  return `${whole(writes)} write and ${whole(reads)} read units in ${whole(calls)} calls`;
}

function errorsText({ errors, errorCodes = {} }: LoadtestReport): string {
  const codes = Object.entries(errorCodes).map(([code, count]) => `${code} ${whole(count)}`);
  return `${whole(errors)} (${codes.join(", ")})`;
}

function whole(value: number): string {
  return WHOLE.format(value);
}

function ms(value: number): string {
  return `${value < 10 ? value.toFixed(2) : value.toFixed(0)} ms`;
}

const SCENARIO_NAMES: readonly ScenarioName[] = ["steady", "bursts", "hot-key", "cascade", "llm"];
const PROCESSES_MAX = 64;

/** Puts a store under load from several processes, and checks what it granted. */
export const loadtest = command({
  options: [
    ["--scenario <name>", SCENARIO_NAMES.join(", "), { default: "steady" }],
    ["--duration <duration>", "how long to run", { default: "10s" }],
    ["--processes <n>", "parallel processes; with memory, each has its own store", { default: "2" }],
    ["--concurrency <n>", "parallel callers in each process", { default: "16" }],
    ["--seed <n>", "makes the requests repeatable; default: random"],
    ["--html <file>", "write a report with charts; it opens offline"],
    ["--keep", "keep the namespace for inspection"],
  ],
  examples: [
    "loadtest --store memory --duration 1s",
    "loadtest --store memory --scenario llm --duration 1s --seed 7 --html loadtest.html",
  ],
  notes: ["Exit codes: 1 more was granted than the limits allow, or requests failed."],
  run: async (context, options) => {
    const { interrupted } = context;
    const scenario = choiceOf(options.scenario, SCENARIO_NAMES, "--scenario");
    const lengthMs = durationMs(options.duration, "--duration");
    const load = loadOf(options);
    if (lengthMs < 1) throw new UsageError(`--duration is "${options.duration}"; give at least 1ms.`);
    const timeoutMs = durationMs(context.options.timeout ?? "10s", "--timeout");
    if (options.html !== undefined) refuseMissingFolder(options.html);
    const { target, store } = targetOf(context);
    if (target.kind === "dynamodb") {
      await confirmed(context, `A load test of ${options.duration} on ${store} costs what its requests cost.`);
    }
    const { runLoadtest } = await import("../../loadtest/loadtest.ts");
    const progress = progressLine(context, 0);
    const { report, detail } = await runLoadtest({
      target,
      durationMs: lengthMs,
      timeoutMs,
      keeps: options.keep === true,
      signal: interrupted,
      terms: { scenario, store, ...load },
      onProgress: (made) => progress.tell(progressText(made, lengthMs)),
    }).finally(progress.end);
    if (options.html !== undefined) {
      const { htmlReport } = await import("../../loadtest/html-report.ts");
      await writeWhole(options.html, htmlReport(report, detail));
    }
    await printValue(context, report, () => loadtestText(report));
    return report.admission.excessTokens > 0 || report.errors > 0 ? EXIT.refused : EXIT.done;
  },
});

function loadOf({
  processes: processesText,
  concurrency,
  seed,
}: {
  readonly processes: string;
  readonly concurrency: string;
  readonly seed?: string;
}) {
  const processes = countOf(processesText, "--processes");
  if (processes > PROCESSES_MAX) throw new UsageError(`--processes is ${processes}; give at most ${PROCESSES_MAX}.`);
  if (seed !== undefined && !(/^\d+$/.test(seed) && Number(seed) <= 0xffffffff)) {
    throw new UsageError(`--seed is "${seed}"; give a whole number from 0 to 4294967295.`);
  }
  return {
    processes,
    concurrency: countOf(concurrency, "--concurrency"),
    seed: seed === undefined ? Math.floor(Math.random() * 2 ** 32) : Number(seed),
  };
}

function targetOf(context: CommandContext): { readonly target: LoadTarget; readonly store: string } {
  if (isMemory(context)) return { target: { kind: "memory" }, store: "memory" };
  const { name: store, place, file, table } = chosenStore(context);
  if (table !== undefined) return { target: { kind: "dynamodb", table }, store };
  if (file === undefined || existsSync(file)) return { target: { kind: "named", store: place.store }, store };
  throw new CommandEnd({
    code: "store_not_found",
    message: `There is no store at ${store}. Create it with \`zae-limiter init\`, or name another with --store.`,
    exitCode: EXIT.missing,
  });
}

/** Refuses the file before the test rather than after it. */
function refuseMissingFolder(file: string): void {
  if (existsSync(dirname(file))) return;
  throw unwritable(file, { code: "ENOENT" });
}

function progressText(made: MadeSoFar, wholeMs: number): string {
  if (made.kind === "purging") return `removing the namespace: ${made.records} records`;
  const { elapsedMs, counts } = made;
  const filled = Math.min(20, Math.floor((20 * elapsedMs) / wholeMs));
  const seconds = `${(elapsedMs / 1_000).toFixed(1)} of ${wholeMs / 1_000} s`;
  const errors = counts.errors === 0 ? "" : `, ${counts.errors} errors`;
  return `[${"#".repeat(filled).padEnd(20, ".")}] ${seconds}  ${counts.granted} granted, ${counts.refused} refused${errors}`;
}
