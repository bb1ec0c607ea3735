import { type Counts, type Slice, sum, type WorkerResult } from "./fleet.ts";
import { Histogram, type HistogramCounts } from "./histogram.ts";
import { type AdmissionCheck, checkAdmission, type GrantedTokens, type ScenarioName, scenarioOf } from "./scenarios.ts";
import type { Units } from "./target.ts";

/** The terms of a load test. */
export interface LoadtestTerms {
  readonly scenario: ScenarioName;
  /** The store, as it is named on the command line. */
  readonly store: string;
  readonly seed: number;
  readonly processes: number;
  readonly concurrency: number;
}

/** The answer of a load test. Times in ms. */
export interface LoadtestReport extends LoadtestTerms, Counts {
  readonly durationMs: number;
  readonly requests: number;
  readonly errorCodes?: Readonly<Record<string, number>>;
  readonly grantedPerSecond: number;
  readonly latencyMs: { readonly p50: number; readonly p90: number; readonly p99: number; readonly max: number };
  readonly admission: { readonly grantedTokens: number; readonly boundTokens: number; readonly excessTokens: number };
  readonly units?: Units;
  /** It was ended before its time. */
  readonly interrupted?: true;
  /** The namespace that was kept. */
  readonly namespace?: string;
}

/** The details that only the charts show. */
export interface LoadtestDetail {
  readonly checks: readonly AdmissionCheck[];
  readonly slices: readonly Slice[];
  readonly sliceMs: number;
  readonly latency: HistogramCounts;
}

interface Ran {
  readonly terms: LoadtestTerms;
  readonly results: readonly WorkerResult[];
  readonly sliceMs: number;
  /** The time that the whole test took. */
  readonly durationMs: number;
  /** Stores that counted on their own. */
  readonly stores: number;
}

export function reportOf({ terms, results, sliceMs, durationMs, stores }: Ran): LoadtestReport & {
  readonly detail: LoadtestDetail;
} {
  const counts = sum(results);
  const latency = merged(results.map((result) => result.latency));
  const checks = checkAdmission({
    scenario: scenarioOf(terms.scenario),
    granted: addedTokens(results.map((result) => result.grantedTokens)),
    corrected: addedTokens(results.map((result) => result.correctedTokens)),
    elapsedMs: Math.max(...results.map(({ lastMs }) => lastMs)) - Math.min(...results.map(({ firstMs }) => firstMs)),
    callers: terms.processes * terms.concurrency,
    stores,
  });
  const errorCodes = added(results.map((result) => result.errorCodes));
  const units = addedUnits(results);
  return {
    ...terms,
    durationMs,
    requests: counts.granted + counts.refused + counts.errors,
    ...counts,
    ...(counts.errors === 0 ? {} : { errorCodes }),
    grantedPerSecond: Math.round((10_000 * counts.granted) / Math.max(1, durationMs)) / 10,
    latencyMs: {
      p50: latency.percentileMicros(0.5) / 1_000,
      p90: latency.percentileMicros(0.9) / 1_000,
      p99: latency.percentileMicros(0.99) / 1_000,
      max: latency.maxMicros / 1_000,
    },
    admission: {
      grantedTokens: total(checks, "grantedTokens"),
      boundTokens: total(checks, "boundTokens"),
      excessTokens: total(checks, "excessTokens"),
    },
    ...(units === undefined ? {} : { units }),
    detail: { checks, slices: addedSlices(results), sliceMs, latency: latency.counts() },
  };
}

function total(checks: readonly AdmissionCheck[], name: "grantedTokens" | "boundTokens" | "excessTokens"): number {
  return checks.reduce((tokens, check) => tokens + check[name], 0);
}

function merged(all: readonly HistogramCounts[]): Histogram {
  const histogram = new Histogram();
  for (const counts of all) histogram.add(counts);
  return histogram;
}

function added(all: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const totals: Record<string, number> = {};
  for (const [name, count] of all.flatMap((each) => Object.entries(each))) totals[name] = (totals[name] ?? 0) + count;
  return totals;
}

function addedTokens(all: readonly GrantedTokens[]): GrantedTokens {
  const ids = new Set(all.flatMap((each) => Object.keys(each)));
  return Object.fromEntries([...ids].map((id) => [id, added(all.map((each) => each[id] ?? {}))]));
}

function addedUnits(results: readonly WorkerResult[]): Units | undefined {
  const told = results.flatMap(({ units }) => (units === undefined ? [] : [units]));
  if (told.length === 0) return undefined;
  const { calls = 0, reads = 0, writes = 0 } = added(told.map((units) => ({ ...units })));
  return { calls, reads, writes };
}

function addedSlices(results: readonly WorkerResult[]): readonly Slice[] {
  const count = Math.max(0, ...results.map(({ slices }) => slices.length));
  return Array.from({ length: count }, (_, i) => {
    const same = results.flatMap(({ slices }) => slices[i] ?? []);
    return { ...sum(same), latency: merged(same.map(({ latency }) => latency)).counts() };
  });
}
