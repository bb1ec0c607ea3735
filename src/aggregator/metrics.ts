/** The metrics of the aggregator, with their units in CloudWatch. */
export const UNITS = {
  Records: "Count",
  Archived: "Count",
  ArchiveFailures: "Count",
  StreamAgeMs: "Milliseconds",
  Gap: "Count",
  BucketsSwept: "Count",
  HoursClosed: "Count",
  ShardsJoined: "Count",
  ShardsUnreadable: "Count",
  ClosedUntilAgeHours: "None",
  Errors: "Count",
} as const;

/** A metric of the aggregator. */
export type MetricName = keyof typeof UNITS;

/** Counts and measurements since the last `take`. */
export class Metrics {
  #values = new Map<MetricName, number>();

  add(name: MetricName, count: number): void {
    this.#values.set(name, (this.#values.get(name) ?? 0) + count);
  }

  /** The highest measurement until the next `take` counts. */
  measure(name: MetricName, value: number): void {
    this.#values.set(name, Math.max(this.#values.get(name) ?? 0, value));
  }

  /** Returns the values and starts again. */
  take(): Readonly<Partial<Record<MetricName, number>>> {
    const taken = Object.fromEntries(this.#values);
    this.#values = new Map();
    return taken;
  }
}

/** A line in CloudWatch's embedded metric format: Lambda's output in this format becomes metrics without a call. */
export function emfLine(
  values: Readonly<Partial<Record<MetricName, number>>>,
  { stack, nowMs }: { readonly stack: string; readonly nowMs: number },
): string {
  const Metrics = Object.keys(values).map((name) => ({ Name: name, Unit: UNITS[name as MetricName] }));
  const directive = { Namespace: "zae-limiter", Dimensions: [["Stack"]], Metrics };
  return JSON.stringify({ _aws: { Timestamp: nowMs, CloudWatchMetrics: [directive] }, Stack: stack, ...values });
}
