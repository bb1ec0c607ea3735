import { SCHEMA_VERSION } from "../adapters/dynamodb/schema.ts";
import { arnOf, type Json, type Resources, ref, type TemplateContext, type Text, templateContext } from "./parts.ts";
import {
  checkedOptions,
  type FullStackOptions,
  LOG_RETENTION_DAYS,
  RANGES,
  STACK_DEFAULTS,
  type StackOptions,
} from "./stack-options.ts";
import { accessResources, boundaryArn, CLIENT_POLICIES, CLIENT_ROLES } from "./template-access.ts";
import { functionResources } from "./template-functions.ts";
import { alarmResources, dashboardResources } from "./template-monitoring.ts";
import { tableResources } from "./template-table.ts";

/** A template of CloudFormation. */
export interface Template {
  /** The version of the template language. */
  readonly AWSTemplateFormatVersion: "2010-09-09";
  /** The stack in words. */
  readonly Description: string;
  /** The options that the template was made with. */
  readonly Metadata: Json;
  /** Values that can be changed without changing the structure. */
  readonly Parameters: Json;
  /** The resources by logical id. */
  readonly Resources: Resources;
  /** Outputs, with the names under which they are exported. */
  readonly Outputs: Json;
}

/**
 * The stack as a CloudFormation template. The options decide which resources it has; values stay parameters, and there
 * are no conditions.
 *
 * ```ts
 * writeFileSync("limits.json", JSON.stringify(template({ name: "limits", alarms: false })));
 * ```
 */
export function template(options: StackOptions = {}): Template {
  return templateOf(checkedOptions(options));
}

export function templateOf(options: FullStackOptions): Template {
  const context = templateContext(options);
  const resources: Resources = {
    ...tableResources(context),
    ...accessResources(context),
    ...functionResources(context),
    ...alarmResources(context),
    ...dashboardResources(context),
  };
  const body = { Resources: resources, Outputs: outputsOf(context, resources) };
  return {
    AWSTemplateFormatVersion: "2010-09-09",
    Description: "zae-limiter: a table of rate limits, its functions, policies and alarms",
    Metadata: { [METADATA_KEY]: structureOf(options) },
    Parameters: parametersOf(body, options),
    ...body,
  };
}

const METADATA_KEY = "zae-limiter";

/** The options that decide the structure, if they differ from the defaults. A later deploy begins with them. */
function structureOf(options: FullStackOptions): Json {
  const values = new Set<string>(Object.values(PARAMETERS).flatMap(({ option }) => option ?? []));
  const chosen = Object.fromEntries(
    Object.entries(options).filter(
      ([name, value]) =>
        name !== "name" &&
        name !== "lambdaDurationThresholdPct" &&
        !values.has(name) &&
        // It is always written: a template without it is from before there was a choice.
        name !== "regionalNames" &&
        JSON.stringify(value) !== JSON.stringify(STACK_DEFAULTS[name as keyof FullStackOptions]),
    ),
  );
  return { ...chosen, regionalNames: options.regionalNames };
}

/** Reads the options that a deployed template was made with; undefined: another tool made it. */
export function structureIn(template: unknown): StackOptions | undefined {
  const metadata = (template as { Metadata?: Record<string, unknown> } | undefined)?.Metadata;
  return metadata?.[METADATA_KEY] as StackOptions | undefined;
}

/** A parameter of the template: a value that can be changed while the structure stays. */
interface Parameter {
  readonly value: (options: FullStackOptions) => string;
  /** The option that a deployed value stands for; absent: it follows from others. */
  readonly option?: keyof FullStackOptions;
  readonly declaration: Json;
}

export const PARAMETERS: Readonly<Record<string, Parameter>> = {
  LambdaMemorySize: number("lambdaMemory", "Memory of the aggregator, in MB", RANGES.lambdaMemory),
  LambdaTimeout: number("lambdaTimeout", "Timeout of the aggregator, in seconds", RANGES.lambdaTimeout),
  LambdaDurationThreshold: {
    value: ({ lambdaTimeout, lambdaDurationThresholdPct }) => String(lambdaTimeout * 10 * lambdaDurationThresholdPct),
    declaration: {
      Type: "Number",
      MinValue: 1,
      MaxValue: 900_000,
      Description: "Duration of the aggregator that raises an alarm, in ms",
    },
  },
  LogRetentionDays: {
    value: ({ logRetentionDays }) => String(logRetentionDays),
    option: "logRetentionDays",
    declaration: { Type: "Number", AllowedValues: LOG_RETENTION_DAYS, Description: "How long logs are kept, in days" },
  },
  SnapshotRetentionDays: number("usageRetentionDays", "How long usage is kept, in days", RANGES.usageRetentionDays),
  AuditArchiveGlacierTransitionDays: number(
    "auditArchiveGlacierDays",
    "After how many days archived audit events move to Glacier",
    RANGES.auditArchiveGlacierDays,
  ),
  SchemaVersion: {
    value: () => SCHEMA_VERSION,
    declaration: {
      Type: "String",
      AllowedPattern: "^\\d+\\.\\d+\\.\\d+$",
      Description: "Schema version of the table",
    },
  },
};

