import { hasAggregator, hasProvisioner } from "./check-options.ts";
import { arnOf, type Json, type Resources, ref, type TemplateContext, type Text } from "./parts.ts";
import { boundaryArn } from "./template-access.ts";

/** Outputs and their exports, of what is there: an export that is empty cannot be made. */
export function outputsOf(context: TemplateContext, resources: Resources): Json {
  const { options, named, table } = context;
  const has = (logicalId: string): boolean => Object.hasOwn(resources, logicalId);
  const outputs: [name: string, value: Text, exported?: string][] = [
    ["TableName", table.name],
    ["TableArn", table.arn],
  ];
  if (table.streamArn !== undefined) outputs.push(["StreamArn", table.streamArn]);
  if (hasAggregator(options)) {
    outputs.push(
      ["AggregatorFunctionArn", arnOf("AggregatorFunction"), "AggregatorArn"],
      ["AggregatorFunctionName", ref("AggregatorFunction"), "AggregatorName"],
      ["AggregatorDLQUrl", ref("AggregatorDLQ"), "DLQUrl"],
      ["AggregatorDLQArn", arnOf("AggregatorDLQ"), "DLQArn"],
    );
  }
  for (const [alarm, exported] of Object.entries(ALARMS)) {
    if (has(alarm)) outputs.push([`${alarm}Name`, ref(alarm), exported]);
  }
  if (has("AuditArchiveBucket")) {
    outputs.push(
      ["AuditArchiveBucketName", ref("AuditArchiveBucket")],
      ["AuditArchiveBucketArn", arnOf("AuditArchiveBucket")],
      ["CodeBucketName", ref("AuditArchiveBucket")],
    );
  }
  for (const policy of MANAGED) if (has(policy)) outputs.push([`${policy}Arn`, ref(policy)]);
  for (const role of ["AppRole", "AdminRole", "ReadOnlyRole"]) {
    if (has(role)) outputs.push([`${role}Arn`, arnOf(role)], [`${role}Name`, ref(role)]);
  }
  if (hasProvisioner(options)) {
    outputs.push(
      ["ProvisionerFunctionArn", arnOf("ProvisionerFunction"), "ProvisionerArn"],
      ["ProvisionerFunctionName", ref("ProvisionerFunction"), "ProvisionerName"],
    );
  }
  const { permissionBoundary, roleNameFormat } = options;
  if (options.iam && permissionBoundary !== undefined) {
    outputs.push(["PermissionBoundaryArn", boundaryArn(permissionBoundary)]);
  }
  if (options.iam && roleNameFormat !== "{}") outputs.push(["RoleNameFormat", roleNameFormat]);
  if (has("Dashboard")) outputs.push(["DashboardName", ref("Dashboard")]);
  return Object.fromEntries(
    outputs.map(([name, Value, exported = name]) => [name, { Value, Export: { Name: named(`-${exported}`) } }]),
  );
}

/** Logical id, and what the name of the alarm is exported as. */
const ALARMS: Readonly<Record<string, string>> = {
  AggregatorDLQAlarm: "DLQAlarmName",
  LambdaErrorRateAlarm: "LambdaErrorRateAlarmName",
  LambdaDurationAlarm: "LambdaDurationAlarmName",
  StreamIteratorAgeAlarm: "StreamIteratorAgeAlarmName",
  DynamoDBReadThrottleAlarm: "ReadThrottleAlarmName",
  DynamoDBWriteThrottleAlarm: "WriteThrottleAlarmName",
  GSI2ThrottleAlarm: "GSI2ThrottleAlarmName",
  GSI4ThrottleAlarm: "GSI4ThrottleAlarmName",
  ArchiveFailuresAlarm: "ArchiveFailuresAlarmName",
  UsageClosedAlarm: "UsageClosedAlarmName",
};

const MANAGED = [
  "AcquireOnlyPolicy",
  "FullAccessPolicy",
  "ReadOnlyPolicy",
  "NamespaceAcquirePolicy",
  "NamespaceFullAccessPolicy",
  "NamespaceReadOnlyPolicy",
];
