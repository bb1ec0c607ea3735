import type { GrantedTokens } from "./admission.ts";
import type { HistogramCounts } from "./histogram.ts";
import type { Units } from "./metered-client.ts";
import type { ScenarioName } from "./scenarios.ts";
import type { LoadTarget } from "./target.ts";

/** What one process of the test is to do. */
export interface WorkerTask {
  readonly target: LoadTarget;
  readonly namespace: string;
  readonly scenario: ScenarioName;
  readonly timeoutMs: number;
  readonly durationMs: number;
  readonly concurrency: number;
  readonly seed: number;
  /** The number of this process among all. */
  readonly worker: number;
  /** How long a slice of the report's charts is. */
  readonly sliceMs: number;
}

export interface Counts {
  readonly granted: number;
  readonly refused: number;
  readonly errors: number;
}

/** What happened in one slice of time. */
export interface Slice extends Counts {
  readonly latency: HistogramCounts;
}

export interface WorkerResult extends Counts {
  readonly errorCodes: Readonly<Record<string, number>>;
  readonly grantedTokens: GrantedTokens;
  /** What was charged after the fact, where it was more than was taken. */
  readonly correctedTokens: GrantedTokens;
  readonly latency: HistogramCounts;
  readonly slices: readonly Slice[];
  /** Readings of the limiter's clock before its first request and after its last answer. */
  readonly firstMs: number;
  readonly lastMs: number;
  readonly units?: Units;
}

export type ToWorker = { readonly kind: "task"; readonly task: WorkerTask } | { readonly kind: "go" | "stop" };

export type FromWorker =
  | { readonly kind: "ready" }
  | { readonly kind: "progress"; readonly counts: Counts }
  | { readonly kind: "done"; readonly result: WorkerResult }
  | { readonly kind: "failed"; readonly message: string };