/** Declares the parameters that the template refers to, with these options as defaults. */
function parametersOf(template: Json, options: FullStackOptions): Json {
  const text = JSON.stringify(template);
  return Object.fromEntries(
    Object.entries(PARAMETERS)
      .filter(([name]) => text.includes(`{"Ref":"${name}"}`))
      .map(([name, { value, declaration }]) => {
        const isNumber = declaration.Type === "Number";
        return [name, { ...declaration, Default: isNumber ? Number(value(options)) : value(options) }];
      }),
  );
}

/** Reads options from the parameter values of a deployed stack. */
export function optionsIn(values: Readonly<Record<string, string>>): StackOptions {
  const own = Object.entries(PARAMETERS).flatMap(([name, { option }]) => {
    const value = values[name];
    return option === undefined || value === undefined ? [] : [[option, Number(value)] as const];
  });
  const { LambdaTimeout: timeoutS, LambdaDurationThreshold: thresholdMs } = values;
  const pct =
    timeoutS === undefined || thresholdMs === undefined
      ? {}
      : { lambdaDurationThresholdPct: Math.round(Number(thresholdMs) / (Number(timeoutS) * 10)) };
  return { ...Object.fromEntries(own), ...pct };
}

type NumberOption = "lambdaMemory" | "lambdaTimeout" | "usageRetentionDays" | "auditArchiveGlacierDays";

function number(option: NumberOption, description: string, [least, most]: readonly [number, number]): Parameter {
  return {
    value: (options) => String(options[option]),
    option,
    declaration: { Type: "Number", MinValue: least, MaxValue: most, Description: description },
  };
}

/** The outputs of the resources that are there, each exported: an empty export cannot be made. */
function outputsOf({ options, named, table }: TemplateContext, resources: Resources): Json {
  const { iam, permissionBoundary, roleNameFormat } = options;
  // An output is there if the resource that it needs is, or the condition holds.
  type Output = readonly [needs: string | boolean, name: string, value: Text, exported?: string];
  const outputs: readonly Output[] = [
    [true, "TableName", table.name],
    [true, "TableArn", table.arn],
    [table.streamArn !== undefined, "StreamArn", table.streamArn ?? ""],
    ["AggregatorFunction", "AggregatorFunctionArn", arnOf("AggregatorFunction"), "AggregatorArn"],
    ["AggregatorFunction", "AggregatorFunctionName", ref("AggregatorFunction"), "AggregatorName"],
    ["AggregatorDLQ", "AggregatorDLQUrl", ref("AggregatorDLQ"), "DLQUrl"],
    ["AggregatorDLQ", "AggregatorDLQArn", arnOf("AggregatorDLQ"), "DLQArn"],
    ...ALARMS.map((id): Output => [id, `${id}Name`, ref(id), `${id.replace(/^(Aggregator|DynamoDB)/, "")}Name`]),
    ["AuditArchiveBucket", "AuditArchiveBucketName", ref("AuditArchiveBucket")],
    ["AuditArchiveBucket", "AuditArchiveBucketArn", arnOf("AuditArchiveBucket")],
    ["AuditArchiveBucket", "CodeBucketName", ref("AuditArchiveBucket")],
    ...Object.keys(CLIENT_POLICIES).map((id): Output => [id, `${id}Arn`, ref(id)]),
    ...Object.keys(CLIENT_ROLES).flatMap((id): Output[] => [
      [id, `${id}Arn`, arnOf(id)],
      [id, `${id}Name`, ref(id)],
    ]),
    ["ProvisionerFunction", "ProvisionerFunctionArn", arnOf("ProvisionerFunction"), "ProvisionerArn"],
    ["ProvisionerFunction", "ProvisionerFunctionName", ref("ProvisionerFunction"), "ProvisionerName"],
    [iam && permissionBoundary !== undefined, "PermissionBoundaryArn", boundaryArn(permissionBoundary ?? "")],
    [iam && roleNameFormat !== "{}", "RoleNameFormat", roleNameFormat],
    ["Dashboard", "DashboardName", ref("Dashboard")],
  ];
  return Object.fromEntries(
    outputs
      .filter(([needs]) => (typeof needs === "string" ? Object.hasOwn(resources, needs) : needs))
      .map(([, name, Value, exported = name]) => [name, { Value, Export: { Name: named(`-${exported}`) } }]),
  );
}

/** Alarms whose names are outputs. */
const ALARMS = [
  "AggregatorDLQAlarm",
  "LambdaErrorRateAlarm",
  "LambdaDurationAlarm",
  "StreamIteratorAgeAlarm",
  "DynamoDBReadThrottleAlarm",
  "DynamoDBWriteThrottleAlarm",
  "GSI2ThrottleAlarm",
  "GSI4ThrottleAlarm",
  "ArchiveFailuresAlarm",
  "UsageClosedAlarm",
];
