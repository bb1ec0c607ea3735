import { given } from "../domain/names/given.ts";
import { type Json, type Resource, type Resources, ref, sub, type TemplateContext, type Text } from "./parts.ts";
import { NAMES } from "./stack-names.ts";
import { hasAggregator, hasArchive } from "./stack-options.ts";

/**
 * The time after which an alarm is raised: the value is too high in `breaching` of the last `periods`. A metric that has one value an hour
 * needs periods of an hour: most shorter ones have no value.
 */
interface Patience {
  readonly periodS: number;
  readonly periods: number;
  readonly breaching: number;
}

/** For metrics that always have values. */
const TEN_MINUTES: Patience = { periodS: 300, periods: 2, breaching: 2 };
/** For metrics of every batch of the stream, and of every attempt. */
const HALF_AN_HOUR: Patience = { periodS: 900, periods: 3, breaching: 2 };
/** Alarm on two failed sweeps out of three. */
const TWO_SWEEPS: Patience = { periodS: 3_600, periods: 3, breaching: 2 };
/** Alarm on a single sweep. The hour after it may have no sweep, so two periods are watched. */
const ONE_SWEEP: Patience = { periodS: 3_600, periods: 2, breaching: 1 };
const AT_ONCE: Patience = { periodS: 300, periods: 1, breaching: 1 };

/** The alarms. A period without a value counts as healthy. */
export function alarmResources(context: TemplateContext): Resources {
  const { options } = context;
  if (!options.alarms) return {};
  const table = [dimension("TableName", context.table.name)];
  const index = (name: string) => [...table, dimension("GlobalSecondaryIndexName", name)];
  const throttled = (ending: string, description: string, events: readonly string[], of: typeof table) =>
    alarm(context, TEN_MINUTES, { ending, description, over: 1, measured: throttles(events, of) });
  const hotBucket = "Writes to the table are throttled: a bucket is hotter than its shards";
  const heldUp = (name: string) => `The ${name} index is throttled, and holds up writes to the table`;
  return {
    ...(hasAggregator(options) ? aggregatorAlarms(context) : {}),
    DynamoDBReadThrottleAlarm: throttled("-read-throttle", "Reads of the table are throttled", [READ], table),
    DynamoDBWriteThrottleAlarm: throttled("-write-throttle", hotBucket, [WRITE], table),
    // The table's own metrics do not include its indexes.
    GSI2ThrottleAlarm: throttled("-gsi2-throttle", heldUp("resource"), [READ, WRITE], index("GSI2")),
    GSI4ThrottleAlarm: throttled("-gsi4-throttle", heldUp("namespace"), [READ, WRITE], index("GSI4")),
  };
}

const READ = "ReadThrottleEvents";
const WRITE = "WriteThrottleEvents";

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
          // A batch that is only reported as failed is no error of the function.
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
  /** The metric, in periods of so many seconds. */
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
      ...given({ AlarmActions: topic && [topic], OKActions: topic && [topic] }),
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
  const measured = { Namespace: namespace, MetricName: name, Dimensions: dimensions, Statistic: statistic };
  return (periodS) => ({ ...measured, Period: periodS });
}

/**
 * Missing values are filled with 0. DynamoDB publishes throttles only if there are some, and CloudWatch ignores missing values of its
 * metrics, whatever an alarm says: the alarm would never end.
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

/** A dashboard of CloudWatch: load and throttles of the table, and the aggregator's work. */
export function dashboardResources(context: TemplateContext): Resources {
  const { options, accountWide } = context;
  if (!options.alarms || !hasAggregator(options)) return {};
  // CloudFormation fills in names and the region.
  const text = sub(JSON.stringify({ start: "-PT12H", widgets: widgetsOf(context) }));
  return {
    Dashboard: {
      Type: "AWS::CloudWatch::Dashboard",
      Properties: { DashboardName: accountWide("{}", ""), DashboardBody: text },
    },
  };
}

type Line = readonly (string | Readonly<Record<string, unknown>>)[];

interface Chart {
  readonly title: string;
  readonly metrics: readonly Line[];
  readonly stat?: string;
}

const INDEXES = ["GSI1", "GSI2", "GSI3", "GSI4"];

function widgetsOf({ options, table }: TemplateContext) {
  const name = typeof table.name === "string" ? table.name : `\${RateLimitsTable}`;
  const stack = options.name ?? `\${AWS::StackName}`;
  const ofTable = ["TableName", name];
  const ofAggregator = ["FunctionName", `${stack}${NAMES.aggregator}`];
  const own = (metric: string): Line => ["zae-limiter", metric, "Stack", name];
  const dynamo = (metric: string, ...more: string[]): Line => ["AWS/DynamoDB", metric, ...ofTable, ...more];
  const charts: readonly Chart[] = [
    {
      title: "Read and write units of the table",
      metrics: [dynamo("ConsumedWriteCapacityUnits"), dynamo("ConsumedReadCapacityUnits")],
    },
    {
      title: "Write units of the indexes",
      metrics: INDEXES.map((index) => dynamo("ConsumedWriteCapacityUnits", "GlobalSecondaryIndexName", index)),
    },
    {
      title: "Throttles",
      metrics: [
        dynamo("WriteThrottleEvents"),
        dynamo("ReadThrottleEvents"),
        ...INDEXES.map((index) => dynamo("WriteThrottleEvents", "GlobalSecondaryIndexName", index)),
      ],
    },
    {
      title: "Latency of a take, ms",
      metrics: ["p50", "p99"].map((stat) => [
        ...dynamo("SuccessfulRequestLatency", "Operation", "UpdateItem"),
        { stat, label: stat },
      ]),
    },
    {
      title: "Failed conditions: races and refusals",
      metrics: [dynamo("ConditionalCheckFailedRequests")],
    },
    { title: "Refusals, if clients publish them", metrics: [own("Refused"), own("Unavailable")] },
    {
      title: "Aggregator: runs and errors",
      metrics: [
        ["AWS/Lambda", "Invocations", ...ofAggregator],
        ["AWS/Lambda", "Errors", ...ofAggregator],
      ],
    },
    {
      title: "Aggregator: delay behind the stream, ms",
      stat: "Maximum",
      metrics: [["AWS/Lambda", "IteratorAge", ...ofAggregator]],
    },
    { title: "Audit archive", metrics: [own("Records"), own("Archived"), own("ArchiveFailures")] },
    { title: "Sweep", metrics: [own("BucketsSwept"), own("HoursClosed"), own("ShardsJoined")] },
    { title: "Age of the newest closed usage, hours", stat: "Maximum", metrics: [own("ClosedUntilAgeHours")] },
  ];
  return charts.map(({ title, metrics, stat = "Sum" }, i) => ({
    type: "metric",
    ...{ x: (i % 2) * 12, y: Math.floor(i / 2) * 6, width: 12, height: 6 },
    properties: { title, metrics, stat, period: 300, region: `\${AWS::Region}`, view: "timeSeries" },
  }));
}
