import type { LoadtestReport } from "../loadtest/report.ts";

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** A load test's report for people. */
export function loadtestText(report: LoadtestReport): string {
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
