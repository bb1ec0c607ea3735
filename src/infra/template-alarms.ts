import { hasAggregator } from "./check-options.ts";
import { type Json, type Resource, type Resources, ref, type StackPlace, type Text } from "./parts.ts";

/** What is worth waking somebody. Where nothing is measured nothing is wrong. */
export function alarmResources(place: StackPlace): Resources {
  const { options } = place;
  if (!options.alarms) return {};
  const table = [dimension("TableName", place.table.name)];
  const index = (name: string) => [...table, dimension("GlobalSecondaryIndexName", name)];
  return {
    ...(hasAggregator(options) ? aggregatorAlarms(place) : {}),
    DynamoDBReadThrottleAlarm: alarm(place, {
      ending: "-read-throttle",
      description: "Reads of the table are throttled",
      over: 1,
      ...sumOf("AWS/DynamoDB", "ReadThrottleEvents", table),
    }),
    DynamoDBWriteThrottleAlarm: alarm(place, {
      ending: "-write-throttle",
      description: "Writes to the table are throttled: a bucket is hotter than its shards",
      over: 1,
      ...sumOf("AWS/DynamoDB", "WriteThrottleEvents", table),
    }),
    // The table's own metrics leave its indexes out.
    GSI2ThrottleAlarm: alarm(place, {
      ending: "-gsi2-throttle",
      description: "The resource index is throttled, and holds up writes to the table",
      over: 1,
      ...throttlesOf(index("GSI2")),
    }),
    GSI4ThrottleAlarm: alarm(place, {
      ending: "-gsi4-throttle",
      description: "The namespace index is throttled, and holds up writes to the table",
      over: 1,
      ...throttlesOf(index("GSI4")),
    }),
  };
}

const PERIOD_S = 300;
const HOUR_MS = 3_600_000;

function aggregatorAlarms(place: StackPlace): Resources {
  const own = [dimension("FunctionName", ref("AggregatorFunction"))];
  const { streamArn } = place.table;
  return {
    AggregatorDLQAlarm: alarm(place, {
      ending: "-aggregator-dlq-alarm",
      description: "Records of the stream were given up; they are missing in the audit archive",
      over: 1,
      orEqual: true,
      periods: 1,
      ...sumOf("AWS/SQS", "ApproximateNumberOfMessagesVisible", [
        { Name: "QueueName", Value: { "Fn::GetAtt": ["AggregatorDLQ", "QueueName"] } },
      ]),
    }),
    LambdaErrorRateAlarm: alarm(place, {
      ending: "-aggregator-error-rate",
      description: "More than 1 % of the aggregator's runs fail",
      over: 1,
      Metrics: [
        metric("errors", "AWS/Lambda", "Errors", own),
        metric("invocations", "AWS/Lambda", "Invocations", own),
        { Id: "rate", Expression: "100 * errors / invocations", Label: "Errors, percent", ReturnData: true },
      ],
    }),
    LambdaDurationAlarm: alarm(place, {
      ending: "-aggregator-duration",
      description: "The aggregator comes close to its timeout",
      over: ref("LambdaDurationThreshold"),
      ...statisticOf("Maximum", "AWS/Lambda", "Duration", own),
    }),
    ...(streamArn === undefined
      ? {}
      : {
          StreamIteratorAgeAlarm: alarm(place, {
            ending: "-stream-iterator-age",
            description: "The aggregator is an hour behind the stream, which keeps records for a day",
            over: HOUR_MS,
            ...statisticOf("Maximum", "AWS/Lambda", "IteratorAge", own),
          }),
        }),
    UsageClosedAlarm: alarm(place, {
      ending: "-usage-closed",
      description: "No sweep has come to its end for six hours: hours of idle buckets stay open",
      over: 6,
      ...statisticOf("Maximum", "zae-limiter", "ClosedUntilAgeHours", [dimension("Stack", place.table.name)]),
    }),
  };
}

interface AlarmShape {
  readonly ending: string;
  readonly description: string;
  readonly over: number | Text;
  readonly orEqual?: true;
  readonly periods?: number;
  readonly [property: string]: unknown;
}

function alarm({ named, options }: StackPlace, shape: AlarmShape): Resource {
  const { ending, description, over, orEqual, periods = 2, ...measured } = shape;
  const { alarmSnsTopic: topic } = options;
  return {
    Type: "AWS::CloudWatch::Alarm",
    Properties: {
      AlarmName: named(ending),
      AlarmDescription: description,
      Threshold: over,
      ComparisonOperator: orEqual === true ? "GreaterThanOrEqualToThreshold" : "GreaterThanThreshold",
      EvaluationPeriods: periods,
      TreatMissingData: "notBreaching",
      ...measured,
      ...(topic === undefined ? {} : { AlarmActions: [topic], OKActions: [topic] }),
    },
  };
}

type Dimensions = readonly { readonly Name: string; readonly Value: Text }[];

function dimension(name: string, value: Text): Dimensions[number] {
  return { Name: name, Value: value };
}

function sumOf(namespace: string, name: string, dimensions: Dimensions): Json {
  return statisticOf("Sum", namespace, name, dimensions);
}

function statisticOf(statistic: "Sum" | "Maximum", namespace: string, name: string, dimensions: Dimensions): Json {
  return { Namespace: namespace, MetricName: name, Dimensions: dimensions, Statistic: statistic, Period: PERIOD_S };
}

function throttlesOf(dimensions: Dimensions): Json {
  return {
    Metrics: [
      metric("reads", "AWS/DynamoDB", "ReadThrottleEvents", dimensions),
      metric("writes", "AWS/DynamoDB", "WriteThrottleEvents", dimensions),
      { Id: "both", Expression: "FILL(reads, 0) + FILL(writes, 0)", Label: "Throttles", ReturnData: true },
    ],
  };
}

function metric(id: string, namespace: string, name: string, dimensions: Dimensions): Json {
  return {
    Id: id,
    ReturnData: false,
    MetricStat: {
      Metric: { Namespace: namespace, MetricName: name, Dimensions: dimensions },
      Period: PERIOD_S,
      Stat: "Sum",
    },
  };
}
