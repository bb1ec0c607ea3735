import { hasAggregator } from "./check-options.ts";
import type { Resources, TemplateContext, Text } from "./parts.ts";
import { NAMES } from "./stack-names.ts";

/** A page of CloudWatch: what the table takes and refuses, and how the aggregator fares. */
export function dashboardResources(context: TemplateContext): Resources {
  const { options, accountWide } = context;
  if (!options.alarms || !hasAggregator(options)) return {};
  const body = JSON.stringify({ start: "-PT12H", widgets: widgetsOf(context) });
  // Names and the region are known only where it is made.
  const text: Text = { "Fn::Sub": body };
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
