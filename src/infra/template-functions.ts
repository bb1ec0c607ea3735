import { given } from "../domain/names/given.ts";
import { arnOf, type Json, type Resources, ref, sub, type TemplateContext, type Text } from "./parts.ts";
import { NAMES } from "./stack-names.ts";
import { type FullStackOptions, hasAggregator, hasArchive, hasProvisioner, setsUpTable } from "./stack-options.ts";

/** The aggregator with its queue, its stream and its schedule; the provisioner; their logs. */
export function functionResources(context: TemplateContext): Resources {
  const { options } = context;
  return {
    ...(hasAggregator(options) ? aggregatorResources(context) : {}),
    ...(hasProvisioner(options) ? provisionerResources(context) : {}),
  };
}

/** Selects events that DynamoDB removed because they expired. Events that were deleted or purged are not archived. */
const STREAM_FILTER = {
  eventName: ["REMOVE"],
  userIdentity: { principalId: ["dynamodb.amazonaws.com"] },
  dynamodb: { Keys: { SK: { S: [{ prefix: "#AUDIT#" }] } } },
};

/** For logs and reports of failures, which are worth nothing without the stack. */
const GONE_WITH_STACK = { DeletionPolicy: "Delete", UpdateReplacePolicy: "Delete" } as const;

/** Retries are bounded by age alone. */
const UNLIMITED = -1;
/**
 * Records that cannot be archived for this long go to the queue, by their place in the stream, and the queue raises an alarm. The stream keeps
 * them for as long again, so that a runner can still archive them; if they were retried until they expire, they would be gone by then.
 */
const GIVEN_UP_AFTER_S = 43_200;

function aggregatorResources(context: TemplateContext): Resources {
  const { options, named, table } = context;
  const { aggregatorRoleArn } = options;
  const role = aggregatorRoleArn ?? arnOf("AggregatorRole");
  return {
    AggregatorLogGroup: logGroup(context, NAMES.aggregator),
    AggregatorDLQ: {
      Type: "AWS::SQS::Queue",
      ...GONE_WITH_STACK,
      Properties: {
        QueueName: named(NAMES.queue),
        MessageRetentionPeriod: 1_209_600,
        VisibilityTimeout: 300,
        ...(options.kmsKeyArn === undefined
          ? { SqsManagedSseEnabled: true }
          : { KmsMasterKeyId: options.kmsKeyArn, KmsDataKeyReusePeriodSeconds: 300 }),
      },
    },
    AggregatorFunction: {
      Type: "AWS::Lambda::Function",
      DependsOn: ["AggregatorLogGroup"],
      Properties: functionProperties(context, {
        which: "aggregator",
        description: "Archives expired audit events and sweeps the table",
        role,
        memory: ref("LambdaMemorySize"),
        timeout: ref("LambdaTimeout"),
        environment: {
          SWEEP_AFTER_HOURS: "2",
          USAGE_KEPT_DAYS: ref("SnapshotRetentionDays"),
          ...(hasArchive(options) ? { ARCHIVE_BUCKET_NAME: ref("AuditArchiveBucket") } : {}),
        },
      }),
    },
    ...(table.streamArn === undefined ? {} : { AggregatorEventSourceMapping: streamMapping(table.streamArn) }),
    AggregatorSchedule: {
      Type: "AWS::Events::Rule",
      Properties: {
        Name: named(NAMES.schedule),
        Description: "The aggregator's sweep",
        ScheduleExpression: "rate(1 hour)",
        State: "ENABLED",
        Targets: [{ Id: "aggregator", Arn: arnOf("AggregatorFunction") }],
      },
    },
    AggregatorSchedulePermission: {
      Type: "AWS::Lambda::Permission",
      Properties: {
        Action: "lambda:InvokeFunction",
        FunctionName: ref("AggregatorFunction"),
        Principal: "events.amazonaws.com",
        SourceArn: arnOf("AggregatorSchedule"),
      },
    },
  };
}

function streamMapping(streamArn: Text) {
  return {
    Type: "AWS::Lambda::EventSourceMapping",
    Properties: {
      EventSourceArn: streamArn,
      FunctionName: ref("AggregatorFunction"),
      StartingPosition: "TRIM_HORIZON",
      // Each batch becomes one object of the archive: few large objects are better than many small ones.
      BatchSize: 1_000,
      MaximumBatchingWindowInSeconds: 60,
      FunctionResponseTypes: ["ReportBatchItemFailures"],
      MaximumRetryAttempts: UNLIMITED,
      MaximumRecordAgeInSeconds: GIVEN_UP_AFTER_S,
      BisectBatchOnFunctionError: true,
      DestinationConfig: { OnFailure: { Destination: arnOf("AggregatorDLQ") } },
      FilterCriteria: { Filters: [{ Pattern: JSON.stringify(STREAM_FILTER) }] },
    },
  };
}

