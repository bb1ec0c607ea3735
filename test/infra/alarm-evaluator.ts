import assert from "node:assert/strict";

// CloudWatch's rules for alarms, as we understand its guide; no alarm was watched on AWS. How many periods it looks back beyond those that count
// the guide does not fix, so tests play every series with several.

/** A value of a metric at an instant. */
export interface Datum {
  readonly metric: string;
  readonly atS: number;
  readonly value: number;
}

export type AlarmProperties = Readonly<Record<string, unknown>>;

/** What an alarm is at the end of each of its periods; `lookBack`: periods that it looks at besides those that count. */
export function statesOf(
  alarm: AlarmProperties,
  data: readonly Datum[],
  { untilS, threshold, lookBack }: { readonly untilS: number; readonly threshold?: number; readonly lookBack: number },
): readonly ("OK" | "ALARM")[] {
  const {
    EvaluationPeriods: counted,
    DatapointsToAlarm: needed = counted,
    TreatMissingData,
    Threshold,
  } = alarm as {
    EvaluationPeriods: number;
    DatapointsToAlarm?: number;
    TreatMissingData: string;
    Threshold: unknown;
  };
  assert.equal(TreatMissingData, "notBreaching", "the evaluator knows no other");
  assert.equal(alarm.ComparisonOperator, "GreaterThanThreshold", "the evaluator knows no other");
  const over = typeof Threshold === "number" ? Threshold : threshold;
  assert.ok(over !== undefined, "the threshold is a parameter: give its value");
  const { periodS, valueIn } = seriesOf(alarm, data);
  const states: ("OK" | "ALARM")[] = [];
  for (let last = 0; (last + 1) * periodS <= untilS; last++) {
    const values: number[] = [];
    for (let period = last; period > last - counted - lookBack && period >= 0; period--) {
      const value = valueIn(period);
      if (value !== undefined) values.push(value);
    }
    // The newest that there are; where they are too few, what is missing counts as good.
    const breaching = values.slice(0, counted).filter((value) => value > over).length;
    states.push(breaching >= needed ? "ALARM" : "OK");
  }
  return states;
}

/** The periods of an alarm, and what its metric or its expression comes to in each. */
function seriesOf(alarm: AlarmProperties, data: readonly Datum[]) {
  const { MetricName, Statistic, Period, Metrics } = alarm as {
    MetricName?: string;
    Statistic?: string;
    Period?: number;
    Metrics?: readonly { Id: string; Expression?: string; MetricStat?: Stat }[];
  };
  if (Metrics === undefined) {
    assert.ok(MetricName !== undefined && Statistic !== undefined && Period !== undefined);
    const only: Stat = { Metric: { MetricName }, Stat: Statistic, Period };
    return { periodS: Period, valueIn: (period: number) => aggregated(only, period, data) };
  }
  const stats = Metrics.flatMap(({ Id, MetricStat }) => (MetricStat === undefined ? [] : [[Id, MetricStat] as const]));
  const expression = Metrics.find(({ Expression }) => Expression !== undefined)?.Expression ?? "";
  const periodS = stats[0]![1].Period;
  const valueIn = (period: number) =>
    evaluated(expression, new Map(stats.map(([id, stat]) => [id, aggregated(stat, period, data)])));
  return { periodS, valueIn };
}

interface Stat {
  readonly Metric: { readonly MetricName: string };
  readonly Stat: string;
  readonly Period: number;
}

function aggregated({ Metric, Stat: stat, Period }: Stat, period: number, data: readonly Datum[]): number | undefined {
  const values = data
    .filter(({ metric, atS }) => metric === Metric.MetricName && Math.floor(atS / Period) === period)
    .map(({ value }) => value);
  if (values.length === 0) return undefined;
  return stat === "Maximum" ? Math.max(...values) : values.reduce((sum, each) => sum + each, 0);
}

/** The two forms that the template has: a quotient in percent, and a sum of what is filled up. */
function evaluated(expression: string, values: ReadonlyMap<string, number | undefined>): number | undefined {
  const quotient = /^100 \* (\w+) \/ (\w+)$/.exec(expression);
  if (quotient !== null) {
    const [part, whole] = [values.get(quotient[1]!), values.get(quotient[2]!)];
    return part === undefined || whole === undefined || whole === 0 ? undefined : (100 * part) / whole;
  }
  const filled = [...expression.matchAll(/FILL\((\w+), (\d+)\)/g)];
  assert.equal(filled.map(([text]) => text).join(" + "), expression, "the evaluator knows this expression");
  return filled.reduce((sum, [, id, fill]) => sum + (values.get(id!) ?? Number(fill)), 0);
}
