import { BoundedMap } from "../domain/names/bounded-map.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { KnownNames } from "../domain/names/known-names.ts";
import { shown } from "../domain/names/names.ts";
import { type OutputBound, outputWithin } from "./estimate-tokens.ts";
import { type Decimal, decimalOf, sumRoundedUp } from "./meter.ts";

/** Options of `learnedEstimate`. */
export interface LearnedEstimateOptions {
  /**
   * The share of the last calls whose output the estimate covers, above 0 and at most 1. Default: 0.9, so that one call
   * in ten comes out longer.
   */
  readonly quantile?: number;
  /** The share of the smallest capacity that one call's output may be estimated at, above 0 and at most 1. Default: 0.25. */
  readonly shareMax?: number;
}

/** Estimates on a resource and what the calls came to; all but `calls` in output tokens, reasoning included. */
export interface EstimateStats {
  /** The number of calls that were settled by the usage that their provider reported. */
  readonly calls: number;
  /** The sum of what they were estimated at. */
  readonly estimated: number;
  /** The sum of what they came to. */
  readonly actual: number;
  /** The sum of what single calls were estimated too high. */
  readonly over: number;
  /** The sum of what single calls were estimated too low. */
  readonly under: number;
}

/** A call that is about to be estimated. */
export interface EstimatedCall extends Pick<OutputBound, "limits" | "weights"> {
  /** The resource that it is charged on. */
  readonly resource: string;
  /** The most output tokens that the call itself allows; `undefined` where it does not say. */
  readonly outputMax: number | undefined;
  /** The output tokens that it would be estimated at without anything learned. */
  readonly plainOutput: number;
}

/** A call that was settled by the usage that its provider reported. */
export interface SettledCall extends Pick<EstimatedCall, "resource" | "outputMax"> {
  /** The output tokens that it was estimated at. */
  readonly estimated: number;
  /** The output tokens that it came to, reasoning included. */
  readonly actual: number;
}

/** An estimate that learns from the calls of this process. Pass it as `estimate` to an adapter. */
export interface LearnedEstimate {
  /** The estimates so far and the usage that they came to, by resource. */
  stats(): Readonly<Record<string, EstimateStats>>;
  /** The output tokens that a call is estimated at. Adapters call it. */
  outputFor(call: EstimatedCall): number;
  /** Learns what a call came to. Adapters call it. */
  settled(call: SettledCall): void;
}

/** This many calls are remembered for each resource and size of the call's own maximum. */
const CALLS_REMEMBERED = 256;

/** Nothing is learned from fewer calls. */
const CALLS_NEEDED = 20;

/** This many pairs of resource and size are remembered, or up to twice as many. */
const KEYS_MAX = 1_000;

const OPTIONS = new KnownNames<LearnedEstimateOptions>({ quantile: true, shareMax: true });

/**
 * Makes an estimate of output that learns: it covers nine of ten of the last calls of this process, where the call's
 * own maximum would fill a budget that is hardly used. What it misses is charged when the call is settled.
 *
 * ```ts
 * const estimate = learnedEstimate();
 * const client = limitOpenAI(new OpenAI(), { limiter, entityId: "key-1", estimate });
 * estimate.stats(); // { "gpt-5-mini": { calls: 120, estimated: 48_000, actual: 36_500, over: 13_100, under: 1_600 } }
 * ```
 */
export function learnedEstimate(options: LearnedEstimateOptions = {}): LearnedEstimate {
  const { quantile, shareMax } = OPTIONS.check(options, "The options of learnedEstimate");
  const covered = shareOf("quantile", quantile, 0.9);
  const share = shareOf("shareMax", shareMax, 0.25);
  const outputs = new BoundedMap<LastOutputs>(KEYS_MAX);
  const stats = new Map<string, EstimateStats>();
  const shareOutput = ({ limits, weights }: EstimatedCall) => outputWithin({ limits, weights, share, besides: {} });
  return {
    stats: () => Object.fromEntries(stats),
    outputFor(call) {
      const known = outputs.get(keyOf(call));
      const learned = known?.quantile(covered) ?? call.plainOutput;
      const most = Math.min(call.outputMax ?? Number.POSITIVE_INFINITY, shareOutput(call));
      return Math.max(1, Math.min(learned, most));
    },
    settled(call) {
      const key = keyOf(call);
      const known = outputs.get(key) ?? new LastOutputs();
      outputs.set(key, known);
      known.add(call.actual);
      addTo(stats, call);
    },
  };
}

/** The outputs of the last calls, in their order and in order of size. */
class LastOutputs {
  readonly #last: number[] = [];
  readonly #sorted: number[] = [];
  #next = 0;

  add(output: number): void {
    if (this.#last.length === CALLS_REMEMBERED) {
      this.#sorted.splice(indexOfFirst(this.#sorted, this.#last[this.#next] as number), 1);
    }
    this.#last[this.#next] = output;
    this.#next = (this.#next + 1) % CALLS_REMEMBERED;
    this.#sorted.splice(indexOfFirst(this.#sorted, output), 0, output);
  }

  /** Returns the ⌈share n⌉-th smallest of n outputs (nearest rank). Undefined: too few are known. */
  quantile(share: Decimal): number | undefined {
    const count = this.#sorted.length;
    if (count < CALLS_NEEDED) return undefined;
    return this.#sorted[sumRoundedUp([{ weight: share, count }]) - 1];
  }
}

/** Finds the index of the first number that is not smaller. */
function indexOfFirst(sorted: readonly number[], wanted: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] as number) < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Calls are alike if their own maximum has the same number of binary digits, or if they have none. */
function keyOf({ resource, outputMax }: Pick<EstimatedCall, "resource" | "outputMax">): string {
  return `${outputMax === undefined ? "-" : Math.floor(outputMax).toString(2).length} ${resource}`;
}

function addTo(stats: Map<string, EstimateStats>, { resource, estimated, actual }: SettledCall): void {
  const before = stats.get(resource) ?? NO_CALLS;
  // The statistics stay bounded even if a program makes up resources without end.
  if (before === NO_CALLS && stats.size >= KEYS_MAX) return;
  stats.set(resource, {
    calls: before.calls + 1,
    estimated: before.estimated + estimated,
    actual: before.actual + actual,
    over: before.over + Math.max(0, estimated - actual),
    under: before.under + Math.max(0, actual - estimated),
  });
}

const NO_CALLS: EstimateStats = { calls: 0, estimated: 0, actual: 0, over: 0, under: 0 };

function shareOf(name: string, given: number | undefined, otherwise: number): Decimal {
  const share = given ?? otherwise;
  if (typeof share === "number" && share > 0 && share <= 1) return decimalOf(share);
  throw new ValidationError(
    "options_invalid",
    `${name} of learnedEstimate is ${shown(given)}; give a number above 0 and at most 1, as ${otherwise}.`,
  );
}