function provisionerResources(context: TemplateContext): Resources {
  return {
    ProvisionerLogGroup: logGroup(context, NAMES.provisioner),
    ProvisionerFunction: {
      Type: "AWS::Lambda::Function",
      DependsOn: ["ProvisionerLogGroup"],
      Properties: functionProperties(context, {
        which: "provisioner",
        description: "Declared limits: Custom::ZaeLimiterLimits",
        role: arnOf("ProvisionerRole"),
        memory: 256,
        timeout: 300,
        environment: {},
      }),
    },
    ...(setsUpTable(context.options) ? { PreparedTable: preparedTable(context) } : {}),
  };
}

/** Makes the version record and the namespace `default`, which every table needs. */
function preparedTable({ table }: TemplateContext) {
  return {
    Type: "Custom::ZaeLimiterTable",
    Properties: {
      ServiceToken: arnOf("ProvisionerFunction"),
      TableName: table.name,
      // A new layout runs the function again.
      SchemaVersion: ref("SchemaVersion"),
    },
  };
}

interface FunctionShape {
  readonly which: "aggregator" | "provisioner";
  readonly description: string;
  readonly role: Text;
  readonly memory: number | Text;
  readonly timeout: number | Text;
  readonly environment: Readonly<Record<string, Text>>;
}

/**
 * The code until the real one is uploaded. It fails, so that the stream is read again from the same place. The text must never change: a
 * new one would be a new version of the code, and would replace what was uploaded.
 */
const PLACEHOLDER =
  'exports.handler = async () => { throw new Error("The code of this function has not been uploaded; run zae-limiter deploy."); };';

/**
 * The code that stands in for the provisioner's. It answers CloudFormation, which would wait an hour otherwise, and an hour more in its rollback. It lets
 * CloudFormation delete a resource that it failed to make itself, but none that the real code made.
 */
const PROVISIONER_PLACEHOLDER = `const ID = "zae-limiter-without-code";
exports.handler = async (event) => {
  const Reason = "The code of this function has not been uploaded; run zae-limiter deploy, or put it there with your own tools.";
  const { ResponseURL, RequestType, PhysicalResourceId = ID, StackId, RequestId, LogicalResourceId } = event;
  if (ResponseURL === undefined) throw new Error(Reason);
  const Status = RequestType === "Delete" && PhysicalResourceId === ID ? "SUCCESS" : "FAILED";
  const body = JSON.stringify({ Status, Reason, PhysicalResourceId, StackId, RequestId, LogicalResourceId });
  await fetch(ResponseURL, { method: "PUT", headers: { "content-type": "" }, body });
};
`;

function functionProperties({ named, options, table }: TemplateContext, shape: FunctionShape): Json {
  const { which, description, role, memory, timeout, environment } = shape;
  return {
    FunctionName: named(NAMES[which]),
    Description: description,
    Runtime: "nodejs22.x",
    Architectures: ["arm64"],
    Handler: "index.handler",
    Role: role,
    MemorySize: memory,
    Timeout: timeout,
    Code: codeOf(options, which),
    ...(options.tracing ? { TracingConfig: { Mode: "Active" } } : {}),
    ...given({ KmsKeyArn: options.kmsKeyArn }),
    Environment: {
      Variables: {
        TABLE_NAME: table.name,
        LOG_LEVEL: "info",
        ZAE_LIMITER_SCHEMA_VERSION: ref("SchemaVersion"),
        ...(options.sharedTable ? { ZAEL_SHARED_TABLE: "1" } : {}),
        ...environment,
      },
    },
  };
}

function codeOf({ codeBucket, codePrefix }: FullStackOptions, which: FunctionShape["which"]): Json {
  if (codeBucket === undefined) return { ZipFile: which === "provisioner" ? PROVISIONER_PLACEHOLDER : PLACEHOLDER };
  return { S3Bucket: codeBucket, S3Key: `${codePrefix ?? ""}${which}.zip` };
}

function logGroup({ options: { name, kmsKeyArn } }: TemplateContext, ending: string) {
  return {
    Type: "AWS::Logs::LogGroup",
    ...GONE_WITH_STACK,
    Properties: {
      LogGroupName:
        name === undefined ? sub(`/aws/lambda/\${AWS::StackName}${ending}`) : `/aws/lambda/${name}${ending}`,
      RetentionInDays: ref("LogRetentionDays"),
      ...given({ KmsKeyId: kmsKeyArn }),
    },
  };
}
