import { hasAggregator, hasArchive } from "./check-options.ts";
import { type Json, type Resource, type Resources, ref, type TemplateContext, type Text } from "./parts.ts";

/**
 * How long something must be wrong before somebody is told: in `breaching` of the last `periods`. What is measured once an hour needs periods of
 * an hour: in shorter ones most have no value, and no two that follow each other ever have.
 */
interface Patience {
  readonly periodS: number;
  readonly periods: number;
  readonly breaching: number;
}

/** For what is measured all the time. */
const TEN_MINUTES: Patience = { periodS: 300, periods: 2, breaching: 2 };
/** For what comes with every batch of the stream, and again with every attempt. */
const HALF_AN_HOUR: Patience = { periodS: 900, periods: 3, breaching: 2 };
/** For what comes with every sweep: one that went wrong may be an accident, a second is none. */
const TWO_SWEEPS: Patience = { periodS: 3_600, periods: 3, breaching: 2 };
/** For what a single sweep says for sure; the hour after it may have no sweep in it. */
const ONE_SWEEP: Patience = { periodS: 3_600, periods: 2, breaching: 1 };
const AT_ONCE: Patience = { periodS: 300, periods: 1, breaching: 1 };

/** What is worth waking somebody. Where nothing is measured nothing is wrong. */
export function alarmResources(context: TemplateContext): Resources {
  const { options } = context;
  if (!options.alarms) return {};
  const table = [dimension("TableName", context.table.name)];
  const index = (name: string) => [...table, dimension("GlobalSecondaryIndexName", name)];
  return {
    ...(hasAggregator(options) ? aggregatorAlarms(context) : {}),
    DynamoDBReadThrottleAlarm: alarm(context, TEN_MINUTES, {
      ending: "-read-throttle",
      description: "Reads of the table are throttled",
      over: 1,
      measured: throttles(["ReadThrottleEvents"], table),
    }),
    DynamoDBWriteThrottleAlarm: alarm(context, TEN_MINUTES, {
      ending: "-write-throttle",
      description: "Writes to the table are throttled: a bucket is hotter than its shards",
      over: 1,
      measured: throttles(["WriteThrottleEvents"], table),
    }),
    // The table's own metrics leave its indexes out.
    GSI2ThrottleAlarm: alarm(context, TEN_MINUTES, {
      ending: "-gsi2-throttle",
      description: "The resource index is throttled, and holds up writes to the table",
      over: 1,
      measured: throttles(["ReadThrottleEvents", "WriteThrottleEvents"], index("GSI2")),
    }),
    GSI4ThrottleAlarm: alarm(context, TEN_MINUTES, {
      ending: "-gsi4-throttle",
      description: "The namespace index is throttled, and holds up writes to the table",
      over: 1,
      measured: throttles(["ReadThrottleEvents", "WriteThrottleEvents"], index("GSI4")),
    }),
  };
}

const HOUR_MS = 3_600_000;

