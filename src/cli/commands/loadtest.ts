import { existsSync } from "node:fs";
import { dirname } from "node:path";
import type { Progress as MadeSoFar } from "../../loadtest/loadtest.ts";
import type { ScenarioName } from "../../loadtest/scenarios.ts";
import type { LoadTarget } from "../../loadtest/target.ts";
import { confirmed } from "../ask.ts";
import { type CommandContext, type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { CommandEnd, EXIT, UsageError } from "../exit-code.ts";
import { unwritable, writeWhole } from "../files.ts";
import { loadtestText } from "../loadtest-text.ts";
import { printValue } from "../print.ts";
import { progressFromStart } from "../progress.ts";
import { chosenStore, isMemory } from "../store-option.ts";
import { choiceOf, countOf, durationMs } from "../values.ts";

interface LoadtestOptions extends GlobalOptions {
  readonly scenario: string;
  readonly duration: string;
  readonly processes: string;
  readonly concurrency: string;
  readonly seed?: string;
  readonly html?: string;
  readonly keep?: boolean;
}

const SCENARIO_NAMES: readonly ScenarioName[] = ["steady", "bursts", "hot-key", "cascade", "llm"];
const PROCESSES_MAX = 64;

/** Puts a store under load from several processes, and checks what it granted. */
export const loadtestCommand: CommandFile<LoadtestOptions> = {
  configure: (command) => {
    command
      .option("--scenario <name>", SCENARIO_NAMES.join(", "), "steady")
      .option("--duration <duration>", "how long to run", "10s")
      .option("--processes <n>", "parallel processes; with memory, each has its own store", "2")
      .option("--concurrency <n>", "parallel callers in each process", "16")
      .option("--seed <n>", "makes the requests repeatable; default: random")
      .option("--html <file>", "write a report with charts; it opens offline")
      .option("--keep", "keep the namespace for inspection")
      .addHelpText(
        "after",
        `${examples(
          "zae-limiter loadtest --store memory --duration 1s",
          "zae-limiter loadtest --store memory --scenario llm --duration 1s --seed 7 --html loadtest.html",
        )}\nExit codes: 1 more was granted than the limits allow, or requests failed.\n`,
      );
  },
  run: async (context, options) => {
    const { interrupted } = context;
    const scenario = choiceOf(options.scenario, SCENARIO_NAMES, "--scenario");
    const asked = { durationMs: durationMs(options.duration, "--duration"), ...limitsOf(options) };
    if (asked.durationMs < 1) throw new UsageError(`--duration is "${options.duration}"; give at least 1ms.`);
    const timeoutMs = durationMs(options.timeout ?? "10s", "--timeout");
    if (options.html !== undefined) refuseMissingFolder(options.html);
    const { target, store } = targetOf(options, context);
    if (target.kind === "dynamodb") {
      await confirmed(context, options, `A load test of ${options.duration} on ${store} costs what its requests cost.`);
    }
    const { loadtest } = await import("../../loadtest/loadtest.ts");
    const progress = progressFromStart(context, options);
    const { report, detail } = await loadtest({
      ...{ target, durationMs: asked.durationMs, timeoutMs, keeps: options.keep === true, signal: interrupted },
      terms: { scenario, store, seed: asked.seed, processes: asked.processes, concurrency: asked.concurrency },
      onProgress: (made) => progress.tell(progressText(made, asked.durationMs)),
    }).finally(progress.end);
    if (options.html !== undefined) {
      const { htmlReport } = await import("../../loadtest/html-report.ts");
      await writeWhole(options.html, htmlReport(report, detail));
    }
    await printValue(context, options, report, () => loadtestText(report));
    return report.admission.excessTokens > 0 || report.errors > 0 ? EXIT.refused : EXIT.done;
  },
};

function limitsOf({ processes: processesText, concurrency, seed }: LoadtestOptions) {
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

function targetOf(
  options: GlobalOptions,
  context: CommandContext,
): { readonly target: LoadTarget; readonly store: string } {
  if (isMemory(options, context)) return { target: { kind: "memory" }, store: "memory" };
  const { name: store, place, file, table } = chosenStore(options, context);
  if (table !== undefined) return { target: { kind: "dynamodb", table }, store };
  if (file === undefined || existsSync(file)) return { target: { kind: "named", store: place.store }, store };
  throw new CommandEnd({
    code: "store_not_found",
    message: `There is no store at ${store}. Create it with \`zae-limiter init\`, or name another with --store.`,
    exitCode: EXIT.missing,
  });
}

/** Told before the test rather than after it. */
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