function aggregatorAlarms(context: TemplateContext): Resources {
  const own = [dimension("FunctionName", ref("AggregatorFunction"))];
  const counted = [dimension("Stack", context.table.name)];
  const { streamArn } = context.table;
  return {
    AggregatorDLQAlarm: alarm(context, AT_ONCE, {
      ending: "-aggregator-dlq-alarm",
      description: "Stream records were dropped; they are missing from the audit archive",
      over: 0,
      measured: statisticOf("Maximum", "AWS/SQS", "ApproximateNumberOfMessagesVisible", [
        { Name: "QueueName", Value: { "Fn::GetAtt": ["AggregatorDLQ", "QueueName"] } },
      ]),
    }),
    LambdaErrorRateAlarm: alarm(context, TWO_SWEEPS, {
      ending: "-aggregator-error-rate",
      description: "More than 1 % of the aggregator's runs fail, or its sweeps do",
      over: 1,
      measured: (periodS) => ({
        Metrics: [
          metric("errors", "AWS/Lambda", "Errors", own, periodS),
          metric("invocations", "AWS/Lambda", "Invocations", own, periodS),
          { Id: "rate", Expression: "100 * errors / invocations", Label: "Errors, percent", ReturnData: true },
        ],
      }),
    }),
    LambdaDurationAlarm: alarm(context, TWO_SWEEPS, {
      ending: "-aggregator-duration",
      description: "The aggregator runs close to its timeout",
      over: ref("LambdaDurationThreshold"),
      measured: statisticOf("Maximum", "AWS/Lambda", "Duration", own),
    }),
    ...(streamArn === undefined
      ? {}
      : {
          StreamIteratorAgeAlarm: alarm(context, HALF_AN_HOUR, {
            ending: "-stream-iterator-age",
            description: "The aggregator is an hour behind the stream, which keeps records for a day",
            over: HOUR_MS,
            measured: statisticOf("Maximum", "AWS/Lambda", "IteratorAge", own),
          }),
        }),
    ...(hasArchive(context.options)
      ? {
          // A batch that is only reported as failed is no error of the function's.
          ArchiveFailuresAlarm: alarm(context, HALF_AN_HOUR, {
            ending: "-archive-failures",
            description: "Expired audit events cannot be archived; the stream keeps them for a day",
            over: 0,
            measured: statisticOf("Sum", "zae-limiter", "ArchiveFailures", counted),
          }),
        }
      : {}),
    UsageClosedAlarm: alarm(context, ONE_SWEEP, {
      ending: "-usage-closed",
      description: "No sweep has finished for six hours: hours of idle buckets stay open",
      over: 6,
      measured: statisticOf("Maximum", "zae-limiter", "ClosedUntilAgeHours", counted),
    }),
  };
}

interface AlarmShape {
  readonly ending: string;
  readonly description: string;
  readonly over: number | Text;
  /** What is measured, in periods of so many seconds. */
  readonly measured: (periodS: number) => Json;
}

function alarm({ named, options }: TemplateContext, patience: Patience, shape: AlarmShape): Resource {
  const { ending, description, over, measured } = shape;
  const { periodS, periods, breaching } = patience;
  const { alarmSnsTopic: topic } = options;
  return {
    Type: "AWS::CloudWatch::Alarm",
    Properties: {
      AlarmName: named(ending),
      AlarmDescription: description,
      Threshold: over,
      ComparisonOperator: "GreaterThanThreshold",
      EvaluationPeriods: periods,
      DatapointsToAlarm: breaching,
      TreatMissingData: "notBreaching",
      ...measured(periodS),
      ...(topic === undefined ? {} : { AlarmActions: [topic], OKActions: [topic] }),
    },
  };
}

type Dimensions = readonly { readonly Name: string; readonly Value: Text }[];

function dimension(name: string, value: Text): Dimensions[number] {
  return { Name: name, Value: value };
}

function statisticOf(
  statistic: "Sum" | "Maximum",
  namespace: string,
  name: string,
  dimensions: Dimensions,
): (periodS: number) => Json {
  return (periodS) => ({
    ...{ Namespace: namespace, MetricName: name, Dimensions: dimensions, Statistic: statistic, Period: periodS },
  });
}

/**
 * Filled up, since DynamoDB publishes throttles only where there are some, and CloudWatch ignores what is missing of DynamoDB's metrics whatever
 * an alarm says: it would never end.
 */
function throttles(names: readonly string[], dimensions: Dimensions): (periodS: number) => Json {
  return (periodS) => ({
    Metrics: [
      ...names.map((name, i) => metric(`m${i}`, "AWS/DynamoDB", name, dimensions, periodS)),
      {
        Id: "all",
        Expression: names.map((_, i) => `FILL(m${i}, 0)`).join(" + "),
        Label: "Throttles",
        ReturnData: true,
      },
    ],
  });
}

function metric(id: string, namespace: string, name: string, dimensions: Dimensions, periodS: number): Json {
  return {
    Id: id,
    ReturnData: false,
    MetricStat: {
      Metric: { Namespace: namespace, MetricName: name, Dimensions: dimensions },
      Period: periodS,
      Stat: "Sum",
    },
  };
}
